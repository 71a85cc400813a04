"""The ``__torch_function__`` protocol (``torch.overrides``): see `ftorch.eager.dispatch.overrides`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys

from ._alias import is_own
from .eager.core.public_functions import is_function, python_of
from .eager.core.registry import OVERLOADS
from .eager.dispatch import overrides as _overrides
from .eager.dispatch.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    resolve_name,
)
from .eager.native.contexts import contextmanager
from .eager.tensor import Tensor, modes

__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass",
    "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "redispatch_function", "resolve_name", "wrap_torch_function",
]

_disabled_torch_function_impl = _overrides.disabled


_skipped: list = []  # functions that `redispatch_function` calls: they are not to look


def has_torch_function(relevant_args) -> bool:
    """Whether a mode is active or one of the values has a ``__torch_function__`` to be asked."""
    if _skipped and _skipped[-1].__code__ is sys._getframe(1).f_code:
        _skipped.pop()
        return False
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
    return frozenset(v for v in vars(Tensor).values() if is_function(v))


# --- what can be overridden ----------------------------------------------------------


def _namespaces() -> list:
    """(a namespace, its functions by name), as programs know them."""
    import ftorch as torch

    from . import fft, linalg, special

    return [
        (owner, {n: getattr(owner, n) for n in dir(owner) if not n.startswith("_")})
        for owner in (torch, torch.nn.functional, linalg, fft, special)
    ]


# Public functions that ask nobody: they take no tensors, or only settings.
_IGNORED = frozenset(
    "are_deterministic_algorithms_enabled arange as_strided as_tensor asarray "
    "assert_int_or_pair autocast_decrement_nesting autocast_increment_nesting bartlett_window "
    "blackman_window boolean_dispatch broadcast_shapes can_cast clear_autocast_cache compile cond "
    "empty empty_permuted empty_strided eye export from_dlpack from_file from_jax from_numpy frombuffer full "
    "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_default_device "
    "get_default_dtype get_deterministic_debug_mode get_float32_matmul_precision "
    "get_num_interop_threads get_num_threads get_rng_state grouped_mm hamming_window handle_torch_function "
    "hann_window has_torch_function has_torch_function_unary has_torch_function_variadic "
    "initial_seed is_autocast_available is_autocast_cache_enabled is_autocast_cpu_enabled "
    "is_autocast_enabled is_deterministic_algorithms_warn_only_enabled is_grad_enabled "
    "is_inference_mode_enabled is_storage is_tensor is_warn_always_enabled kaiser_window linspace load "
    "logspace manual_seed normal ones promote_types rand rand_like randint randint_like randn "
    "randn_like randperm range result_type save scalar_tensor seed set_autocast_cache_enabled "
    "set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled "
    "set_default_device set_default_dtype set_default_tensor_type set_deterministic_debug_mode "
    "set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads "
    "set_printoptions set_rng_state set_warn_always sigmoid_ tanh_ tensor tril_indices triu_indices typename "
    "upsample upsample_bilinear upsample_nearest use_deterministic_algorithms vander vmap "
    "while_loop zeros fftfreq rfftfreq".split()
)
_IGNORED_METHODS = frozenset(
    "__delitem__ __dir__ __hash__ __init__ __init_subclass__ __iter__ __new__ __subclasshook__ "
    "__torch_function__ _make_subclass _make_wrapper_subclass as_subclass new new_empty "
    "new_empty_strided new_full new_ones new_tensor new_zeros".split()
)


@functools.cache
def get_ignored_functions() -> set:
    """The public functions that do not ask for overrides."""
    found = {
        v for _, functions in _namespaces() for n, v in functions.items()
        if n in _IGNORED and callable(v)
    }
    return found | {vars(Tensor)[n] for n in _IGNORED_METHODS if is_function(vars(Tensor).get(n))}


@functools.cache
def get_overridable_functions() -> dict:
    """{namespace: [functions that ask for overrides]}; attributes of tensors by their getters."""
    ignored, found = get_ignored_functions(), {}
    for owner, functions in _namespaces():
        found[owner] = [
            v for v in functions.values()
            if is_function(v) and v not in ignored and (
                is_own(python_of(v).__globals__.get("__name__"), "eager") or is_own(v.__module__, "nn.functional")
                or hasattr(python_of(v), "__ftorch_ops__")
            )
        ]
    found[Tensor] = [f for f in sorted(_tensor_functions(), key=lambda f: f.__name__)
                     if f not in ignored and f.__name__ not in _IGNORED_METHODS]
    for value in vars(Tensor).values():
        if isinstance(value, property):
            found[value] = [value.__get__]
    return found


@functools.cache
def get_testing_overrides() -> dict:
    """{function that can be overridden: one of its signature that returns -1}.

    >>> import inspect
    >>> import ftorch as torch
    >>> stand_in = torch.overrides.get_testing_overrides()[torch.add]
    >>> stand_in(torch.ones(2), 1)
    -1
    """
    return {f: _stand_in(f) for functions in get_overridable_functions().values() for f in functions}


def _stand_in(function):
    if getattr(function, "__name__", "") == "__get__":
        return lambda self: -1

    def stand_in(*args, **kwargs):
        return -1

    with contextlib.suppress(ValueError, TypeError):
        stand_in.__signature__ = _signature(function)  # type: ignore[attr-defined]
    return stand_in


def _signature(function):
    """The function's signature; of several overloads the first."""
    definitions = getattr(python_of(function), "__ftorch_ops__", None) or OVERLOADS.get(function.__name__)
    own = inspect.signature(python_of(function))
    if not definitions or [p.kind for p in own.parameters.values()] != [
        inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    ]:
        return own
    parameters, schema = [], definitions[0].schema
    for a in schema.arguments:
        name = "input" if a.name == "self" else a.name
        kind = inspect.Parameter.KEYWORD_ONLY if a.is_keyword_only else (
            inspect.Parameter.POSITIONAL_OR_KEYWORD)
        default = a.default if a.has_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


