"""NumPy interoperability: arrays of NumPy's and buffers as tensors that share their memory, and back.

``from_numpy(a)`` and ``x.numpy()`` on the CPU give both sides the same buffer: a write on one side is seen on the
other, because a storage that shares its buffer is read anew by every operation and written through by every in-place
operation. That costs a copy per read, so a storage whose buffer nobody else holds any more takes it over and is fast
again.
"""

from __future__ import annotations

import numpy as np

from ..._arrays import strided_view
from ..call.op import is_in_graph, to_numpy
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import CONJ, Size, geometry
from ..core.user_warnings import warn_once
from ..memory.storage import Storage, strided
from ..runtime import value_checks
from ..runtime.executor import IMMEDIATE
from ..runtime.strided_steps import elements
from ..tensor import from_array, modes, new_leaf, wrap, wrap_view
from .python_data import OTHER_ORDER

NEGATIVE_STRIDES = (
    "At least one stride in the given numpy array is negative, and tensors with negative "
    "strides are not currently supported. (You can probably work around this by making a "
    "copy of your array  with array.copy().) "
)


def from_numpy(ndarray):
    """A CPU tensor that shares the memory of a NumPy array (``torch.from_numpy``).

    Writes on either side are seen on the other. See the module on how far that holds.

    Raises:
        TypeError: for non-arrays and dtypes tensors cannot hold. ValueError: for negative strides.

    >>> import ftorch as torch, numpy as np
    >>> a = np.zeros(2)
    >>> t = torch.from_numpy(a)
    >>> _ = t.add_(1)
    >>> a
    array([1., 1.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if ndarray.size and not ndarray.flags.writeable:
        warn_once(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. This means writing to this tensor will result in undefined behavior. You may "
            "want to copy the array to protect its data or make it writable before converting it to "
            "a tensor. This type of warning will be suppressed for the rest of this program.",
        )
    return _sharing(ndarray)


def _sharing(ndarray):
    """`from_numpy` of an array, whether it is writable or not."""
    dtype = _dtype.from_numpy(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError(OTHER_ORDER)
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(NEGATIVE_STRIDES)
    item = ndarray.itemsize
    if any(s % item for s in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy "
            "array to reallocate the memory."
        )
    shape = Size(ndarray.shape)
    if ndarray.size == 0:
        return from_array(np.empty(shape, ndarray.dtype))
    stride = tuple(s // item for s in ndarray.strides)
    g = geometry(shape, dtype, _device.CPU, stride)
    if ndarray.flags.c_contiguous and g.expanse == ndarray.size:
        memory = ndarray.reshape(-1)
    else:
        memory = strided_view(ndarray, (g.expanse,), (item,), writeable=True)
    if g.is_contiguous:
        storage = Storage(g)
        storage.host = memory
        return wrap(storage)
    storage = Storage(geometry(Size((g.expanse,)), dtype, _device.CPU))
    storage.host = memory
    return wrap_view(storage, g, 0, None)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-D tensor over an object with Python's buffer protocol (``torch.frombuffer``).

    Raises:
        ValueError: if the buffer does not hold whole elements.
    """
    try:
        memory = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length = memory.nbytes
    if memory.readonly:
        warn_once(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can "
            "write to the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer "
            "to protect its data or make it writable before converting it to a tensor. This type of warning will be "
            "suppressed for the rest of this program."
        )
    item = dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % item:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({item})"
        )
    if count > 0 and offset + count * item > length:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    array = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * item, offset)
    return new_leaf(_sharing(array.view(dtype.numpy)), requires_grad)


def _refuse_bits(g):
    if g.bits:
        name, call = ("conjugate", "conj") if g.bits & CONJ else ("negative", "neg")
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {name} bit set. Use "
            f"tensor.resolve_{call}().numpy() instead."
        )


def is_numpys(dtype) -> bool:
    """Whether NumPy has a dtype, with the same bytes."""
    return not (dtype.numpy.kind == "V" or dtype.name == "bfloat16" or dtype.stored)


def numpy(self, *, force=False):
    """The tensor as a NumPy array that shares its memory, if it is on the CPU.

    Args:
        force: also for tensors that require grad or live elsewhere (then a copy).

    Raises:
        RuntimeError: for tensors that require grad. TypeError: for other devices and dtypes.
    """
    if force:
        return self.detach().cpu().resolve_conj().resolve_neg().numpy()
    if modes.grad and is_in_graph(self):
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    g = self._ftorch_geometry
    _refuse_bits(g)
    if _device.is_several(g.device):
        return self.cpu().numpy()
    if g.device is not _device.CPU:
        raise TypeError(
            f"can't convert {g.device} device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )
    if not is_numpys(g.dtype):
        raise TypeError(f"Got unsupported ScalarType {g.dtype.scalar_name}")
    storage = self._ftorch_storage
    if storage.root.dtype.stored:
        return np.array(to_numpy(self))  # other bytes than PyTorch's
    if storage.trace is IMMEDIATE:
        raise RuntimeError(
            "the value of this tensor is not known: it is being traced by a JAX transformation"
        )
    memory = storage.share_host()
    if value_checks.postponed.checks:
        value_checks.run_postponed()
    if g.dtype is not storage.root.dtype:
        memory = elements(memory, g.dtype.numpy)
    return strided(memory, g, self._ftorch_offset)
