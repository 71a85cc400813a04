"""Where compiled programs are kept. Nothing of JAX's own settings is changed (see `ftorch.eager.core.jax_scope`).

Environment variables:
    FTORCH_CACHE_DIR: where compiled programs are kept from one process to the next; ``0`` or empty:
        nowhere. Default: ``~/.cache/ftorch``. JAX's own ``JAX_COMPILATION_CACHE_DIR`` comes first.
    FTORCH_CACHE_BYTES: how large that may become (1 GiB). A process that leaves more behind removes
        the programs that were used least recently.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time

import jax

from ..eager.core import jax_internals, jax_scope
from . import executable_cache

STARTED = time.time()  # of this process, for what is new in the cache


def _folder():
    """The cache's folder, or None."""
    if jax.config.jax_compilation_cache_dir is not None:
        return None  # JAX's own setting
    folder = chosen = os.environ.get("FTORCH_CACHE_DIR")
    if folder is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(home, "ftorch")
    if folder in ("", "0"):
        return None
    return executable_cache.private_folder(folder, own=chosen is None)


def cache_folder() -> str | None:
    """The folder of this process's compiled programs; None if they are not kept."""
    return jax.config.jax_compilation_cache_dir if _kept is None else _kept.folder


@contextlib.contextmanager
def other_folder(folder: str):
    """Within, programs are kept in another folder."""
    global _kept
    before, _kept = _kept, executable_cache.ExecutableCache(folder)
    try:
        yield
    finally:
        _kept = before


_kept: executable_cache.ExecutableCache | None = None  # in the package's own folder; None: where JAX says


def _set_up_cache():
    """Compiled programs survive the process: starting again costs no compilation."""
    global _kept
    folder = _folder()
    if jax_internals.keep_programs(lambda: _kept, jax_scope.is_inside) and folder is not None:
        _kept = executable_cache.ExecutableCache(folder)
        # JAX can bound a cache itself, but locks and scans it for every program then.
        atexit.register(prune, folder, int(os.environ.get("FTORCH_CACHE_BYTES", 1 << 30)), os.getpid())


def prune(folder: str, limit: int, process: int) -> None:
    """Removes the least recently used files of a folder until it holds no more than 90 % of a limit.

    Args:
        process: does nothing in another one (a child that inherited the call).
    """
    if os.getpid() != process:
        return
    try:
        with os.scandir(folder) as entries:
            files = [(e.stat(), e.path) for e in entries if e.is_file()]
    except OSError:
        return
    total = sum(stat.st_size for stat, _ in files)
    if total <= limit:
        return
    for stat, path in sorted(files, key=lambda f: max(f[0].st_atime, f[0].st_mtime)):
        if total <= 0.9 * limit:
            break
        try:
            os.remove(path)
        except OSError:
            continue  # another process was faster
        total -= stat.st_size


_set_up_cache()
