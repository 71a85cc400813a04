"""What a ``.pt2`` file contains (``torch.export.pt2_archive._package``)."""

from __future__ import annotations

import dataclasses
import io
import os
from typing import Any

from ..._serialization.zip_archive import ArchiveReader
from .._aot_package import FOLDER, AOTICompiledModel, read_package
from .._archive import load_program

__all__ = ["AOTICompiledModel", "PT2ArchiveContents", "load_pt2"]


@dataclasses.dataclass
class PT2ArchiveContents:
    """Programs, compiled models and other files of an archive, by name."""

    exported_programs: dict[str, Any]
    aoti_runners: dict[str, AOTICompiledModel]
    extra_files: dict[str, Any]


def load_pt2(f, *, expected_opset_version=None, run_single_threaded=False, num_runners=1, device_index=-1,
             load_weights_from_disk=False) -> PT2ArchiveContents:
    """Reads all that is in a ``.pt2`` file, which is a path or a binary file.

    Raises:
        RuntimeError: it is no such file.
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            data = file.read()
    else:
        data = f.read()
    reader = ArchiveReader(io.BytesIO(data))
    programs, runners = {}, {}
    extra = {n.removeprefix("extra/"): reader.read(n).decode() for n in reader.records if n.startswith("extra/")}
    if any(n.startswith("models/") and n.endswith(".json") for n in reader.records):
        programs["model"] = load_program(io.BytesIO(data))
    if f"{FOLDER}/model/model.json" in reader:
        runners["model"] = read_package(io.BytesIO(data), device_index)
    return PT2ArchiveContents(programs, runners, extra)
