"""Quantized safetensors files read as floating-point tensors (``torch.distributed.checkpoint.quantized_hf_storage``)."""

from __future__ import annotations

import json
from pathlib import Path

import ftorch as torch

from ._hf_utils import _metadata_fn
from .hf_storage import HuggingFaceStorageReader
from .metadata import Metadata, MetadataIndex, TensorStorageMetadata

__all__ = ["QuantizedHuggingFaceStorageReader"]

_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads a checkpoint whose weights are numbers of 8 bits with a scale for each square block (``x.weight`` beside
    ``x.weight_scale_inv``), or of 4 bits with a power of two for each group (MXFP4: ``x_blocks`` beside ``x_scales``), as
    floating-point tensors of the shapes that those stand for.

    Args:
        path: the folder, with an index. Each tensor lies in one file.
        thread_count: accepted. ``target_dtype``: of what is read. ``block_size``: the side of a block.
    """

    def __init__(self, path: str, thread_count: int = 1, target_dtype: torch.dtype = torch.float32, block_size: int = 128):
        super().__init__(path)
        self.target_dtype, self.block_size = target_dtype, block_size
        self._weight_map: dict[str, str] = {}  # the file of each tensor
        self._weight_scale_mapping: dict[str, str] = {}  # {a quantized tensor: its scales}

    def read_metadata(self, *args, **kwargs) -> Metadata:
        """What the files' headers say, with the shapes of the tensors that are read."""
        metadata = super().read_metadata(*args, **kwargs)
        self._build_weight_scale_mapping(json.loads((Path(self.path) / _metadata_fn).read_text()).get("weight_map", {}))
        for name, entry in metadata.state_dict_metadata.items():
            if isinstance(entry, TensorStorageMetadata) and name.endswith("_blocks"):
                entry.size = _unpacked(entry.size)
                for chunk in entry.chunks:
                    chunk.sizes, chunk.offsets = _unpacked(chunk.sizes), torch.Size([0] * len(entry.size))
                entries = [i for i in metadata.storage_data if i.fqn == name]
                for index in entries:  # the planner asks for the place of a chunk
                    metadata.storage_data[MetadataIndex(name, torch.Size([0] * len(entry.size)))] = (
                        metadata.storage_data[index]
                    )
        return metadata

    def _build_weight_scale_mapping(self, weight_map: dict[str, str]) -> None:
        self._weight_map = weight_map
        for name in weight_map:
            for scales, weight in ((".weight_scale_inv", ".weight"), ("_scales", "_blocks")):
                if name.endswith(scales) and name.replace(scales, weight) in weight_map:
                    self._weight_scale_mapping[name.replace(scales, weight)] = name

    def _is_tensor_quantized(self, tensor_fqn: str) -> bool:
        return tensor_fqn in self._weight_scale_mapping

    def _whole(self, index, info):
        weight = self.tensor_of(info)
        if not self._is_tensor_quantized(index.fqn):
            return weight
        name = self._weight_scale_mapping[index.fqn]
        scales = self.tensor_of(next(entry for i, entry in self.storage_data.items() if i.fqn == name))
        if index.fqn.endswith("_blocks"):
            return self._of_groups(weight, scales)
        if weight.dim() != 2:
            raise ValueError("Unsupported quantization types")
        return self._of_blocks(weight, scales)

    def _of_blocks(self, weight, scales):
        for dim, size in enumerate(weight.shape):
            scales = scales.repeat_interleave(self.block_size, dim).narrow(dim, 0, size)
        return (weight.float() * scales).to(self.target_dtype)

    def _of_groups(self, blocks, scales):
        """Two numbers of 4 bits in each byte, the lower one first; a group's exponent is 127 more than it says."""
        table = torch.tensor([*_FP4, *(-x for x in _FP4)], dtype=self.target_dtype)
        places = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()
        exponents = (scales.to(torch.int32) - 127).unsqueeze(-1)
        return torch.ldexp(table[places], exponents).to(self.target_dtype).flatten(-2)


def _unpacked(size):
    """The shape of what groups of bytes stand for."""
    *outer, groups, count = size
    return torch.Size([*outer, groups * count * 2])
