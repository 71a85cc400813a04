"""A cache of compiled programs for a while."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

import jax

import ftorch as torch


def clear_caches() -> None:
    """Forgets what has been compiled: the next calls compile again."""
    torch.compiler.reset()


clear_inductor_caches = clear_caches


def clear_on_fresh_cache(obj):
    """Registers an object whose ``cache_clear`` is called by `fresh_cache`; gives the object."""
    _registered.append(obj)
    return obj


clear_on_fresh_inductor_cache = clear_on_fresh_cache
_registered: list = []


@contextlib.contextmanager
def fresh_cache(cache_entries: dict | None = None, dir: str | None = None, delete: bool = True):
    """Compiles everything anew within the context, into a folder of its own.

    Args:
        cache_entries: an empty dictionary, which gets the files of compiled programs with their sizes.
        dir: where to make the folder.
        delete: whether to remove it in the end.
    """
    from jax.experimental.compilation_cache import compilation_cache

    if cache_entries:
        raise AssertionError("expected empty cache_entries dict")
    folder = tempfile.mkdtemp(dir=dir)
    former, variable = jax.config.jax_compilation_cache_dir, os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    clear_caches()
    for registered in _registered:
        registered.cache_clear()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()  # it was opened with the former folder
    try:
        yield
        if cache_entries is not None:
            cache_entries |= {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
    finally:
        jax.config.update("jax_compilation_cache_dir", former)
        compilation_cache.reset_cache()
        os.environ.pop("TORCHINDUCTOR_CACHE_DIR")
        if variable is not None:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = variable
        if delete:
            shutil.rmtree(folder, ignore_errors=True)
        clear_caches()


fresh_inductor_cache = fresh_cache
