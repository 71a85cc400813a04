"""What libraries call: older constructors (views that gradients flow through), overridden indexing, limits of types."""

import pytest
import torch as reference

import ftorch

CALLS = ("t.Tensor(x)", "S(x)", "t.FloatTensor(x)", "x.new(x)", "S(S(x))", "t.Tensor(x * 2)", "t.Tensor(t.ones(2))",
         "t.ones(1).new(t.ones(2))", "t.LongTensor(t.arange(2))", "t.Tensor(x.detach())")


@pytest.mark.parametrize("call", CALLS)
def test_views(call):
    def told(t):
        scope = {"t": t, "S": type("S", (t.Tensor,), {}), "x": t.ones(2, requires_grad=True)}
        y = eval(call, scope)
        if y.requires_grad:
            y.mul(3).sum().backward()
        grad = scope["x"].grad
        return (type(y).__name__, y.requires_grad, y.is_leaf, type(y.grad_fn).__name__, y._is_view(), str(y.dtype),
                None if grad is None else grad.tolist())

    assert told(ftorch) == told(reference)


@pytest.mark.parametrize("index", ["0", "slice(1, 3)", "(0, 1)", "[0, 1]", "None", "t.tensor([0, 1])", "t.ones(4, 2) > 0"])
def test_a_class_calls_the_indexing_that_it_overrides(index):
    """What `Tensor.__getitem__` gives is of the class, as where the class inherits it."""
    def told(t):
        class Labelled(t.Tensor):
            def __getitem__(self, index):
                return super().__getitem__(index)

        x, index_ = t.ones(4, 2).as_subclass(Labelled), eval(index, {"t": t})
        return [(type(y).__name__, list(y.shape)) for y in (x[index_], t.Tensor.__getitem__(x, index_))]

    assert told(ftorch) == told(reference)


@pytest.mark.parametrize("call", [
    "finfo(float).eps", "iinfo(int).max", "finfo(complex).eps", "finfo(int)", "iinfo(float)", "iinfo(bool)", "finfo(str)",
    "finfo(type=float).bits",
])
def test_limits_of_pythons_types(call):
    def told(t):
        try:
            return eval(f"t.{call}", {"t": t})
        except TypeError as error:
            return str(error)

    assert told(ftorch) == told(reference)


def test_packets_of_the_overloads_that_wrappers_get():
    """A wrapper calls ``func.overloadpacket`` with what it holds."""
    found = []
    for torch in (ftorch, reference):
        called = []

        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # noqa: B023
                made.inner = inner
                return made

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                packet = func.overloadpacket
                called.append(str(packet))  # noqa: B023
                return cls(packet(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {})))

        x = Wrapper(torch.arange(4.0))
        results = [x.detach(), x.to(torch.float64), x.clone(), x.view(2, 2)]
        found.append((called, [r.inner.tolist() for r in results], [str(r.inner.dtype) for r in results]))
    assert found[0] == found[1]
