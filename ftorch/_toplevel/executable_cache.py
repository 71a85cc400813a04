"""Compiled programs on disk: a folder that is the user's alone, entries that are whole, and no error on the way.

What is in the folder is run, so nobody else may write there. An entry ends with a digest of itself: one that a
full disk, a crash or somebody else has damaged is as good as none and is written anew. Entries come into place by
renaming, so that processes may share a folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import stat
import tempfile
import warnings

SUFFIX = "-cache"  # as JAX names its entries
_DIGEST = 16


def private_folder(folder: str, *, own: bool) -> str | None:
    """Makes a folder for programs, and checks that it is the user's alone.

    Args:
        own: whether the folder is the package's, whose permissions may be changed.

    Returns:
        The folder; None if it cannot be used, with a warning where somebody else could write programs there.
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            warnings.warn(f"{folder} belongs to another user: compiled programs are not kept there", stacklevel=2)
            return None
        if own and found.st_mode & 0o077:
            os.chmod(folder, 0o700)
        elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            warnings.warn(
                f"others may write to {folder}: compiled programs are not kept there (chmod go-w helps)",
                stacklevel=2,
            )
            return None
    except OSError:
        return None  # a read-only home: compile anew
    return folder


class ExecutableCache:
    """A folder of entries, as JAX's compilation cache wants it: keys and bytes."""

    def __init__(self, folder: str):
        self.folder, self._path = folder, pathlib.Path(folder)

    def _file(self, key):
        return os.path.join(self._path, key + SUFFIX)

    def get(self, key: str) -> bytes | None:
        """The bytes of an entry; None if there is none that is whole."""
        try:
            with open(self._file(key), "rb") as file:
                data = file.read()
        except OSError:
            return None
        value, digest = data[:-_DIGEST], data[-_DIGEST:]
        return value if digest == _digest(key, value) else None

    def put(self, key: str, value: bytes) -> None:
        """Writes an entry, or replaces it; without an error where the disk is full or read-only."""
        part = None
        try:
            handle, part = tempfile.mkstemp(dir=self._path, prefix=".", suffix=".part")
            with open(handle, "wb") as file:
                file.write(value + _digest(key, value))
            os.replace(part, self._file(key))
        except OSError:
            if part is not None:
                with contextlib.suppress(OSError):
                    os.remove(part)


def _digest(key, value):
    digest = hashlib.blake2b(key.encode(), digest_size=_DIGEST)  # an entry that has another one's name is damaged, too
    digest.update(value)
    return digest.digest()
