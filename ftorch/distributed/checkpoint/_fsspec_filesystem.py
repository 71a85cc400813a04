"""Checkpoints on any file system that fsspec knows."""

from __future__ import annotations

import pathlib

from .filesystem import FileSystemReader, FileSystemWriter

__all__ = ["FsspecReader", "FsspecWriter"]


class _Remote:
    """Files of a folder of a file system of fsspec (``memory://``, ``s3://`` and so on)."""

    def __init__(self, url):
        from fsspec.core import url_to_fs

        self.files, self.path = url_to_fs(str(url))

    def make(self) -> None:
        """Makes the folder."""
        self.files.makedirs(self.path, exist_ok=True)

    def names(self) -> list[str]:
        """The files' names."""
        if not self.files.exists(self.path):
            return []
        return sorted(pathlib.PurePosixPath(p).name for p in self.files.ls(self.path, detail=False))

    def write(self, name, chunks) -> None:
        """Writes a file: complete under another name first."""
        place = f"{self.path}/{name}"
        with self.files.open(f"{place}.tmp", "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        if self.files.exists(place):
            self.files.rm(place)
        self.files.mv(f"{place}.tmp", place)

    def read(self, name, offset=0, length=-1) -> bytes:
        """A part of a file."""
        with self.files.open(f"{self.path}/{name}", "rb") as file:
            file.seek(offset)
            return file.read(length)

    def remove(self, name) -> None:
        """Removes a file."""
        self.files.rm(f"{self.path}/{name}")


class FsspecWriter(FileSystemWriter):
    """`FileSystemWriter` of an URL."""

    _folder_at = _Remote  # pyright: ignore


class FsspecReader(FileSystemReader):
    """`FileSystemReader` of an URL."""

    _folder_at = _Remote  # pyright: ignore
