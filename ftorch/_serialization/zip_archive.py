"""The zip archives that checkpoints are: records with names, stored without compression.

Both ends keep to what PyTorch's reader and writer do: every record lies in a folder named after the
archive, and storages start at multiples of the alignment so that they can be mapped into memory.
"""

from __future__ import annotations

import hashlib
import mmap as _mmap
import os
import secrets
import struct
import zipfile

import numpy as np

from .._arrays import aligned_empty
from ..eager.native.contexts import contextmanager

_LOCAL_HEADER = struct.Struct("<26xHH")  # the lengths of name and extra field end it
_READER = "PytorchStreamReader failed"


def is_zip(file) -> bool:
    """Whether a file starts as an archive does."""
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    return head == b"PK\x03\x04"


def _why_not_an_archive(file) -> str:
    is_long = file.seek(0, os.SEEK_END) >= 22  # the least that a directory's end takes
    reason = "failed finding central directory" if is_long else "not a ZIP archive"
    return (f"{reason}. This is an internal miniz error. If you are seeing this error, there is a high likelihood "
            "that your checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, was "
            "transferred incorrectly, or the file was modified after saving.")


class ArchiveReader:
    """Reads an archive's records.

    Args:
        file: a seekable binary file.
        mapped: the same file as an array of bytes; records are then slices of it.

    Raises:
        RuntimeError: if it is no archive.
    """

    def __init__(self, file, mapped: np.ndarray | None = None):
        self.file, self.mapped = file, mapped
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OSError, struct.error, UnicodeDecodeError):
            raise RuntimeError(
                f"{_READER} reading zip archive: {_why_not_an_archive(file)}"
            ) from None
        self.records = {}
        for info in self.zip.infolist():
            self.records[info.filename.partition("/")[2]] = info
        if "version" not in self.records and ".data/version" not in self.records:
            raise RuntimeError('Expected hasRecord("version") to be true, but got false.')

    def __contains__(self, name):
        return name in self.records

    def read(self, name: str) -> bytes:
        """A record's contents.

        Raises:
            RuntimeError: if it is missing or damaged.
        """
        return self.read_array(name).tobytes()

    def read_array(self, name: str) -> np.ndarray:
        """A record's contents as bytes that nobody else holds, or as a part of the mapping."""
        info = self.records.get(name)
        if info is None:
            raise RuntimeError(f"{_READER} locating file {name}: file not found")
        if info.compress_type != zipfile.ZIP_STORED:
            return self._inflate(info, name)
        # The central directory does not say how long the local header is.
        self.file.seek(max(0, info.header_offset))
        header = self.file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
            raise RuntimeError(f"{_READER} reading file {name}: file read failed")
        start = info.header_offset + _LOCAL_HEADER.size + sum(_LOCAL_HEADER.unpack(header))
        if self.mapped is not None:
            data = self.mapped[start : start + info.file_size]
        else:
            # A damaged directory may promise more than there is: look before allocating.
            rest = self.file.seek(0, os.SEEK_END) - start
            self.file.seek(start)
            data = read_array(self.file, max(0, min(info.file_size, rest)))
        if data.size != info.file_size:
            raise RuntimeError(f"{_READER} reading file {name}: file read failed")
        return data

    def _inflate(self, info, name):
        try:
            return np.frombuffer(bytearray(self.zip.read(info)), np.uint8)
        except Exception as e:  # noqa: BLE001  (damaged data raises anything)
            raise RuntimeError(f"{_READER} reading file {name}: {e}") from None


def read_array(file, size: int) -> np.ndarray:
    """``size`` bytes from where a file stands; fewer at its end."""
    data = aligned_empty((size,))
    view, done = memoryview(data), 0
    while done < size:
        if hasattr(file, "readinto"):
            n = file.readinto(view[done:])
        else:
            piece = file.read(size - done)
            n = len(piece)
            view[done : done + n] = piece
        if not n:
            break
        done += n
    return data[:done]


def map_file(path: str, shared: bool) -> np.ndarray:
    """A file's bytes; writing to them changes the file only if ``shared``."""
    access = _mmap.ACCESS_WRITE if shared else _mmap.ACCESS_COPY
    with open_file(path, "r+b" if shared else "rb") as file:
        return np.frombuffer(_mmap.mmap(file.fileno(), 0, access=access), np.uint8)


@contextmanager
def open_file(path, mode: str):
    """``open(path, mode)`` that an interrupt leaves closed, wherever it comes."""
    opened = []
    try:
        opened.extend(map(open, (path,), (mode,)))  # in one call: no interrupt comes between opening and keeping
        yield opened[0]
    finally:
        for file in opened:
            file.close()


class _Archive(zipfile.ZipFile):
    """An archive that is complete only once it was closed: one that was dropped is not completed by its finalizer."""

    __del__ = object.__hash__  # which does nothing here, and in C: no interrupt comes in it


class _Sink:
    """What `zipfile` takes for a stream that it cannot seek in."""

    def __init__(self, file):
        self.file = file

    def write(self, data) -> int:
        """Writes it all, whatever the file's own ``write`` returns."""
        self.file.write(data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Nothing yet: the file is flushed once, when it is complete."""


class ArchiveWriter:
    """Writes records to a binary file, which need not be seekable.

    Args:
        name: the folder of the records.
        alignment: of the records' contents within the archive.
    """

    def __init__(self, file, name: str, alignment: int):
        # Some files can only be sought forwards (gzip): ask nothing of them but to write.
        self.zip = _Archive(_Sink(file), "w", zipfile.ZIP_STORED, allowZip64=True)
        self.file, self.name, self.alignment = file, name, alignment

    def __enter__(self):
        return self

    def __exit__(self, exc_type, *_):
        if exc_type is None:
            self.zip.close()
            if hasattr(self.file, "flush"):
                self.file.flush()

    def identity(self) -> bytes:
        """A number that stands for the records so far: of their names and of their contents."""
        infos = self.zip.infolist()
        names, contents = (int.from_bytes(hashlib.sha256(part).digest()[:8], "little") for part in (
            "/".join(info.filename for info in infos).encode(), b"".join(info.CRC.to_bytes(4, "little") for info in infos)))
        return f"{names:020d}{contents:020d}".encode()

    def write(self, name: str, data) -> None:
        """Writes a record."""
        info = zipfile.ZipInfo(f"{self.name}/{name}", (1980, 1, 1, 0, 0, 0))
        info.file_size = size = memoryview(data).nbytes
        needs_zip64 = size * 1.05 > zipfile.ZIP64_LIMIT  # zipfile's own rule
        start = self.zip.start_dir + 30 + len(info.filename.encode()) + 20 * needs_zip64
        padding = -(start + 4) % self.alignment
        info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        with self.zip.open(info, "w", force_zip64=needs_zip64) as record:
            record.write(data)


@contextmanager
def replacing(path: str):
    """A new file to write, which takes the place of ``path`` once it is complete.

    Whatever is at ``path`` stays as it is if writing fails.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
    if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe
        with open_file(target, "wb") as file:
            yield file
        return
    temporary = os.path.join(folder, f".{os.path.basename(target)}.{secrets.token_hex(8)}")
    try:
        with open_file(temporary, "xb") as file:
            yield file
        os.chmod(temporary, _mode_of(target))
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):  # else the interrupt came when it had taken its place
            os.unlink(temporary)
        raise


def _mode_of(target):
    """The permissions of a file that is to be replaced, or of a new one."""
    try:
        return os.stat(target).st_mode & 0o7777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
