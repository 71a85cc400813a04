"""Jagged tensors (``torch.nested._internal.nested_tensor``)."""

from __future__ import annotations

import weakref

from .._tensor import NestedTensor, _rebuild_njt  # noqa: F401

_tensor_symint_registry: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
"""What stands for the ragged sizes of offsets: sizes are kept by the tensors themselves here."""
