"""Tensors from and to NumPy for the `DataLoader`: batches are made on the host, without programs.

An XLA program for every batch shape would be compiled first, and a batch is read once only.
"""

from __future__ import annotations

import numpy as np

from ftorch._arrays import aligned_empty, aligned_stack
from ftorch._serialization.pickling import LoadedStorage, SavedStorage, reduce_tensor
from ftorch.eager.call.op import to_numpy
from ftorch.eager.core import device as _device
from ftorch.eager.core import dtype as _dtype
from ftorch.eager.core.geometry import Size, geometry, memory_order
from ftorch.eager.memory.storage import Storage
from ftorch.eager.runtime.executor import IMMEDIATE
from ftorch.eager.tensor import PLAIN, Tensor, modes, wrap


def adopt(array: np.ndarray, where=None) -> Tensor:
    """A tensor of an array that nobody else is going to write to: shared if it is aligned.

    Args:
        where: a device; that of new tensors by default.
    """
    where = _device.resolve(where)
    root = geometry(Size(array.shape), _dtype.from_numpy(array.dtype), where)
    return wrap(Storage(root, _device.put(array, where)))


def host_view(tensor) -> np.ndarray | None:
    """The tensor's elements as an array that is not to be written to, if that needs no computing
    and nobody has to know: on the CPU, without a gradient, outside transforms."""
    g, storage = tensor._ftorch_geometry, tensor._ftorch_storage
    root = storage.root
    if (
        type(tensor) not in PLAIN
        or g.device is not _device.CPU
        or tensor._ftorch_requires_grad
        or storage.trace is IMMEDIATE
        or g.dtype is not root.dtype
        or modes.levels
        or modes.function_modes
    ):
        return None
    if storage.host is not None:
        memory = storage.host
    else:
        value = np.asarray(storage.ready())
        if g is root:
            return value
        order = memory_order(root.stride, root.shape)
        if order != tuple(range(root.ndim)) or not value.flags.c_contiguous:
            return None
        memory = value.reshape(-1)
    strides = [s * memory.itemsize for s in g.stride]
    return np.lib.stride_tricks.as_strided(memory[tensor._ftorch_offset :], g.shape, strides)


def stack(batch) -> Tensor | None:
    """``torch.stack(batch)``, or None if the tensors call for that function itself."""
    first = batch[0]._ftorch_geometry
    arrays = []
    for tensor in batch:
        if not isinstance(tensor, Tensor):  # `torch.stack` says what is wrong
            return None
        g = tensor._ftorch_geometry
        view = host_view(tensor) if g.dtype is first.dtype and g.shape == first.shape else None
        if view is None:
            return None
        arrays.append(view)
    return adopt(aligned_stack(arrays), _device.CPU)


def gather_rows(tensor, indices: list[int]) -> Tensor:
    """``torch.stack([tensor[i] for i in indices])``.

    Raises:
        IndexError: if an index is out of range.
    """
    rows = host_view(tensor)
    if rows is None:
        return tensor[indices]
    n, low, high = rows.shape[0], min(indices), max(indices)
    if low < -n or high >= n:
        wrong = high if high >= n else low
        raise IndexError(f"index {wrong} is out of bounds for dimension 0 with size {n}")
    positions = np.asarray(indices)
    if low < 0:
        positions = np.where(positions < 0, positions + n, positions)
    out = aligned_empty((len(positions), *rows.shape[1:]), rows.dtype)
    np.take(rows, positions, axis=0, out=out, mode="clip")
    return adopt(out, _device.CPU)


def reduce_for_transport(tensor, storages: dict):
    """How a tensor is pickled for another process, where it will be on the CPU.

    Args:
        storages: of one message, by the storages here: tensors that share one share it there.

    Raises:
        RuntimeError: for results of recorded operations: a graph cannot be sent.
    """
    if tensor._grad_fn is not None:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    g = tensor._ftorch_geometry
    if type(tensor) is Tensor and g.numel * g.dtype.itemsize < tensor._ftorch_storage.nbytes:
        # A row of a large tensor does not take the whole tensor along.
        part, tensor = tensor, adopt(np.array(to_numpy(tensor)), _device.CPU)
        tensor._ftorch_requires_grad = part._ftorch_requires_grad
        tensor.__dict__.update(part.__dict__)

    def storage_of(cell, dtype):
        key = id(cell), dtype
        if key not in storages:
            saved = SavedStorage(cell, dtype)
            # The cell is kept along, so that its id stays its own.
            storages[key] = LoadedStorage(saved.nbytes, saved.data(), saved.type.dtype), cell
        return storages[key][0]

    return reduce_tensor(tensor, storage_of)
