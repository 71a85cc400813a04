"""Storage constructors: the arguments that they take, with PyTorch's errors."""

from __future__ import annotations

from collections.abc import Sequence

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
