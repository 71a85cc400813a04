"""``.pt2`` files: zip archives with a program as JSON and its tensors as bytes, as PyTorch has them."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import zipfile
from typing import Any

import numpy as np

from .._serialization.zip_archive import ArchiveReader, ArchiveWriter, replacing
from ..eager.core.geometry import contiguous_stride
from ..eager.tensor import from_array
from ..nn import Parameter
from ..serialization import load as load_checkpoint
from ..serialization import save as save_checkpoint
from ._deserialize import device_of, from_json
from ._schema import dtype_of
from ._serialize import tensor_meta, to_json

_MODEL = "model"


def _write_tensors(writer, tensors, folder, prefix, config):
    """Writes each storage once; tied tensors share a record."""
    entries: dict[str, Any] = {}
    written: dict[int, str] = {}
    for name, t in tensors.items():
        key = id(t)
        if key not in written:
            written[key] = f"{prefix}_{len(written)}"
            array = np.ascontiguousarray(_elements(t))
            writer.write(f"data/{folder}/{written[key]}", array.reshape(-1).view(np.uint8))
        meta = tensor_meta(t)
        meta["strides"] = [{"as_int": n} for n in contiguous_stride(t.shape)]  # the elements are written in order
        entries[name] = {
            "path_name": written[key], "is_param": isinstance(t, Parameter), "use_pickle": False,
            "tensor_meta": meta,
        }
    writer.write(f"data/{folder}/{config}", json.dumps({"config": entries}).encode())


def _elements(t):
    from ..eager.call.op import to_numpy

    return to_numpy(t.detach())


def save_program(program, f, extra_files=None) -> None:
    """Writes a program; see `ftorch.export.save`."""
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        name = os.path.basename(path).rpartition(".")[0] or os.path.basename(path)
        with replacing(path) as file:
            _write(program, file, name, extra_files)
    else:
        _write(program, f, "archive", extra_files)


def _write(program, file, name, extra_files):
    description = json.dumps(to_json(program))
    buffer = io.BytesIO()
    save_checkpoint(program.example_inputs, buffer)
    with ArchiveWriter(file, name, 64) as writer:
        writer.write("archive_format", b"pt2")
        writer.write("archive_version", b"0")
        _write_tensors(writer, program.state_dict, "weights", "weight", f"{_MODEL}_weights_config.json")
        _write_tensors(
            writer, program.constants, "constants", "tensor", f"{_MODEL}_constants_config.json"
        )
        writer.write(f"models/{_MODEL}.json", description.encode())
        writer.write(f"data/sample_inputs/{_MODEL}.pt", buffer.getvalue())
        for key, value in (extra_files or {}).items():
            data = value.encode() if isinstance(value, str) else value
            writer.write(f"extra/{key}", data)
        writer.write(".data/version", b"3\n")
        writer.write("byteorder", sys.byteorder.encode())


def _read_tensors(reader, folder, config):
    record = f"data/{folder}/{config}"
    if record not in reader:
        return {}
    entries = json.loads(reader.read(record))["config"]
    swapped = "byteorder" in reader and reader.read("byteorder") != sys.byteorder.encode()
    found, made = {}, {}
    for name, entry in entries.items():
        path = entry["path_name"]
        key = (path, json.dumps(entry["tensor_meta"], sort_keys=True))
        if key not in made:
            made[key] = _tensor(reader, f"data/{folder}/{path}", entry, swapped)
        found[name] = made[key]
    return found


def _tensor(reader, record, entry, swapped):
    if entry.get("use_pickle"):
        return load_checkpoint(io.BytesIO(reader.read(record)), weights_only=True)
    meta = entry["tensor_meta"]
    dtype = dtype_of(meta["dtype"])
    array = reader.read_array(record)
    sizes = [n["as_int"] for n in meta["sizes"]]
    strides, offset = [n["as_int"] for n in meta["strides"]], meta["storage_offset"]["as_int"]
    if not array.size and 0 not in sizes:
        raise RuntimeError(f"the file's record {record} is empty")
    array = array.view(dtype.numpy)
    if swapped:
        array = array.byteswap()
    if not offset and strides == list(contiguous_stride(sizes)) and array.size == math.prod(sizes):
        t = from_array(array.reshape(sizes))  # programs take it as it is: as a part of a flat one it would be copied for them
    else:
        t = from_array(array).as_strided(sizes, strides, offset).contiguous()
    device = device_of(meta["device"])
    if device.type != "cpu":
        t = t.to(_available(device))
    if entry["is_param"]:
        return Parameter(t, requires_grad=meta["requires_grad"])
    return t.requires_grad_(meta["requires_grad"]) if meta["requires_grad"] else t


def _available(device):
    import ftorch

    return device if device.type != "cuda" or ftorch.cuda.is_available() else "cpu"


def load_program(f, extra_files=None):
    """Reads a program; see `ftorch.export.load`."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _read(file, extra_files)
    return _read(f, extra_files)


def _read(file, extra_files):
    try:
        reader = ArchiveReader(file)
    except (RuntimeError, zipfile.BadZipFile) as error:
        raise RuntimeError(f"no .pt2 file: {error}") from None
    names = [n for n in reader.records if n.startswith("models/") and n.endswith(".json")]
    if not names:
        raise RuntimeError(
            "The archive has no program (models/*.json). Files that older releases of PyTorch wrote "
            "are read after torch.export.save by PyTorch 2.8 or later."
        )
    model = names[0].removeprefix("models/").removesuffix(".json")
    data = json.loads(reader.read(names[0]))
    if data["schema_version"]["major"] != 8:
        raise RuntimeError(
            f"Serialized schema version {data['schema_version']} does not match the current schema "
            "version {'major': 8}."
        )
    state = _read_tensors(reader, "weights", f"{model}_weights_config.json")
    constants = _read_tensors(reader, "constants", f"{model}_constants_config.json")
    example = None
    sample = f"data/sample_inputs/{model}.pt"
    if sample in reader and reader.records[sample].file_size:
        example = load_checkpoint(io.BytesIO(reader.read(sample)), weights_only=False)
    for key in extra_files if extra_files is not None else ():
        extra_files[key] = reader.read(f"extra/{key}").decode()
    return from_json(data, state, constants, example)
