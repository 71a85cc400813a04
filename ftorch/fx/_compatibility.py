"""The mark of what stays as it is from version to version."""

from __future__ import annotations

import textwrap

__all__ = ["compatibility"]

_BACK_COMPAT_OBJECTS: dict = {}
_MARKED_WITH_COMPATIBILITY: dict = {}


def compatibility(is_backward_compatible: bool):
    """Notes in a docstring whether a function or class is guaranteed to stay compatible.

    >>> from ftorch.fx._compatibility import compatibility
    >>> @compatibility(is_backward_compatible=True)
    ... def f():
    ...     "One."
    >>> "ompatibility is guaranteed" in f.__doc__
    True
    """

    def mark(obj):
        note = (
            "Backwards-compatibility is guaranteed for this API."
            if is_backward_compatible
            else "This API is experimental and is *NOT* backward-compatible."
        )
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(obj)
        _MARKED_WITH_COMPATIBILITY.setdefault(obj)
        text = textwrap.dedent(obj.__doc__ or "").rstrip()
        obj.__doc__ = f"{text}\n\n.. note::\n    {note}\n"
        return obj

    return mark
