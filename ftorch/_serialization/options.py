"""The calling thread's settings of `ftorch.save` and `ftorch.load` (part of ``torch.serialization``)."""

from __future__ import annotations

import mmap as _mmap
import threading
from enum import Enum

from .._old_names import place_in
from ..eager.native.contexts import repeatable


class LoadEndianness(Enum):
    """The byte order of files that do not state theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Options(threading.local):
    """The calling thread's settings."""

    endianness: LoadEndianness | None = None
    mmap_flags = getattr(_mmap, "MAP_PRIVATE", None)
    compute_crc32 = True
    skip_data = False


OPTIONS = _Options()


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order that `load` assumes for files that state none; None means little."""
    return OPTIONS.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Sets what `get_default_load_endianness` returns.

    Raises:
        TypeError: unless given a `LoadEndianness` or None.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    OPTIONS.endianness = endianness


def get_crc32_options() -> bool:
    """Whether checksums are asked for. They are always written: zip files need them."""
    return OPTIONS.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Sets what `get_crc32_options` returns."""
    OPTIONS.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int | None:
    """``MAP_PRIVATE`` or ``MAP_SHARED``, which ``load(mmap=True)`` maps files with."""
    return OPTIONS.mmap_flags


class set_default_mmap_options:
    """Sets what `get_default_mmap_options` returns, as a function or for a ``with`` block.

    Raises:
        ValueError: for other flags.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (_mmap.MAP_PRIVATE, _mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.previous = OPTIONS.mmap_flags
        OPTIONS.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    @repeatable
    def __exit__(self, *exc) -> None:
        OPTIONS.mmap_flags = self.previous


class skip_data:
    """Within a ``with`` block, `save` leaves room for storages without writing their contents,
    and `load` makes tensors of zeros."""

    def __init__(self, materialize_fake_tensors: bool = False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self.previous = OPTIONS.skip_data
        OPTIONS.skip_data = True

    @repeatable
    def __exit__(self, *exc):
        OPTIONS.skip_data = self.previous

place_in("serialization", LoadEndianness, set_default_mmap_options, skip_data)
