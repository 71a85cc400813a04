"""Files of safetensors: a length, a header in JSON, the tensors' bytes."""

from __future__ import annotations

import json
import struct

import ftorch as torch

SUFFIX = ".safetensors"
SHARDED_DIR_NAME = "sharded"
CUSTOM_METADATA_KEY = "DCP_SHARDING_INFO"
SAVED_OFFSETS_KEY = "saved_offsets"
_metadata_fn = "model.safetensors.index.json"
DTYPE_MAP = {
    "F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I8": torch.int8, "U8": torch.uint8,
    "I16": torch.int16, "I32": torch.int32, "I64": torch.int64, "BF16": torch.bfloat16, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
}
_NAMES = {dtype: name for name, dtype in DTYPE_MAP.items()}


def _gen_file_name(index: int, largest_index: int, shard_index: int | None = None) -> str:
    name = f"model-{index:05d}-of-{largest_index:05d}{SUFFIX}"
    return name if shard_index is None else f"shard-{shard_index:05d}-{name}"


def file_bytes(tensors: dict, metadata: dict[str, str]) -> tuple[list[bytes], dict[str, tuple[int, int]]]:
    """(the parts of a file, {name: (offset in the file, length)}).

    Raises:
        ValueError: for what the format has no name for.
    """
    header: dict = {"__metadata__": metadata}
    at, parts, places = 0, [], {}
    for name, t in tensors.items():
        if not isinstance(t, torch.Tensor) or t.dtype not in _NAMES:
            raise ValueError(f"{name} cannot be saved as safetensors: only tensors of common dtypes can")
        data = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        places[name] = at, len(data)
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    return [struct.pack("<Q", len(text)), text, *parts], {n: (start + o, k) for n, (o, k) in places.items()}


def header_of(folder, name) -> tuple[dict, int]:
    """(the header of a file, where its tensors begin)"""
    (length,) = struct.unpack("<Q", folder.read(name, 0, 8))
    return json.loads(folder.read(name, 8, length)), 8 + length
