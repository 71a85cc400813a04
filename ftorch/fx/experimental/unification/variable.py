"""Logic variables."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import Any

__all__ = ["Var", "isvar", "var", "variables", "vars"]

_numbers = itertools.count()
_literals: set = set()  # values that count as variables for now


class Var:
    """A logic variable; equal tokens are one variable."""

    def __init__(self, *token: Any):
        self.token = token[0] if token else f"_{next(_numbers)}"

    def __str__(self):
        return f"~{self.token}"

    __repr__ = __str__

    def __eq__(self, other):
        return type(self) is type(other) and self.token == other.token

    def __hash__(self):
        return hash((type(self), self.token))


def var():
    """A new variable."""
    return Var()


def vars():  # noqa: A001  (PyTorch's)
    """Functions that make variables."""
    return [var]


def isvar(v) -> bool:
    """Whether a value is a variable, or counts as one within `variables`."""
    if isinstance(v, Var):
        return True
    try:
        return v in _literals
    except TypeError:
        return False


@contextmanager
def variables(*values):
    """A ``with`` block in which some values count as variables."""
    added = [v for v in values if v not in _literals]
    _literals.update(added)
    try:
        yield
    finally:
        _literals.difference_update(added)
