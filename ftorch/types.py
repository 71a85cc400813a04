"""Names for annotations (``torch.types``)."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from .eager.device import device
from .eager.dtype import dtype
from .eager.formats import layout
from .eager.geometry import Size
from .eager.storages import TypedStorage, UntypedStorage
from .eager.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool: TypeAlias = builtins.bool
_complex: TypeAlias = builtins.complex
_dtype: TypeAlias = dtype
_float: TypeAlias = builtins.float
_int: TypeAlias = builtins.int
_layout: TypeAlias = layout
_symint: TypeAlias = builtins.int
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]

Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | Any
Number: TypeAlias = int | float | bool
Storage = (TypedStorage, UntypedStorage)
