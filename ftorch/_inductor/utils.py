"""A cache of compiled programs for a while."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from typing import TypeVar

import ftorch as torch

from .._toplevel import startup
from ..eager.native.contexts import contextmanager
from ..utils._ordered_set import OrderedSet  # noqa: F401

GPU_TYPES = ["cuda", "mps", "xpu", "mtia"]  # the types of accelerators
T = TypeVar("T")


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


@contextmanager
def fresh_cache(cache_entries: dict | None = None, dir: str | None = None, delete: bool = True):
    """Compiles everything anew within the context, into a folder of its own.

    Args:
        cache_entries: an empty dictionary, which gets the files of compiled programs with their sizes.
        dir: where to make the folder.
        delete: whether to remove it in the end.
    """
    if cache_entries:
        raise AssertionError("expected empty cache_entries dict")
    folder = tempfile.mkdtemp(dir=dir)
    variable = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    clear_caches()
    for registered in _registered:
        registered.cache_clear()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    try:
        with startup.other_folder(folder):
            yield
        if cache_entries is not None:
            cache_entries |= {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
    finally:
        os.environ.pop("TORCHINDUCTOR_CACHE_DIR")
        if variable is not None:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = variable
        if delete:
            shutil.rmtree(folder, ignore_errors=True)
        clear_caches()


fresh_inductor_cache = fresh_cache


def get_gpu_type() -> str:
    """The type of the accelerator that is there, or ``"cuda"``."""
    accelerator = torch.accelerator.current_accelerator()
    return accelerator.type if accelerator is not None else "cuda"


def is_gpu(device: str | None) -> bool:
    """Whether a device type is an accelerator's.

    >>> from ftorch._inductor.utils import is_gpu
    >>> is_gpu("cuda"), is_gpu("cpu")
    (True, False)
    """
    return device in GPU_TYPES


def is_big_gpu(index_or_device=0) -> bool:
    """Whether a GPU is large enough to look for the best of several kernels: XLA does that, so never here."""
    return False


def get_gpu_shared_memory() -> int:
    """The bytes of memory that a GPU's block of threads shares: 0, as no kernel is written for it here."""
    return 0


def ceildiv(number: int, denom: int) -> int:
    """The quotient, rounded up.

    >>> from ftorch._inductor.utils import ceildiv
    >>> ceildiv(7, 2)
    4
    """
    return -(number // -denom)


def unique(it: Iterable[T]):
    """The objects without those that came before."""
    return {id(x): x for x in it}.values()


def argsort(seq: Sequence, *, reverse: bool = False) -> list[int]:
    """The indices that sort a sequence; of equal elements those behind come first, as the kernels' loops want them.

    >>> from ftorch._inductor.utils import argsort
    >>> argsort([3, 1, 2])
    [1, 2, 0]
    """
    return sorted(reversed(range(len(seq))), key=seq.__getitem__)[::-1 if reverse else 1]


def get_dtype_size(dtype) -> int:
    """The bytes of an element."""
    return dtype.itemsize

