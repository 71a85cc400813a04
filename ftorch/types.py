"""Names for annotations (``torch.types``)."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from .eager.core.device import device
from .eager.core.dtype import dtype
from .eager.core.formats import layout
from .eager.core.geometry import Size
from .eager.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool: TypeAlias = builtins.bool
_bytes: TypeAlias = builtins.bytes
_complex: TypeAlias = builtins.complex
_device: TypeAlias = device
_dtype: TypeAlias = dtype
_float: TypeAlias = builtins.float
_int: TypeAlias = builtins.int
_layout: TypeAlias = layout
_str: TypeAlias = builtins.str
_symint: TypeAlias = builtins.int
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_Number = (builtins.int, builtins.float, builtins.bool)
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]

BoolLikeType: TypeAlias = builtins.bool
Device: TypeAlias = device | str | int | None
FloatLikeType: TypeAlias = builtins.float
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
IntLikeType: TypeAlias = builtins.int
Number: TypeAlias = int | float | bool


class Storage:
    """What annotations call a storage: something with bytes on a device."""

    _cdata: _int
    device: _device
    dtype: _dtype
    _torch_load_uninitialized: _bool
