"""What helps type checkers (``torch.utils._typing_utils``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def not_none(obj: T | None) -> T:
    """The value.

    Raises:
        TypeError: it is None.

    >>> from ftorch.utils._typing_utils import not_none
    >>> not_none(0)
    0
    """
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj


def copy_func_params(source_func: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """A decorator that tells type checkers that a function takes another's arguments; at run time it does nothing."""
    return lambda func: func


copy_method_params = copy_func_sig = copy_method_sig = copy_func_params
