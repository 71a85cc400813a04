"""Whole safetensors files of the parts that processes wrote."""

from __future__ import annotations

import json

from .. import distributed_c10d as dist
from . import _hf_utils as files

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]


def consolidate_safetensors_files(input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int],
                                  num_threads: int = 1, use_staging: bool = False, _only=None) -> None:
    """Makes whole files of parts, and their index.

    Args:
        input_dir: what `HuggingFaceStorageWriter` with ``save_distributed=True`` wrote.
        fqn_to_index_mapping: the number of the file that each name goes to.

    Raises:
        ValueError: for files that are no checkpoint's parts.
    """
    from .filesystem import _Folder
    from .format_utils import _whole
    from .hf_storage import HuggingFaceStorageReader

    reader, folder = HuggingFaceStorageReader(input_dir), _Folder(output_dir)
    for name in reader.folder.names():
        if name.endswith(files.SUFFIX):
            notes = files.header_of(reader.folder, name)[0].get("__metadata__") or {}
            if files.CUSTOM_METADATA_KEY not in notes:
                raise ValueError(
                    "No DCP custom metadata found in safetensors file. The file must be saved with DCP to be "
                    "consolidated."
                )
    folder.make()
    most, total, weight_map = max(fqn_to_index_mapping.values()), 0, {}
    metadata = reader.read_metadata()
    for number in sorted(set(fqn_to_index_mapping.values())):
        names = [n for n, i in fqn_to_index_mapping.items() if i == number]
        file = files._gen_file_name(number, most)
        weight_map |= dict.fromkeys(names, file)
        for n in names:
            described = metadata.state_dict_metadata[n]
            total += described.size.numel() * described.properties.dtype.itemsize
        if _only is None or number in _only:
            state = _whole(reader, names)
            parts, _ = files.file_bytes({n: state[n] for n in names}, {"format": "pt"})
            folder.write(file, parts)
    if _only is None or min(fqn_to_index_mapping.values()) in _only:
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        folder.write(files._metadata_fn, [json.dumps(index, indent=2).encode()])


def consolidate_safetensors_files_on_every_rank(input_dir: str, output_dir: str,
                                                fqn_to_index_mapping: dict[str, int], num_threads: int = 1,
                                                process_group=None) -> None:
    """`consolidate_safetensors_files`, whose files the processes share among them."""
    rank, size = 0, 1
    if dist.is_initialized():
        rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    numbers = sorted(set(fqn_to_index_mapping.values()))
    consolidate_safetensors_files(input_dir, output_dir, fqn_to_index_mapping, _only=set(numbers[rank::size]))
    if size > 1:
        dist.barrier(process_group)
