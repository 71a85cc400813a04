"""Switches of passes (``torch._export.utils``)."""

from __future__ import annotations

from ..eager.native.contexts import contextmanager


@contextmanager
def _disable_aten_to_metadata_assertions():
    """Inside, conversions are exported without assertions of what they convert, which programs here never have."""
    yield
