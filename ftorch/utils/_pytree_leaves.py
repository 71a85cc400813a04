"""Which leaves of a tree a function is for: those of some types, or that a function says."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


def predicate(type_or_types_or_pred):
    """What says of an object whether it is meant."""
    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, type_or_types_or_pred)
    if callable(type_or_types_or_pred):
        return type_or_types_or_pred
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable], Callable]:
    """Restricts a function to some objects: it returns others as they are."""
    applies = predicate(type_or_types_or_pred)

    def restrict(func):
        @functools.wraps(func)
        def restricted(x):
            return func(x) if applies(x) else x

        return restricted

    return restrict
