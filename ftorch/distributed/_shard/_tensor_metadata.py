"""What all processes know of a tensor in pieces; `sharded_tensor.metadata` shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import ftorch as torch

from .metadata import ShardMetadata

_PLACE = f"{__package__}.sharded_tensor.metadata"


class MEM_FORMAT_ENCODING(Enum):  # noqa: N801
    """Memory formats as pickles have them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = (torch.contiguous_format, torch.channels_last, torch.preserve_format)


@dataclass
class TensorProperties:
    """What a tensor is besides its sizes."""

    dtype: torch.dtype = field(default_factory=torch.get_default_dtype)
    layout: torch.layout = field(default=torch.strided)
    requires_grad: bool = False
    memory_format: torch.memory_format = field(default=torch.contiguous_format)
    pin_memory: bool = False

    def __getstate__(self):
        if self.memory_format not in _FORMATS:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        code = MEM_FORMAT_ENCODING(_FORMATS.index(self.memory_format))
        return self.dtype, self.layout, self.requires_grad, code, self.pin_memory

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        self.memory_format = _FORMATS[code.value]

    @staticmethod
    def create_from_tensor(tensor) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(
            tensor.dtype,
            tensor.layout,
            tensor.requires_grad,
            torch.contiguous_format,
            tensor.is_pinned(),
        )


@dataclass
class ShardedTensorMetadata:
    """All pieces of a tensor, the whole's sizes and properties."""

    shards_metadata: list[ShardMetadata] = field(default_factory=list)
    size: torch.Size = field(default=torch.Size([]))
    tensor_properties: TensorProperties = field(default_factory=TensorProperties)


for _kind in (MEM_FORMAT_ENCODING, TensorProperties, ShardedTensorMetadata):
    _kind.__module__ = _PLACE  # as pickles name them
