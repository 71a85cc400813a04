"""Warnings: those given once in a process, as PyTorch gives those of its C++ code, and those of a user's line."""

from __future__ import annotations

import sys
import warnings

from .places import JAX, OWN

BYTES_AS_MASKS = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
_BETWEEN = (*OWN, *JAX)
_given: set[str] = set()
always = [False]  # `torch.set_warn_always`


def warn_once(text: str, category: type[Warning] = UserWarning, stacklevel: int = 0, key: str = "") -> None:
    """Warns, unless the same was said before; always after ``torch.set_warn_always(True)``.

    Args:
        key: what counts as the same; by default the text.
        stacklevel: as of `warnings.warn`; 0, the default, for the line that called the package.
    """
    if (key or text) in _given and not always[0]:
        return
    _given.add(key or text)
    if not stacklevel:
        warn_user(text, category)
        return
    warnings.warn(text, category, stacklevel=stacklevel + 1)


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns as of the line that called the package, however many frames of it and of JAX are between."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
