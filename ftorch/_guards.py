"""Which `FakeTensorMode` a program is in (``torch._guards``)."""

from __future__ import annotations

from ._subclasses.fake_tensor import FakeTensor, active_fake_mode
from .utils import _pytree as pytree


def detect_fake_mode(inputs=None):
    """The mode of fake tensors among the inputs, or the one around; None if there is none.

    Raises:
        AssertionError: there are several.
    """
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


__all__ = ["detect_fake_mode"]
