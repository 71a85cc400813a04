"""The file ``.metadata``: a pickle of the index under PyTorch's names, read without running anything."""

from __future__ import annotations

import io
import pathlib
import pickle
import types

import ftorch as torch

from . import metadata
from ._storage_info import _StorageInfo

_METADATA, _FILES = "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"


def _layout(text):
    return getattr(torch, text.removeprefix("torch."))


class _Pickler(pickle._Pickler):
    """Names classes of this package as PyTorch's are named."""

    def save_global(self, obj, name=None):
        module = getattr(obj, "__module__", None) or ""
        name = name or getattr(obj, "__qualname__", None)
        if isinstance(obj, torch.dtype):
            module, name = "torch", str(obj).removeprefix("torch.")
        elif obj is torch.Size:
            module, name = "torch", "Size"
        elif obj is _layout:
            module, name = "torch.serialization", "_get_layout"
        elif obj is _StorageInfo:
            module, name = _FILES, "_StorageInfo"
        elif module == metadata.__name__:
            module = _METADATA
        else:
            return super().save_global(obj, name)
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch = {**pickle._Pickler.dispatch, types.FunctionType: save_global}

    def reducer_override(self, obj):
        if isinstance(obj, torch.dtype):
            return str(obj).removeprefix("torch.")
        if isinstance(obj, torch.Size):
            return torch.Size, (tuple(obj),)
        if isinstance(obj, torch.layout):
            return _layout, (str(obj),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Knows the index's classes and nothing else."""

    def find_class(self, module, name):
        if module == _METADATA and not name.startswith("__") and hasattr(metadata, name):
            found = getattr(metadata, name)
            if isinstance(found, type) and found.__module__ == metadata.__name__:
                return found
        if (module, name) == (_FILES, "_StorageInfo"):
            return _StorageInfo
        if module == "torch":
            found = getattr(torch, name, None)
            if name == "Size" or isinstance(found, torch.dtype):
                return found
        if (module, name) == ("torch.serialization", "_get_layout"):
            return _layout
        if module in ("pathlib", "pathlib._local") and name in ("PosixPath", "PurePosixPath", "WindowsPath", "Path"):
            return pathlib.PurePosixPath
        if module == "collections" and name == "OrderedDict":
            return dict
        raise pickle.UnpicklingError(
            f"the index of a checkpoint names {module}.{name}, which is no part of one"
        )


def dumps(index: metadata.Metadata) -> bytes:
    """The bytes of an index."""
    buffer = io.BytesIO()
    _Pickler(buffer, 2).dump(index)
    return buffer.getvalue()


def loads(data: bytes) -> metadata.Metadata:
    """The index of bytes.

    Raises:
        pickle.UnpicklingError: if they name anything but an index's parts.
    """
    return _Unpickler(io.BytesIO(data)).load()
