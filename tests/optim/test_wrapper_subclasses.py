"""Parameters whose class has a `__torch_dispatch__`: optimizers, `.data` and finite differences go through it."""

import pytest

import ftorch
import ftorch.nn
import ftorch.optim
import ftorch.utils._pytree

torch = pytest.importorskip("torch")


def _wrapper(t):
    from importlib import import_module

    tree_map = import_module(f"{t.__name__}.utils._pytree").tree_map

    class Logged(t.Tensor):
        log: list = []

        @staticmethod
        def __new__(cls, inner, requires_grad=False):
            made = t.Tensor._make_wrapper_subclass(
                cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device,
                requires_grad=requires_grad)
            made.inner = inner.detach()
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.log.append(str(func))
            plain = lambda x: x.inner if isinstance(x, cls) else x  # noqa: E731
            out = func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))
            return tree_map(lambda x: cls(x) if isinstance(x, t.Tensor) else x, out)

    return Logged


def _data(t):
    kind = _wrapper(t)
    w = kind(t.arange(3.0), requires_grad=True)
    kind.log.clear()
    version = w._version
    w.data.add_(1)
    kinds = (type(w.data) is kind, type(t.nn.Parameter(w).data) is kind, w.data.requires_grad)
    return kinds, w.inner.tolist(), w._version - version, kind.log[:2]


def test_data_is_of_the_class():
    assert _data(ftorch) == _data(torch)


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam"])
def test_steps(name, foreach):
    def trained(t):
        kind = _wrapper(t)
        wrapped, plain = t.nn.Parameter(kind(t.tensor([1.0, -2.0]))), t.nn.Parameter(t.ones(2))
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(t.optim, name)([wrapped, plain], lr=0.1, foreach=foreach, **options)
        for _ in range(3):
            optimizer.zero_grad()
            ((wrapped * 3).sum() + (plain * 2).sum()).backward()
            optimizer.step()
        return wrapped.inner.tolist() + plain.tolist()

    assert trained(ftorch) == pytest.approx(trained(torch), abs=1e-5)


def test_finite_differences():
    kind = _wrapper(ftorch)
    x = kind(ftorch.tensor([1.0, 2.0], dtype=ftorch.float64), requires_grad=True)
    assert ftorch.autograd.gradcheck(lambda x: (x * x).sum(), (x,))
