"""``__torch_dispatch__``: modes and subclasses see the calls that they see in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.utils import _python_dispatch as ours
from ftorch.utils import _pytree as our_tree

pt_dispatch, pt_tree = pt.utils._python_dispatch, pt.utils._pytree


def modules(torch):
    return (ours, our_tree.tree_map) if torch is ft else (pt_dispatch, pt_tree.tree_map)


def text(value):
    if isinstance(value, (ft.Tensor, pt.Tensor)):
        if type(value).__name__ == "Wrapper":
            return f"Wrapper {text(value.elem)} {value.requires_grad}"
        return f"{np.round(value.detach().double().numpy(), 4).tolist()} {value.dtype} {value.requires_grad}"
    if isinstance(value, (list, tuple)):
        return [text(v) for v in value]
    return str(value)


def wrapper(torch, seen):
    """The commonest subclass: it holds another tensor and logs what is called."""
    tree_map = modules(torch)[1]

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, elem, requires_grad=False):
            out = torch.Tensor._make_wrapper_subclass(
                cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(),
                dtype=elem.dtype, layout=elem.layout, device=elem.device,
                requires_grad=requires_grad,
            )
            out.elem = elem
            return out

        def __repr__(self):
            return f"Wrapper({self.elem})"

        def __tensor_flatten__(self):
            return ["elem"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Wrapper(inner["elem"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            inner = lambda t: t.elem if isinstance(t, Wrapper) else t  # noqa: E731
            result = func(*tree_map(inner, args), **tree_map(inner, kwargs or {}))
            out = tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, result)
            return modules(torch)[0].return_and_correct_aliasing(func, args, kwargs or {}, out)

    return Wrapper


CALLS = [
    lambda t, x: x + 1,
    lambda t, x: x * x,
    lambda t, x: x @ x.t(),
    lambda t, x: x.sum(1),
    lambda t, x: x[0, 1:],
    lambda t, x: x.clone().add_(1),
    lambda t, x: x.detach(),
    lambda t, x: x.to(t.float64),
    lambda t, x: x.sum().item(),
    lambda t, x: bool(x.sum() > 0),
    lambda t, x: t.cat([x, x]),
    lambda t, x: x.nonzero(),
    lambda t, x: t.nn.functional.relu(x),
    lambda t, x: t.nn.functional.linear(x, t.ones(2, 3), t.ones(2)),
    lambda t, x: x.softmax(-1),
    lambda t, x: x.view(3, 2),
    lambda t, x: x.max(0)[0],
    lambda t, x: x == 1,
    lambda t, x: x**2,
    lambda t, x: x.double(),
    lambda t, x: x.clone().copy_(x),
    lambda t, x: t.ones(2, 3) + x,
    lambda t, x: t.zeros_like(x),
    lambda t, x: x.new_zeros(2),
    lambda t, x: x.transpose(0, 1).unsqueeze(0),
    lambda t, x: t.where(x > 1, x, x),
    lambda t, x: x.data_ptr() != 0,
    lambda t, x: t.equal(x, x),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_mode_sees_calls(number):
    def program(torch):
        seen = []

        class Log(modules(torch)[0].TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append((str(func), len(types), len(args)))
                return func(*args, **(kwargs or {}))

        x = torch.arange(6.0).reshape(2, 3)
        with Log():
            result = CALLS[number](torch, x)
        return seen, text(result)

    assert program(ft) == program(pt)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_subclass_sees_calls(number):
    def program(torch):
        seen = []
        x = wrapper(torch, seen)(torch.arange(6.0).reshape(2, 3))
        result = CALLS[number](torch, x)
        return seen, text(result), type(result).__name__

    assert program(ft) == program(pt)


def _gradient(torch, W):
    x = W(torch.arange(3.0), requires_grad=True)
    y = (x * x).sin().sum()
    y.backward()
    y = (x * 2).sum()
    y.backward()
    return y, y.grad_fn.name(), x.grad, type(x.grad).__name__


def _second_gradient(torch, W):
    x = W(torch.arange(3.0), requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return g, torch.autograd.grad(g.sum(), x)


def _inplace_gradient(torch, W):
    x = W(torch.arange(3.0), requires_grad=True)
    y = x * 1
    same = y.mul_(3).add_(x)
    return y, same is y, y.grad_fn.name(), torch.autograd.grad(y.sum(), x)


def _leaf(torch, W):
    x = W(torch.arange(3.0), requires_grad=True)
    try:
        x.add_(1)
    except RuntimeError as error:
        return str(error)


def _properties(torch, W):
    x = W(torch.arange(6.0).reshape(2, 3).t())
    return (tuple(x.shape), x.stride(), x.dtype, str(x.device), x.is_contiguous(), type(x).__name__,
            str(x), x.is_leaf, modules(torch)[0].is_traceable_wrapper_subclass(x))


def _refuses(torch, W):
    found = []
    for call in (lambda: W(torch.ones(2)).numpy(), lambda: W(torch.ones(2)).tolist(),
                 lambda: torch.Tensor._make_wrapper_subclass(int, (2,)),
                 lambda: torch.Tensor._make_wrapper_subclass(torch.Tensor, (2,))):
        try:
            call()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


def _module(torch, W):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    out = net(W(torch.arange(6.0).reshape(2, 3)))
    out.sum().backward()
    return out, [p.grad for p in net.parameters()]


@pytest.mark.parametrize("program", [
    _gradient, _second_gradient, _inplace_gradient, _leaf, _properties, _refuses, _module,
], ids=lambda p: p.__name__)
def test_subclass(program):
    mine, theirs = (text(program(t, wrapper(t, []))) for t in (ft, pt))
    assert mine == theirs


def _change(torch, log):
    class Change(modules(torch)[0].TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.sin.default:
                func = torch.ops.aten.cos.default
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Change():
        y = x.sin()
    y.sum().backward()
    log(y, x.grad)


def _nested(torch, log):
    class Numbered(modules(torch)[0].TorchDispatchMode):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log(self.n, func)
            return func(*args, **(kwargs or {}))

    dispatch = modules(torch)[0]
    log(dispatch._get_current_dispatch_mode(), dispatch._len_torch_dispatch_stack())
    with Numbered(1), Numbered(2) as inner:
        torch.ones(2).exp()
        log(dispatch._get_current_dispatch_mode() is inner, dispatch._len_torch_dispatch_stack())
        with dispatch._disable_current_modes():
            torch.ones(2).exp()
    torch.ones(2).exp()


def _declines(torch, log):
    class Decline(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.Tensor._make_wrapper_subclass(Decline, (2,))
    try:
        x.sin()
    except TypeError as error:
        log(str(error).replace(str(Decline), "Decline"))


def _with_data(torch, log):
    class Sub(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_subclass(cls, data)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log(func, [t.__name__ for t in types])
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    x = Sub(torch.ones(2))
    y = x + 1
    log(y, type(y).__name__, isinstance(x, Sub))


def _custom_op(torch, log):
    def f(x):
        return x * 2

    f.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    op = torch.library.custom_op("python_dispatch::f", f, mutates_args=())

    class Mode(modules(torch)[0].TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log("mode", func)
            return func(*args, **(kwargs or {}))

    with Mode():
        result = op(torch.ones(2))
    log(result)
    op.register_torch_dispatch(Mode, lambda mode, func, types, args, kwargs: torch.zeros(1))
    with Mode():
        result = op(torch.ones(2))
    log(result)


def _creation(torch, log):
    class Mode(modules(torch)[0].TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log(func, args, sorted(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Mode():
        torch.ones(2)
        torch.zeros(2, 3, dtype=torch.float64)
        torch.full((2,), 3.0)
        torch.arange(3)
        torch.manual_seed(0)
        log(torch.randn(2, requires_grad=True).requires_grad)


@pytest.mark.parametrize("program", [
    _change, _nested, _declines, _with_data, _custom_op, _creation,
], ids=lambda p: p.__name__)
def test_same_in_both(program):
    logs = []
    for torch in (ft, pt):
        lines: list = []
        program(torch, lambda *v, lines=lines: lines.append(text(v)))
        logs.append(lines)
    assert logs[0] == logs[1]
    assert logs[0]


def test_nothing_is_left_behind():
    from ftorch.eager.call.op import hooks, special

    before = special[0]
    with pytest.raises(ValueError, match="inside"), ours.BaseTorchDispatchMode():
        raise ValueError("inside")
    assert special[0] == before and hooks.python is None
