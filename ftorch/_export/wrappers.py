"""What exported programs keep of users' classes (``torch._export.wrappers``)."""

from __future__ import annotations

import functools

__all__ = ["mark_subclass_constructor_exportable_experimental"]


def mark_subclass_constructor_exportable_experimental(constructor_subclass):
    """A decorator for ``__init__`` of tensor subclasses: exported programs take its tensors apart, as all subclasses'.

    Raises:
        RuntimeError: the function is not called ``__init__``.

    >>> from ftorch._export.wrappers import mark_subclass_constructor_exportable_experimental as mark
    >>> mark(len)
    Traceback (most recent call last):
    ...
    RuntimeError: torch._export.wrappers.mark_constructor_exportable_experimental can only be applied on subclass ...
    """
    if getattr(constructor_subclass, "__name__", "") != "__init__":
        raise RuntimeError(
            "torch._export.wrappers.mark_constructor_exportable_experimental can only be applied on subclass tensor.__init__"
            f"But, you are adding it on {constructor_subclass.__name__} which is not supported. "
            "If __init__ doesn't exist on your subclass, please add it. Look at DTensor.__init__ implementation for example"
        )

    @functools.wraps(constructor_subclass)
    def __init__(*args, **kwargs):  # noqa: N807
        constructor_subclass(*args, **kwargs)

    return __init__
