"""``jit.load`` and ``jit.save``: TorchScript archives, which PyTorch reads and writes as well."""

from __future__ import annotations

import os
from contextlib import nullcontext

from ..deprecations import EXPORT, warn_switch
from ..program.modules import RecursiveScriptModule, ScriptFunction, make_parameters, wrap_module
from ..program.services import services
from .archive import Archive, read_extra_files

__all__ = ["load", "save"]


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Reads a module that `save`, or PyTorch's, has written (``torch.jit.load``).

    The program in the file runs on ftorch's ops; Python code is neither needed nor run.

    Args:
        f: a path, or a seekable binary file.
        map_location: the device to load to, as for `ftorch.load`; by default where it was.
        _extra_files: {name: anything}; the values become the contents of these extra files.

    Returns:
        A `RecursiveScriptModule`.

    Raises:
        ValueError: if there is no such file.
        RuntimeError: if it is no TorchScript archive, or damaged.
        pickle.UnpicklingError: if it holds objects of other classes than its own.

    >>> import io
    >>> import ftorch as torch
    >>> buffer = io.BytesIO()
    >>> torch.jit.save(torch.jit.trace(torch.nn.ReLU(), torch.zeros(2)), buffer)
    >>> torch.jit.load(io.BytesIO(buffer.getvalue()))(torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    warn_switch("load", EXPORT)
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
    if map_location is not None and not callable(map_location):
        from ....eager.core.device import device

        map_location = device(map_location) if isinstance(map_location, str) else map_location
    opened = open(f, "rb") if isinstance(f, (str, os.PathLike)) else nullcontext(f)
    with opened as file:
        archive = Archive(file, map_location)
        data = archive.load_object()
        if _extra_files is not None:
            read_extra_files(archive.archive, _extra_files)
    make_parameters(data)
    return wrap_module(data)


def save(m, f, _extra_files=None) -> None:
    """Writes a compiled module or function to a file (``torch.jit.save``).

    Args:
        m: what ``script``, ``trace`` or `load` gave.
        f: a path, or a writable binary file.
        _extra_files: {name: str or bytes} to store along.

    Raises:
        RuntimeError: if the program calls Python functions.

    >>> import io
    >>> import ftorch as torch
    >>> torch.jit.save(torch.jit.script(torch.nn.Identity()), io.BytesIO())
    """
    warn_switch("save", EXPORT)
    _write(m, f, _extra_files)


def _write(m, f, _extra_files=None) -> None:
    """What `save` does."""
    from .writer import write_archive

    if isinstance(m, ScriptFunction) and not hasattr(m, "_owner"):
        from .writer import placeholder

        m = placeholder(m)
    if not isinstance(m, RecursiveScriptModule):
        compiled = getattr(m, "__dict__", {}).get("_actual_script_module")
        if compiled is None:
            raise AttributeError(f"'{type(m).__name__}' object has no attribute 'save'")
        m = compiled
    write_archive(m._c, f, _extra_files)


services.save = _write
