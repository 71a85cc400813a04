"""Where a reference's function is found: what a public module, tensors or ATen's operators have by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

_ROOT = __package__.rpartition(".")[0]

_OTHER_NAMES = {"swap_axes": "swapaxes", "trunc_divide": "div_trunc"}


def finder(module: str, public: str) -> tuple[Callable[[str], object], list[str]]:
    """A ``__getattr__`` for a module of references, and its ``__all__``.

    Args:
        module: the full name of the module of references.
        public: the name below the root of the module whose functions they are, ``""`` for the root itself.
    """
    found = importlib.import_module(f"{_ROOT}.{public}" if public else _ROOT)

    def __getattr__(name: str):  # noqa: N807
        if not name.startswith("__"):
            value = _value(found, _OTHER_NAMES.get(name, name))
            if value is not None:
                return value
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__, names(found)


def names(module: ModuleType) -> list[str]:
    """The public functions of a module, sorted."""
    return sorted(
        name for name in dir(module)
        if not name.startswith("_") and callable(value := getattr(module, name)) and not isinstance(value, type)
    )


def _reduction(function, name):
    """A reduction whose dimensions are all it takes: None, an int or several, ``keepdim`` for all of them as well."""
    def reference(a, dim=None, *args, keepdim=False, **options):
        if name != "prod":
            if dim is None and (keepdim or args or name in ("std", "var")):
                dim = tuple(range(a.ndim))
            if dim is None:
                return function(a, *args, **options)
            return function(a, dim, *args, keepdim=keepdim, **options)
        dims = range(a.ndim) if dim is None or dim == () else (dim,) if isinstance(dim, int) else dim
        if len({d % max(a.ndim, 1) for d in dims}) < len(dims):
            raise RuntimeError("duplicate value in the list of dims")
        if not a.ndim:
            return function(a, **options)
        for d in sorted((d + a.ndim if d < 0 else d for d in dims), reverse=True):
            a = function(a, d, keepdim=keepdim, **options)
        return a

    reference.__name__ = name
    return reference


def _value(public, name):
    torch = importlib.import_module(_ROOT)
    if name in ("sum", "prod", "mean", "std", "var") and public is torch:
        return _reduction(getattr(torch, name), name)
    if name == "div_trunc":
        return lambda a, b: torch.div(a, b, rounding_mode="trunc")
    value = getattr(public, name, None)
    if callable(value) and not isinstance(value, (type, ModuleType)):
        return value
    value = getattr(torch.Tensor, name, None)
    if value is None and name[0] == "r":
        value = getattr(torch.Tensor, f"__{name}__", None)  # rpow, rtruediv, ...
    if value is not None:
        return value if callable(value) else lambda a: getattr(a, name)
    if name == "copy_to":
        return torch.Tensor.copy_
    writing = getattr(torch.Tensor, f"{name}_", None)
    if writing is not None:  # exponential, cauchy, ...: only in place
        return lambda a, *args, **kwargs: writing(a.clone(), *args, **kwargs)
    function = getattr(public, name.removesuffix("_"), None)
    if function is not None:
        return lambda a, *args, **kwargs: a.copy_(function(a, *args, **kwargs))
    return getattr(torch.ops.aten, name, None)
