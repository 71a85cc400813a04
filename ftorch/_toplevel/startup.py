"""How JAX is set up. Nothing of JAX may be computed, or configured otherwise, before.

Environment variables:
    FTORCH_CACHE_DIR: where compiled programs are kept from one process to the next; ``0`` or empty:
        nowhere. Default: ``~/.cache/ftorch``. JAX's own ``JAX_COMPILATION_CACHE_DIR`` comes first.
    FTORCH_CACHE_BYTES: how large that may become (1 GiB). A process that leaves more behind removes
        the programs that were used least recently.
"""

from __future__ import annotations

import atexit
import os
import time

import jax

from ..eager.core import jax_internals
from . import executable_cache

STARTED = time.time()  # of this process, for what is new in the cache

# float64 and int64 exist in PyTorch.
jax.config.update("jax_enable_x64", True)


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


def _set_up_cache():
    """Compiled programs survive the process: starting again costs no compilation."""
    folder = _folder()
    if folder is None:
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax_internals.use_cache(folder, executable_cache.ExecutableCache)
    # XLA compiles a small program in 10 ms and more, which is longer than reading it.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # XLA's own caches (of GPUs' autotuning) would make the folder's name a part of every program's key.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    # JAX can bound the cache itself, but locks and scans it for every program then.
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
