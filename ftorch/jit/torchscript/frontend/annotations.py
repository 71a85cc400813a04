"""Marks for ``jit.script`` on functions and values; to Python they mean nothing."""

from __future__ import annotations

import warnings
from typing import Final

from ..program.types import Attribute

__all__ = ["Attribute", "Final", "ScriptWarning", "annotate", "export", "ignore", "unused"]


class ScriptWarning(Warning):
    """Something in scripted code is probably not meant so."""

    __module__ = "ftorch.jit"


def _overload(func):
    """Marks a signature of a function of several; the last definition is the one that is compiled."""
    return func


_overload_method = _overload


def ignore(drop=False, **kwargs):
    """Marks a method to be left to Python; ``@ignore`` or ``@ignore(drop=True)``."""
    if callable(drop):
        drop._torchscript_modifier = "IGNORE"
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")  # noqa: TRY004
    dropped = kwargs.pop("drop_on_export", None)
    if dropped or drop:
        warnings.warn(
            f"ignore({'drop_on_export=True' if dropped else 'True'}) has been deprecated. TorchScript will now drop the "
            "function call on compilation. Use torch.jit.unused now. {}", category=FutureWarning, stacklevel=2,
        )
        drop = True

    def decorate(function):
        function._torchscript_modifier = "UNUSED" if drop else "IGNORE"
        return function

    return decorate


def unused(fn):
    """Marks a method that compiled code does not call: it becomes an exception there."""
    if isinstance(fn, property):
        for accessor in (fn.fget, fn.fset):
            if accessor is not None:
                accessor._torchscript_modifier = "UNUSED"
        return fn
    fn._torchscript_modifier = "UNUSED"
    return fn


def export(fn):
    """Marks a method to be compiled although ``forward`` does not call it."""
    fn._torchscript_modifier = "EXPORT"
    return fn


def annotate(the_type, the_value):
    """``the_value``: the type is for the compiler."""
    return the_value
