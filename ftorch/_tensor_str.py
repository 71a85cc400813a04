"""How tensors are printed, under PyTorch's private name (``torch._tensor_str``)."""

from __future__ import annotations

from .eager.tensor_api.printing import (  # noqa: F401
    PRINT_OPTS,
    get_printoptions,
    printoptions,
    set_printoptions,
    with_suffixes,
)


def _tensor_str(tensor, *, tensor_contents=None) -> str:
    """The text of ``repr(tensor)``."""
    return repr(tensor)


def _str_intern(inp, *, tensor_contents=None) -> str:
    """The text of ``repr(inp)``, without asking ``__torch_function__``."""
    return repr(inp)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """A tensor's text with what follows its values (``dtype=...``), lines broken as they fit."""
    return with_suffixes(tensor_str, suffixes, indent, force_newline)


_str = _tensor_str
