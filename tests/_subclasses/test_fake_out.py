"""Calls with ``out=`` on tensors without elements, and calls of creation functions with it that modes see."""

import pytest
import torch as reference
import torch._subclasses.fake_tensor
import torch.utils._python_dispatch

import ftorch

CALLS = [
    "t.add(a, a, out=t.empty(0))", "t.add(a, a, out=t.empty(2, 3))", "t.mm(a, a.T, out=t.empty(0))",
    "t.max(a, 0, out=(t.empty(0), t.empty(0, dtype=t.int64)))[1]", "t.max(a, a, out=t.empty(0))",
    "t.zeros(2, out=t.empty(0))", "t.arange(3, out=t.empty(0))", "t.randn(2, out=t.empty(0))", "t.ones(2, 3).resize_(4, 5)",
    "t.empty(0).set_(t.ones(2, 3))", "t.empty(0).set_(t.ones(6), 1, (2, 2), (1, 3))",
    "t.full((2,), 1, out=t.empty(2, dtype=t.int64))", "t.linspace(0, 1, 4, out=t.empty(0, dtype=t.float64))",
]


@pytest.mark.parametrize("call", CALLS)
def test_fake(call):
    def told(t):
        with t._subclasses.fake_tensor.FakeTensorMode():
            made = eval(call, {"t": t, "a": t.ones(2, 3)})
            return type(made).__name__, tuple(made.shape), made.stride(), str(made.dtype), str(made.device)

    import ftorch._subclasses.fake_tensor

    assert told(ftorch) == told(reference)


@pytest.mark.parametrize("call", CALLS[:-4])
def test_meta(call):
    def told(t):
        with t.device("meta"):
            made = eval(call, {"t": t, "a": t.ones(2, 3)})
        return tuple(made.shape), made.stride(), str(made.dtype), made.untyped_storage().nbytes()

    assert told(ftorch) == told(reference)


@pytest.mark.parametrize("call", [
    "t.zeros(2, 3, out=o)", "t.ones(2, out=o)", "t.full((2,), 1., out=o)", "t.arange(3, out=o)", "t.arange(1, 3, .7, out=o)",
    "t.linspace(0, .3, 4, out=o)", "t.eye(2, out=o)", "t.rand(2, out=o)", "t.randperm(3, out=o.long())",
    "t.randint(3, (2,), out=o.long())", "t.normal(0., a, out=o)", "t.normal(a, a, out=o)",
    "t.bernoulli(a / 2, out=o)", "t.multinomial(a, 2, out=o.long())", "t.logspace(0, 1, 2, out=o)",
    "t.ops.aten.linspace.out(0, .3, 4, out=o)", "t.ops.aten.zeros_like.out(a, out=o)", "t.ops.aten.rand_like.out(a, out=o)",
])
def test_modes_see_creation(call):
    def told(t):
        calls = []

        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                calls.append((str(func), sorted(kwargs or {})))
                return func(*args, **(kwargs or {}))

        t.manual_seed(0)
        out, a = t.empty(0, dtype=t.float64), t.ones(2, 3, dtype=t.float64)
        with Mode():
            made = eval(call, {"t": t, "o": out, "a": a})
        return calls, str(made.dtype), made.tolist()

    import ftorch.utils._python_dispatch

    assert told(ftorch) == told(reference)


@pytest.mark.parametrize("default", ["", "=3"])
def test_arguments_say_whether_they_have_a_default(default):
    def told(t):
        library = t.library.Library("fake_out_test", "FRAGMENT")
        name = "f" + str(len(default))
        library.define(f"{name}(Tensor x, int n{default}) -> Tensor")
        schema = getattr(t.ops.fake_out_test, name).default._schema
        return [(a.name, a.has_default_value(), a.kwarg_only) for a in schema.arguments]

    assert told(ftorch) == told(reference)
