"""Overloads of ``torch.ops.aten`` that write to tensors, what is told of overloads, and calls that do not fit them."""

import warnings

import pytest
import torch as reference

import ftorch
import ftorch.utils._python_dispatch  # what tests import as an attribute

NAMES = ("add.out", "add.Scalar_out", "sum.IntList_out", "max.dim_max", "clamp.out", "mm.out", "zeros.out", "stack.out",
         "linalg_qr.out", "native_layer_norm.out", "div.out_mode", "gelu_backward.grad_input", "split_copy.Tensor_out",
         "_to_copy.out", "arange.start_out", "uniform.out")


def overload(t, name):
    packet, _, rest = name.partition(".")
    return getattr(getattr(t.ops.aten, packet), rest)


@pytest.mark.parametrize("name", NAMES)
def test_schemas_of_overloads_that_write(name):
    found, wanted = overload(ftorch, name), overload(reference, name)
    assert (str(found), str(found._schema), found.name(), found.__name__, found.__module__) == (
        str(wanted), str(wanted._schema), wanted.name(), wanted.__name__, wanted.__module__)
    assert name.partition(".")[2] in getattr(ftorch.ops.aten, name.partition(".")[0]).overloads()


@pytest.mark.parametrize("call", [
    "add.out(x, x, alpha=2, out=o)", "add.Scalar_out(x, 2, out=o)", "sum.IntList_out(x, [0], out=o)", "mm.out(x, x, out=o)",
    "stack.out([x, x], 1, out=o)",
    "zeros.out([3], out=o)", "clamp.out(x, .5, out=o)",
    "split_copy.Tensor_out(x, 1, out=[o.resize_(1, 2), p.resize_(1, 2)])",
    "max.dim_max(x, 0, max=o, max_values=i)", "linalg_qr.out(x, Q=o, R=p)", "native_layer_norm.out(x, [2], None, None, 1e-5, "
    "out0=o, out1=p, out2=q)", "_to_copy.out(x, out=o)", "softplus.out(x, out=o)", "add.out(x, x)", "add.Tensor(x, x, out=o)",
    "add.out(x.requires_grad_(), x, out=o)", "max.dim_max(x, 0, max=o)", "add.out(x, x, out=i)", "add(x, x, out=o)",
    "add.Tensor(x)", "add.Tensor(x, x, foo=1)", "add.Tensor(x, x, 1)",
    "add.Tensor(x, x, 1, 2)", "add.Tensor(x, 'y')", "relu(3)", "relu.default(x, x)",
    "sum.dim_IntList(x, 'y')", "linear.default.decompose(x, x)", "add.Tensor.decompose(x, x)", "relu.default.decompose(x)",
    "reshape.default.decompose(x, [4])", "add.op.__name__", "add.op.__module__", "add.Tensor.op(x, x)",
])
def test_calls(call):
    def told(t):
        scope = {"x": t.tensor([[1., 2.], [3., 4.5]]), "o": t.zeros(0), "p": t.zeros(0), "q": t.zeros(0)}
        scope["i"] = t.zeros(0, dtype=t.int64)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = eval(f"aten.{call}", {**scope, "aten": t.ops.aten})
        except RuntimeError as error:
            return str(error)
        if isinstance(made, str) or made is NotImplemented:
            return made
        outs = () if made is None else made if isinstance(made, tuple) else (made,)
        same = [next((n for n, v in scope.items() if v is out), None) for out in outs]
        return same, [v.detach().to(t.float64).numpy().round(4).tolist() for v in (*scope.values(), *outs) if v is not None]

    assert told(ftorch) == told(reference)


def test_modes_see_out():
    def told(t):
        seen = []

        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append((str(func), func.__module__, len(args), sorted(kwargs or {})))
                return func(*args, **(kwargs or {}))

        x, o, i = t.ones(2, 2), t.empty(2), t.empty(2, dtype=t.int64)
        with Mode():
            results = [t.add(x, x, out=t.Tensor.new_zeros(x, 2, 2)), t.sum(x, 0, out=o), t.exp(o, out=o),
                       t.max(x, 0, out=(o, i)), t.mm(x, x, out=t.empty(2, 2))]
        return seen, [r is o for r in results], o.tolist(), i.tolist(), type(results[3]).__name__

    assert told(ftorch) == told(reference)


def test_classmethods_are_no_handlers():
    def told(t):
        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        with pytest.raises(RuntimeError) as caught, Mode():
            t.ones(2) + 1
        return str(caught.value)

    assert told(ftorch) == told(reference)


def test_a_library_for_one_key_takes_no_other():
    def told(t):
        library = t.library.Library("aten", "IMPL", dispatch_key="CPU")
        with pytest.raises(RuntimeError) as caught:
            library.impl("sum", lambda *args: args[0], "Meta")
        return str(caught.value).partition("/")[0]

    assert told(ftorch) == told(reference)
