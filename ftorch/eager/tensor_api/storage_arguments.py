"""Storage constructors: the arguments that they take, with PyTorch's errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np

from ..call.argument_types import type_name
from ..core import device as _device
from ..core import dtype as _dtype

_EXPECTED = (
    "TypedStorage.__init__ received an invalid combination of arguments. Expected one of:\n"
    " * (*, torch.device device, torch.dtype dtype)\n * (int size, *, torch.device device, torch.dtype dtype)\n"
    " * (Sequence data, *, torch.device device, torch.dtype dtype)\n"
    " * (*, UntypedStorage wrap_storage, torch.dtype dtype)\n"
)


def where(given) -> _device.device:
    """The device of a new storage."""
    if str(given).partition(":")[0] == "xla":
        raise RuntimeError(f"torch.UntypedStorage(): Storage device not recognized: {given}")
    return _device.resolve(given)


def check_wrapped(kind: type, args, storage, dtype, device) -> None:
    """Raises unless ``TypedStorage(*args, wrap_storage=storage, dtype=dtype, device=device)`` wraps a storage of a kind."""
    if args:
        raise RuntimeError(f"{_EXPECTED}No positional arguments should be given when using 'wrap_storage'")
    if dtype is None:
        raise RuntimeError(f"{_EXPECTED}Argument 'dtype' must be specified")
    if not isinstance(dtype, _dtype.dtype):
        raise TypeError(f"{_EXPECTED}Argument 'dtype' must be torch.dtype, not {type(dtype)}")
    if device is not None:
        raise RuntimeError(f"{_EXPECTED}Argument 'device' should not be specified when 'wrap_storage' is given")
    if not isinstance(storage, kind):
        raise TypeError(f"{_EXPECTED}Argument 'wrap_storage' must be UntypedStorage, but got {type(storage)}")


def check_made(args) -> None:
    """Raises unless ``TypedStorage(*args)`` has a size or elements, or nothing."""
    if len(args) > 1:
        raise RuntimeError(f"{_EXPECTED}Too many positional arguments")
    if args and isinstance(args[0], (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(args[0]).__name__}'")
    if args and not isinstance(args[0], (int, Sequence)):
        raise TypeError(f"{_EXPECTED}Argument type not recognized: {type(args[0])}")


_UNTYPED = "torch.UntypedStorage()"


def untyped_argument(args, device, more) -> int | np.ndarray:
    """The size, or the bytes, of ``UntypedStorage(*args, device=device, **more)``.

    Raises:
        TypeError: for what none of the signatures takes.
    """
    places = {"device": device} if device is not None else {}
    given = {**places, **more}
    names = [n for n in ("size", "sequence") if n in more]
    if (len(args) + len(names) > 1 or len(names) < len(more)
            or not isinstance(device, (type(None), str, int, _device.device)) or isinstance(device, bool)
            or ("size" in more and not is_number(more["size"]))):
        texts = [type_name(v) for v in args] + [f"{n}={type_name(v)}" for n, v in given.items()]
        raise TypeError(
            f"{_UNTYPED} received an invalid combination of arguments - got ({', '.join(texts)}{', ' * (not args)}), but "
            "expected one of:\n * (*, int allocator = None, torch.device device = None)\n"
            " * (int size, *, int allocator = None, torch.device device = None)\n"
            " * (object sequence, *, int allocator = None, torch.device device = None)\n"
        )
    if not args and not names:
        return 0
    value = args[0] if args else more[names[0]]
    return int(value) if is_number(value) and (args or names == ["size"]) else byte_values(value)


def is_number(value) -> bool:
    """Whether a value is a size: an int, NumPy's or a tensor's, and no bool."""
    if isinstance(value, (int, np.integer)):
        return not isinstance(value, bool)
    return hasattr(value, "_ftorch_storage") and value.shape == () and not value.dtype.is_floating_point


def check_size(nbytes: int) -> int:
    """A size in bytes that there can be.

    Raises:
        RuntimeError: it is negative.
        ValueError: it is no number of 64 bits.
    """
    if not -(1 << 63) <= nbytes < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    if nbytes < 0:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been "
                           f"called with negative number: {nbytes % (1 << 64)}")
    return nbytes


def byte_values(items) -> np.ndarray:
    """The bytes that a sequence of numbers says.

    Raises:
        RuntimeError: it is no sequence, or holds something else.
    """
    if not isinstance(items, (Sequence, np.ndarray)) and (
        isinstance(items, (Mapping, Set)) or hasattr(items, "_ftorch_storage")
        or not (hasattr(items, "__getitem__") and hasattr(items, "__len__"))
    ):
        raise RuntimeError(f"{_UNTYPED}: Expected a sequence type, but got {type_name(items)}")
    for v in items:
        if not isinstance(v, int):
            raise RuntimeError(f"{_UNTYPED}: tried to construct a storage from a sequence ({type_name(items)}), but one "
                               f"of the items was of type {type_name(v)} instead of int")
    return np.array([int(v) & 255 for v in items], np.uint8)
