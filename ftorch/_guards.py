"""Which `FakeTensorMode` a program is in, and what is being traced (``torch._guards``)."""

from __future__ import annotations

import threading

from ._subclasses.fake_tensor import FakeTensor, active_fake_mode
from .eager.native.contexts import repeatable
from .utils import _pytree as pytree

_local = threading.local()


class TracingContext:
    """What those who trace a program leave for those whom they call; set by `tracing`.

    Args:
        fake_mode: the `FakeTensorMode` of the trace.
    """

    def __init__(self, fake_mode):
        self.fake_mode = fake_mode

    @staticmethod
    def try_get() -> TracingContext | None:
        """The context around, or None."""
        return getattr(_local, "context", None)

    @staticmethod
    def get() -> TracingContext:
        """The context around.

        Raises:
            RuntimeError: where there is none.
        """
        found = TracingContext.try_get()
        if found is None:
            raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")
        return found


class tracing:
    """Makes ``context`` the one around, for this thread.

    >>> from ftorch._guards import TracingContext, tracing
    >>> with tracing(TracingContext(None)) as context:
    ...     print(TracingContext.get() is context)
    True
    """

    def __init__(self, context: TracingContext | None):
        self._context = context

    def __enter__(self):
        self._outer, _local.context = TracingContext.try_get(), self._context
        return self._context

    @repeatable
    def __exit__(self, *raised):
        _local.context = self._outer


def detect_fake_mode(inputs=None):
    """The mode of the `TracingContext` around, else of fake tensors among the inputs, or the active one; None without.

    Raises:
        AssertionError: there are several.
    """
    context = TracingContext.try_get()
    if context is not None and context.fake_mode is not None:
        return context.fake_mode
    found = [(active_fake_mode(), "active fake mode", 0)]
    for i, value in enumerate(pytree.tree_leaves(inputs)):
        if isinstance(value, FakeTensor):
            found.append((value.fake_mode, "fake tensor input", i))
    found = [f for f in found if f[0] is not None]
    for mode, kind, i in found[1:]:
        first, first_kind, j = found[0]
        if mode is not first:
            raise AssertionError(
                f"fake mode ({first}) from {first_kind} {j} doesn't match mode ({mode}) from {kind} {i}"
            )
    return found[0][0] if found else None


__all__ = ["TracingContext", "detect_fake_mode", "tracing"]