@functools.cache
def get_default_nowrap_functions() -> frozenset:
    """The attributes whose results subclasses do not wrap."""
    return frozenset((Tensor.grad.__get__, Tensor._base.__get__))


# --- modes ---------------------------------------------------------------------------


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **({} if kwargs is None else kwargs))


def _get_current_function_mode():
    """The innermost mode, or None."""
    return modes.function_modes[-1] if modes.function_modes else None


def _get_current_function_mode_stack() -> list:
    """The modes, outermost first."""
    return list(modes.function_modes)


def _len_torch_function_stack() -> int:
    return len(modes.function_modes)


def _is_torch_function_mode_enabled() -> bool:
    return bool(modes.function_modes)


def _push_mode(mode) -> None:
    mode.__enter__()


def _pop_mode():
    mode = modes.function_modes[-1]
    mode.__exit__(None, None, None)
    return mode


@contextmanager
def _pop_mode_temporarily():
    """Within, the innermost mode sees no calls; gives it."""
    outer = modes.function_modes
    modes.function_modes = outer[:-1]
    try:
        yield outer[-1]
    finally:
        modes.function_modes = outer


@contextmanager
def enable_reentrant_dispatch():
    """Within a ``__torch_dispatch__``, calls would go through all of the dispatcher: they do anyway."""
    yield


def redispatch_function(func, types, args, kwargs):
    """Calls a function whose next look for overrides finds none; what it calls looks again.

    >>> import ftorch as torch
    >>> class Doubled(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return torch.overrides.redispatch_function(func, types, args, kwargs)
    >>> type(torch.ones(2).as_subclass(Doubled) + 1).__name__
    'Tensor'
    """
    kwargs = {} if kwargs is None else kwargs
    if inspect.isfunction(func) and not is_own(func.__module__):
        _skipped.append(func)
        try:
            return func(*args, **kwargs)
        finally:
            if func in _skipped:
                _skipped.remove(func)
    before, modes.function_modes = modes.function_modes, modes.function_modes[:0]
    try:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    finally:
        modes.function_modes = before
