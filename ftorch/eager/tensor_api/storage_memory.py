"""Storage memory: as bytes, new, of files and of buffers."""

from __future__ import annotations

import os

import numpy as np

from ..._arrays import aligned_empty
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import Size, geometry
from ..memory import host_memory
from ..memory.storage import PrivateMap, Storage


def bytes_of(cell: Storage) -> np.ndarray:
    """The storage's bytes in memory order; shared with it on the CPU."""
    if cell.root.device is _device.CPU:
        return cell.share_host().reshape(-1).view(np.uint8)
    return np.array(read_bytes(cell))


def read_bytes(cell: Storage) -> np.ndarray:
    """The bytes in memory order, to be read."""
    if cell.host is not None:
        return cell.host.reshape(-1).view(np.uint8)
    if not cell.nbytes:
        return np.empty(0, np.uint8)
    order = cell.memory_order()
    return np.ascontiguousarray(np.asarray(cell.value()).transpose(order)).reshape(-1).view(np.uint8)


def is_meta(cell: Storage) -> bool:
    return cell.root.device is _device.META


def meta_cell(nbytes: int, dtype) -> Storage:
    """A storage on the meta device."""
    return Storage(geometry(Size((nbytes // dtype.itemsize,)), dtype, _device.META))


def write(cell: Storage, index, values, dtype=np.uint8) -> None:
    """Writes elements of the memory, seen as of a dtype, and counts it; on the meta device there are none."""
    if not is_meta(cell):
        memory = bytes_of(cell)
        memory.view(dtype)[index] = values
        if cell.root.device is not _device.CPU:
            root = cell.root
            cell.set(_device.put(cell._logical(memory.view(root.dtype.numpy)), root.device))
            return
    cell.version += 1


def cell_of(memory: np.ndarray, dtype=_dtype.uint8, where=_device.CPU) -> Storage:
    """A storage whose memory is a flat NumPy array."""
    cell = Storage(geometry(Size((memory.size,)), dtype, where))
    if where is _device.CPU:
        cell.host = memory
    elif where is not _device.META:
        cell.array = _device.put(memory, where)
    return cell


def new_cell(nbytes: int, dtype, device) -> Storage:
    where = _device.resolve(device)
    if where is _device.META:
        return meta_cell(nbytes, dtype)
    host_memory.check((nbytes,), np.dtype(np.uint8))
    memory = aligned_empty((nbytes // dtype.itemsize,), dtype.numpy)
    memory.view(np.uint8)[...] = 0
    return cell_of(memory, dtype, where)


def map_file(filename, shared: bool, nbytes: int) -> np.ndarray:
    """A file's bytes as an array: writes go to the file if ``shared``, which then is made as long."""
    filename = os.fspath(filename)
    if shared:
        if not os.path.exists(filename) or os.path.getsize(filename) < nbytes:
            with open(filename, "ab") as file:
                file.truncate(nbytes)
        return np.memmap(filename, np.uint8, "r+", shape=(nbytes,)) if nbytes else np.empty(0, np.uint8)
    try:
        size = os.path.getsize(filename)
    except OSError as error:
        raise RuntimeError(
            f"unable to open file <{filename}> in read-only mode: {error.strerror} ({error.errno})"
        ) from None
    nbytes = nbytes or size
    if nbytes > size:
        raise RuntimeError(f"file <{filename}> has {size} bytes, fewer than the {nbytes} asked for")
    if not nbytes:
        return np.empty(0, np.uint8)
    return np.memmap(filename, np.uint8, "c", shape=(nbytes,)).view(PrivateMap)


_ORDERS = {"native": "=", "little": "<", "big": ">"}


def memory_of_buffer(buffer, dtype, byte_order, count, offset) -> np.ndarray:
    if dtype.itemsize > 1 and byte_order is None:
        raise ValueError("byte_order is needed for elements of several bytes: 'native', 'little' or 'big'")
    if byte_order is not None and byte_order not in _ORDERS:
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
    data = np.frombuffer(buffer, np.uint8)
    if not 0 <= offset <= data.size:
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({data.size}), but got {offset}"
        )
    size = data.size - offset if count < 0 else count * dtype.itemsize
    if size % dtype.itemsize:
        raise ValueError(
            f"buffer size ({data.size}) must be a multiple of element size ({dtype.itemsize})"
        )
    if offset + size > data.size:
        raise ValueError(
            f"buffer has only {data.size - offset} elements after offset {offset}, but specified a size of "
            f"{count}"
        )
    memory = aligned_empty((size,))
    memory[...] = data[offset : offset + size]
    memory = memory.view(dtype.numpy)
    if byte_order is not None and not np.dtype(np.int16).newbyteorder(_ORDERS[byte_order]).isnative:
        memory = memory.byteswap()
    return memory
