"""JAX and DLPack interoperability: arrays of JAX's, and of other libraries' through DLPack, as tensors, and back.

What is handed over (``x.jax()``, ``__jax_array__``, DLPack) is an immutable snapshot.
"""

from __future__ import annotations

import ctypes

import jax
import numpy as np

from ..call.op import read
from ..core import device as _device
from ..core import dtype as _dtype
from ..core import formats
from ..core.geometry import CONJ, Size, geometry
from ..memory.storage import Storage
from ..runtime import capture_trace, value_checks
from ..tensor import Tensor, TensorBase, from_array, wrap
from .numpy_interop import from_numpy, is_numpys


def from_jax(array, requires_grad=False, *, sharded=False) -> Tensor:
    """A tensor around a ``jax.Array`` (or a tracer), without a copy.

    Args:
        sharded: whether an array with a ``NamedSharding`` over several devices stays there. It is gathered on one
            device otherwise.

    Raises:
        ValueError: for ``sharded`` and an array that lies otherwise.

    >>> import ftorch as torch, jax.numpy as jnp
    >>> torch.from_jax(jnp.arange(3.0))
    tensor([0., 1., 2.])
    """
    dtype = _dtype.from_numpy(array.dtype)
    if isinstance(array, jax.core.Tracer):
        return from_array(array, requires_grad=requires_grad)
    where, *others = array.devices()
    if sharded:
        if not isinstance(array.sharding, jax.sharding.NamedSharding):
            raise ValueError(f"the array has no NamedSharding: {array.sharding}")
        g = geometry(Size(array.shape), dtype, _device.over(array.sharding.mesh))
        return wrap(Storage(g, array)).requires_grad_(requires_grad)
    if others:  # a tensor has one device
        where = min(array.devices(), key=lambda d: d.id)
        array = jax.device_put(array, where)
    out = wrap(Storage(geometry(Size(array.shape), dtype, _device.from_jax(where)), array))
    out._ftorch_requires_grad = requires_grad
    return out


def jax_array(self) -> jax.Array:
    """The tensor's value as a ``jax.Array``: a snapshot that later writes do not change."""
    array = read(self).as_jax()
    if value_checks.postponed.checks:
        value_checks.run_postponed()
    return array


class _Capsule:
    """A bare capsule, of memory on the CPU, as the protocol's consumers want it."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor of any object that speaks DLPack (``torch.from_dlpack``).

    NumPy arrays keep sharing memory, as with `from_numpy`.

    Args:
        device: where to, by default where it is.
        copy: True always copies, None where it must, False never.

    Raises:
        ValueError: for another device without a copy. BufferError: for the meta device.
    """
    if isinstance(device, str):
        device = _device.device(device)
    if device is not None and not isinstance(device, _device.device):
        raise AssertionError(f"from_dlpack: unsupported device type: {type(device)}")
    if device is not None and device.type == "meta":
        raise BufferError("Cannot pack tensors on meta")
    tensor = _consume(ext_tensor)
    places = [(1, 0) if d.type == "cpu" else (2, d.index or 0) for d in
              (tensor.device, device or tensor.device)]
    if places[0] == places[1]:
        return tensor.clone() if copy else tensor
    if copy is False:
        raise ValueError(
            f"cannot move DLPack tensor from device {places[0]} to {places[1]} without copying. "
            "Set copy=None or copy=True."
        )
    return tensor.to(device)


def _consume(ext_tensor):
    if isinstance(ext_tensor, TensorBase):
        _check_exported(ext_tensor)
        given = ext_tensor.detach()
        g = given._ftorch_geometry
        if (g.device is not _device.CPU or g.bits or not is_numpys(g.dtype) or capture_trace.capturing() is not None
                or given.__class__ is not Tensor or not given._ftorch_storage.has_memory()):
            return given
        return from_numpy(given.numpy())  # a storage of its own over the memory, which starts at the first element
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = _Capsule(ext_tensor)
    if isinstance(ext_tensor, np.ndarray):
        return from_numpy(ext_tensor)
    if isinstance(ext_tensor, jax.Array):
        return from_jax(ext_tensor)
    try:
        return from_numpy(_writable(np.from_dlpack(ext_tensor)))
    except (BufferError, TypeError, RuntimeError, AttributeError):
        return from_jax(jax.dlpack.from_dlpack(ext_tensor))


def _writable(array):
    """The array as a writable one: NumPy marks what older capsules hold as read-only, PyTorch does not."""
    if array.flags.writeable or not array.size:
        return array
    held = array.base  # keeps the memory alive
    span = int(sum((n - 1) * s for n, s in zip(array.shape, array.strides) if s > 0)) + array.itemsize
    if any(s < 0 for s in array.strides):
        return array
    memory = (ctypes.c_char * span).from_address(array.ctypes.data)
    memory._held = held if held is not None else array
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def _check_exported(tensor):
    """Raises PyTorch's error for a tensor that DLPack has no words for."""
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor._ftorch_geometry.bits & CONJ:
        raise BufferError("Can't export tensors with the conjugate bit set")
    if tensor.layout is not formats.strided:
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if tensor.is_quantized:
        raise BufferError("QUInt/QInt types are not supported by dlpack")


def dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule of the tensor."""
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1) and self._ftorch_geometry.device is _device.CPU:
        raise AssertionError("stream should be None on cpu.")
    _check_exported(self)
    if self._ftorch_geometry.device is _device.CPU and self._ftorch_geometry.dtype.name != "bfloat16":
        return self.numpy().__dlpack__()
    return jax_array(self).__dlpack__(stream=stream)


def dlpack_device(self):
    """(DLPack device type, index)."""
    if self._ftorch_geometry.device is _device.CPU:
        return 1, 0
    return jax_array(self).__dlpack_device__()
