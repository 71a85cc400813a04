"""The archives of checkpoints and scripts, record by record (``torch._C.PyTorchFileReader``)."""

from __future__ import annotations

import os

from .zip_archive import ArchiveReader, ArchiveWriter


class PyTorchFileReader:
    """Reads the records of an archive.

    Args:
        file: its path, or an open binary file that can be sought.
    """

    def __init__(self, file):
        self._file = open(file, "rb") if isinstance(file, (str, os.PathLike)) else file
        self._archive = ArchiveReader(self._file)

    def get_all_records(self) -> list[str]:
        """The names of the records."""
        return list(self._archive.records)

    def has_record(self, name: str) -> bool:
        """Whether there is a record of a name."""
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """A record's bytes.

        Raises:
            RuntimeError: there is none, or it is damaged.
        """
        return self._archive.read(name)

    def get_storage_from_record(self, name: str, numel: int, dtype):
        """A record as a tensor of a dtype, whose storage is the record."""
        from ..eager.core import api as torch

        return torch.frombuffer(bytearray(self._archive.read(name)), dtype=dtype, count=numel)

    def get_record_size(self, name: str) -> int:
        """The length of a record."""
        return self._archive.records[name].file_size

    def version(self) -> int:
        """The version of the format."""
        name = "version" if "version" in self._archive else ".data/version"
        return int(self._archive.read(name))

    def serialization_id(self) -> str:
        """The number by which the archive's contents are known; empty where it was not written."""
        name = ".data/serialization_id"
        return self._archive.read(name).decode() if name in self._archive else ""


class PyTorchFileWriter:
    """Writes an archive, record by record.

    Args:
        file: a path, or an open binary file.
    """

    def __init__(self, file, compute_crc32: bool = True, storage_alignment: int = 64):
        self._closes = isinstance(file, (str, os.PathLike))
        self._file = open(file, "wb") if self._closes else file
        name = os.path.splitext(os.path.basename(file))[0] if self._closes else "archive"
        self._archive = ArchiveWriter(self._file, name, storage_alignment)
        self._names: list[str] = []
        self._version = 3

    def set_min_version(self, version: int) -> None:
        """Raises the version of the format that is noted."""
        self._version = max(self._version, version)

    def write_record(self, name: str, data, size: int | None = None) -> None:
        """Writes a record: bytes, a storage's memory, or text."""
        if isinstance(data, str):
            data = data.encode()
        elif hasattr(data, "tolist") and hasattr(data, "nbytes"):
            data = bytes(data.tolist())
        data = bytes(data)
        self._archive.write(name, data if size is None else data[:size])
        self._names.append(name)

    def get_all_written_records(self) -> list[str]:
        """The names of the records so far."""
        return list(self._names)

    def write_end_of_file(self) -> None:
        """Completes the archive; the last call."""
        if not {"version", ".data/version"} & set(self._names):
            self._archive.write("version", f"{self._version}\n".encode())
        self._archive.__exit__(None)
        if self._closes:
            self._file.close()
