"""Modes that see calls below autograd (``torch.utils._python_dispatch``), and helpers of subclasses."""

from __future__ import annotations

from .._dispatch import python_dispatch as _engine
from .._dispatch.python_dispatch import state
from ..eager.call.hooks import hooks
from ..eager.call.op import special
from ..eager.native.contexts import contextmanager, repeatable
from ..eager.tensor import Tensor, TensorBase
from . import _pytree as pytree

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing", "transform_subclass",
]


class TorchDispatchMode:
    """A mode whose ``__torch_dispatch__`` sees every op called inside its ``with`` block.

    It is given an overload of ``torch.ops``, the classes with a ``__torch_dispatch__`` among the
    arguments, and the arguments; calls that it makes itself go to the mode around it.

    >>> import ftorch as torch
    >>> from ftorch.utils._python_dispatch import TorchDispatchMode
    >>> class Log(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Log():
    ...     y = (x * 2).sum()
    aten.mul.Tensor
    aten.sum.default
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Override: the result of a call, or NotImplemented."""
        raise NotImplementedError

    def __enter__(self):
        _engine.install()
        state.stack = [*state.stack, self]  # what `activate` does, without a call, where an interrupt could come
        _engine.users[0] += 1
        special[0] += 1
        return self

    @repeatable
    def __exit__(self, *_):
        state.stack = state.stack[:-1]
        _engine.users[0] -= 1
        special[0] -= 1
        if not _engine.users[0]:
            hooks.python = hooks.python_view = None

    @classmethod
    def push(cls, *args, **kwargs):
        """The older way of ``with Mode():``."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **({} if kwargs is None else kwargs))


def _get_current_dispatch_mode():
    """The innermost mode, or None."""
    return state.stack[-1] if state.stack else None


def _get_current_dispatch_mode_stack() -> list:
    """The modes, outermost first."""
    return list(state.stack)


def _len_torch_dispatch_stack() -> int:
    return len(state.stack)


def _push_mode(mode) -> None:
    mode.__enter__()


def _pop_mode():
    mode = state.stack[-1]
    mode.__exit__(None, None, None)
    return mode


@contextmanager
def _disable_current_modes():
    """Within, no mode sees calls; gives the modes that were active."""
    outer, state.stack = state.stack, []
    try:
        yield outer
    finally:
        state.stack = outer


def is_traceable_wrapper_subclass(t) -> bool:
    """Whether a tensor's class says how to take it apart: ``__tensor_flatten__``, ``__tensor_unflatten__``."""
    kind = type(t)
    is_subclass = isinstance(t, TensorBase) and kind is not Tensor
    return (
        is_subclass and _engine.has_dispatch(kind) and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass_type(t) -> bool:
    """`is_traceable_wrapper_subclass` for a class."""
    return (
        issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A wrapper like ``t`` around ``callback(name, tensor)`` of each of its tensors."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(
        inner, context,
        t.size() if outer_size is None else outer_size,
        t.stride() if outer_stride is None else outer_stride,
    )


def return_and_correct_aliasing(func, args, kwargs, out):
    """What a wrapper's ``__torch_dispatch__`` returns, sharing memory as the op's schema says.

    An op that writes to an argument returns that argument itself; a view of a wrapper shares its
    storage, so that autograd and ``untyped_storage`` see that they alias.
    """
    arguments = getattr(func._schema, "arguments", ())
    written = [i for i, a in enumerate(arguments) if a.is_write]
    if func._form == "inplace" and not written:
        written = [0]
    if written:
        named = {} if kwargs is None else kwargs
        given = [args[i] if i < len(args) else named.get(arguments[i].name) for i in written]
        if isinstance(out, TensorBase):
            return given[0]
        return type(out)(given) if isinstance(out, (tuple, list)) and out else out
    if func.is_view and args and isinstance(args[0], TensorBase):
        source = args[0]
        for t in pytree.tree_leaves(out):
            if isinstance(t, TensorBase) and t._ftorch_storage.error is not None and t is not source:
                t._ftorch_storage = source._ftorch_storage
    return out
