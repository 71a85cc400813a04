"""The ``__torch_function__`` protocol (``torch.overrides``): see `ftorch.eager.overrides`."""

from __future__ import annotations

import functools
import inspect
import types

from .eager import overrides as _overrides
from .eager.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    resolve_name,
)
from .eager.tensor import Tensor, modes

__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass",
    "TorchFunctionMode", "get_default_nowrap_functions",
    "get_overridable_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name",
    "wrap_torch_function",
]  # fmt: skip

_disabled_torch_function_impl = _overrides.disabled


def has_torch_function(relevant_args) -> bool:
    """Whether a mode is active or one of the values has a ``__torch_function__`` to be asked."""
    if modes.function_modes:
        return True
    return modes.subclasses and any(_overrides.has_say(type(a)) for a in relevant_args)


def has_torch_function_unary(arg) -> bool:
    """`has_torch_function` for one value."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args) -> bool:
    """`has_torch_function` for the arguments."""
    return has_torch_function(args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """The result of a call that an override makes.

    Args:
        public_api: the function the user called; args, kwargs: its arguments.
        relevant_args: the values whose types are asked.

    Raises:
        TypeError: if every override returns NotImplemented.
    """
    return _overrides.handle(public_api, relevant_args, args, kwargs)


def wrap_torch_function(dispatcher):
    """Decorates a function to ask for overrides; ``dispatcher(*args)`` gives the values to ask."""

    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp) -> bool:
    """Whether a value is a tensor, or has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func) -> bool:
    """Whether a function is one of `Tensor`'s."""
    return func in _tensor_functions() or getattr(func, "__name__", "") in ("__get__", "__set__")


@functools.cache
def _tensor_functions():
    return frozenset(v for v in vars(Tensor).values() if isinstance(v, types.FunctionType))


@functools.cache
def get_overridable_functions() -> dict:
    """{namespace: [functions that ask for overrides]}."""
    from . import fft, linalg, special
    from .eager.attach import public_functions
    from .nn import functional

    namespaces = {
        "torch": public_functions(),
        **{f"torch.{m.__name__.partition('.')[2]}": vars(m) for m in (fft, linalg, special, functional)},
    }
    found = {}
    for name, scope in namespaces.items():
        found[name] = [
            v for k, v in scope.items() if inspect.isfunction(v) and not k.startswith("_")
        ]
    found["torch.Tensor"] = sorted(_tensor_functions(), key=lambda f: f.__name__)
    return found


@functools.cache
def get_default_nowrap_functions() -> frozenset:
    """The attributes whose results subclasses do not wrap."""
    return frozenset((Tensor.grad.__get__, Tensor._base.__get__))


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **({} if kwargs is None else kwargs))
