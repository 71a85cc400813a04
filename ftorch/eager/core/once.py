"""Warnings that are given once in a process, as PyTorch gives those of its C++ code."""

from __future__ import annotations

import warnings

_given: set[str] = set()
always = [False]  # `torch.set_warn_always`


def warn_once(text: str, category: type[Warning] = UserWarning, stacklevel: int = 2, key: str = "") -> None:
    """Warns, unless the same was said before; always after ``torch.set_warn_always(True)``.

    Args:
        key: what counts as the same; by default the text.
    """
    if (key or text) in _given and not always[0]:
        return
    _given.add(key or text)
    warnings.warn(text, category, stacklevel=stacklevel + 1)
