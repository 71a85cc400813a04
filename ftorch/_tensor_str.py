"""How tensors are printed, under PyTorch's private name (``torch._tensor_str``)."""

from __future__ import annotations

from .eager.printing import (  # noqa: F401
    PRINT_OPTS,
    get_printoptions,
    printoptions,
    set_printoptions,
)


def _tensor_str(tensor, *, tensor_contents=None) -> str:
    """The text of ``repr(tensor)``."""
    return repr(tensor)


_str = _tensor_str
