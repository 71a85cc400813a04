"""Jagged tensors (``torch.nested._internal.nested_tensor``)."""

from __future__ import annotations

import weakref

from .._tensor import NestedTensor

_tensor_symint_registry: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
"""What stands for the ragged sizes of offsets: sizes are kept by the tensors themselves here."""


def _rebuild_njt(constructor_kwargs) -> NestedTensor:
    """A jagged tensor from what a file has of it."""
    from .. import nested_tensor_from_jagged

    given = constructor_kwargs
    made = nested_tensor_from_jagged(given["values"], given["offsets"], given["lengths"], given.get("_ragged_idx", 1))
    return made.requires_grad_(given.get("requires_grad", False))
