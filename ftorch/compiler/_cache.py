"""Compiled programs as bytes (``torch.compiler.save_cache_artifacts``): files of the persistent cache."""

from __future__ import annotations

import dataclasses
import io
import logging
import os
import zipfile

from .._toplevel.startup import STARTED, cache_folder

_SUFFIX = "-cache"  # of JAX's files


@dataclasses.dataclass
class CacheInfo:
    """What was saved or loaded.

    Attributes:
        artifacts: {kind: the programs' keys}; all are of kind "inductor".
    """

    artifacts: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def inductor_artifacts(self) -> list[str]:
        """The programs' keys."""
        return self.artifacts.get("inductor", [])

    def empty(self) -> bool:
        """Whether there is nothing."""
        return not any(self.artifacts.values())


def save_cache_artifacts():
    """The programs that this process has compiled, to be loaded by others of the same machine type.

    Returns:
        The bytes and what is in them; None if nothing was compiled, or there is no persistent cache
        (``FTORCH_CACHE_DIR``).
    """
    folder = cache_folder()
    if not folder or not os.path.isdir(folder):
        return None
    data, keys = io.BytesIO(), []
    with zipfile.ZipFile(data, "w") as archive, os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) and entry.stat().st_mtime >= STARTED:
                archive.write(entry.path, entry.name)
                keys.append(entry.name.removesuffix(_SUFFIX))
    return (data.getvalue(), CacheInfo({"inductor": sorted(keys)})) if keys else None


def load_cache_artifacts(serialized_artifacts: bytes):
    """Puts saved programs where compilations look for them.

    Returns:
        What was in the bytes; None if they are none of `save_cache_artifacts`, or there is no cache.
    """
    folder = cache_folder()
    if not folder:
        return None
    keys = []
    try:
        with zipfile.ZipFile(io.BytesIO(serialized_artifacts)) as archive:
            names = archive.namelist()
            if any(os.path.basename(n) != n or not n.endswith(_SUFFIX) for n in names):
                raise zipfile.BadZipFile("a name that is none of a program")
            os.makedirs(folder, exist_ok=True)
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.exists(path):
                    part = f"{path}.{os.getpid()}"
                    with open(part, "wb") as file:
                        file.write(archive.read(name))
                    os.replace(part, path)  # nobody reads half a file
                keys.append(name.removesuffix(_SUFFIX))
    except zipfile.BadZipFile as error:
        logging.getLogger(__name__).warning("Failed to un-pickle cache artifacts: %s", error)
        return None
    return CacheInfo({"inductor": sorted(keys)})
