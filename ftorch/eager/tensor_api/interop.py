"""Tensors from and to other things: Python data, NumPy, JAX, DLPack, and other devices.

Memory is shared where PyTorch shares it. ``from_numpy(a)`` and ``x.numpy()`` on the CPU give both
sides the same buffer: a write on one side is seen on the other, because a storage that shares its
buffer is read anew by every operation and written through by every in-place operation. That costs a
copy per read, so a storage whose buffer nobody else holds any more takes it over and is fast again.
Arrays handed to JAX (``x.jax()``, ``__jax_array__``, DLPack) are immutable snapshots.
"""

from __future__ import annotations

import ctypes
import itertools
import warnings
from collections.abc import Mapping

import jax
import numpy as np

from ..call.op import read, to_numpy
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import CONJ, Size, geometry, memory_order, permuted_stride
from ..core.once import warn_once
from ..memory.storage import Storage, strided
from ..runtime import value_checks
from ..runtime.executor import IMMEDIATE
from ..runtime.strided_steps import elements
from ..tensor import Tensor, TensorBase, from_array, modes, new_leaf, wrap, wrap_view
from .storages import TypedStorage, UntypedStorage, as_tensor_of


def _infer(data, wanted=None):
    """NumPy array of nested Python data, in the dtype PyTorch would infer (or the one wanted)."""
    if isinstance(data, (np.ndarray, np.generic)):
        return np.asarray(data)
    if isinstance(data, (bool, int, float, complex)):
        if data.__class__ is int and not -(1 << 63) <= data < 1 << 63:
            return np.asarray(data, _beyond_int64([data], wanted))
        with np.errstate(over="ignore"):
            return np.asarray(data, _holding(_dtype.from_python(_number_type(data)), wanted).numpy)
    if isinstance(data, TensorBase):
        return to_numpy(data)
    if isinstance(data, jax.Array):
        return np.asarray(data)
    if hasattr(data, "__len__") and hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
        return np.asarray(data)
    if isinstance(data, bytes | str):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__") or isinstance(data, Mapping):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if len(data) and isinstance(data, (list, tuple)) and isinstance(data[0], np.ndarray) and data[0].ndim:
        warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
            "converting the list to a single numpy.ndarray with numpy.array() before converting to a tensor."
        )
    shape, leaves = _flatten(data)
    if leaves and isinstance(leaves[0], str):  # a sequence, too
        raise ValueError("too many dimensions 'str'")
    kinds = {type(v) for v in leaves}
    if not leaves:
        return np.empty(shape, _dtype.get_default_dtype().numpy)
    dtype = _dtype.bool
    for kind in kinds:
        if issubclass(kind, (TensorBase, np.ndarray)):
            for own in {v.dtype for v in leaves if type(v) is kind}:
                own = own if issubclass(kind, TensorBase) else _dtype.from_numpy(own)
                dtype = _dtype._promote(dtype, own)
        else:
            dtype = _dtype._promote(dtype, _leaf_dtype(kind))
    return _build(leaves, shape, _holding(dtype, wanted), wanted)


def _holding(inferred, wanted):
    # Python floats are doubles: a wanted dtype gets them unrounded.
    is_floating = inferred.is_floating_point and wanted is not None and wanted.category >= 2
    if is_floating:
        return _dtype.float64
    if inferred.is_complex and wanted is not None:
        return _dtype.complex128
    return inferred


def _number_type(value):
    return next(k for k in (bool, int, float, complex) if isinstance(value, k))


def _leaf_dtype(kind):
    if issubclass(kind, np.generic):  # the double precision ones are Python's, too
        return _dtype.from_numpy(np.dtype(kind))
    if issubclass(kind, (bool, int, float, complex)):
        return _dtype.from_python(next(k for k in (bool, int, float, complex) if issubclass(kind, k)))
    if issubclass(kind, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    raise RuntimeError(f"Could not infer dtype of {kind.__name__}")


def _build(leaves, shape, dtype, wanted=None):
    values = [v.item() if isinstance(v, (TensorBase, np.ndarray)) else v for v in leaves]
    if dtype.category == 1 and not all(-(1 << 63) <= v < 1 << 63 for v in values):
        return np.array(values, _beyond_int64(values, wanted)).reshape(shape)
    with np.errstate(over="ignore"):
        return np.array(values, dtype.numpy).reshape(shape)


def _beyond_int64(values, wanted):
    """The dtype of integers that 64 bits with a sign do not hold."""
    if wanted is not _dtype.uint64 or not all(0 <= v < 1 << 64 for v in values):
        raise ValueError("Overflow when unpacking long long")
    return np.uint64


def _flatten(data):
    """(shape, leaves) of nested sequences, which must not be ragged."""
    shape, level = [], [data]
    while level and _is_sequence(level[0]):
        length = len(level[0])
        for position, item in enumerate(level):
            if not _is_sequence(item):
                raise TypeError("not a sequence")
            if len(item) != length:
                raise ValueError(
                    f"expected sequence of length {length} at dim {len(shape)} (got {len(item)})"
                )
        shape.append(length)
        level = [leaf for item in level for leaf in item]
    for item in level:
        if _is_sequence(item) or (isinstance(item, TensorBase) and item.numel() != 1):
            raise ValueError("only one element tensors can be converted to Python scalars")
    return shape, level


def _is_sequence(item):
    if isinstance(item, TensorBase):
        return False  # among others a tensor stands for its one element
    if isinstance(item, np.ndarray):
        return item.ndim > 0
    return isinstance(item, (list, tuple, range)) or (
        hasattr(item, "__len__") and hasattr(item, "__getitem__") and not isinstance(item, (str, bytes))
    )


def _cast_array(array, dtype):
    if dtype is None:
        _dtype.from_numpy(array.dtype)
        return array
    if array.dtype == dtype.numpy:
        return array
    if array.dtype.kind == "c" and not dtype.is_complex:
        array = array.real
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def _check_numbers(array, dtype):
    """Raises PyTorch's errors for Python numbers that a real dtype cannot hold."""
    if array.dtype.kind == "c" and dtype.category:
        raise TypeError("must be real number, not complex" if dtype.category > 1 else
                        "'complex' object cannot be interpreted as an integer")
    if not array.size or array.dtype == dtype.numpy or dtype.category != 1:
        return
    limits = np.iinfo(dtype.numpy)
    low, high = array.min(), array.max()
    lowest = limits.min if dtype.is_signed else -limits.max
    if not (int(lowest) <= low and high <= int(limits.max)):  # nan is not, either
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


def _as_dtype(dtype):
    if dtype is None or isinstance(dtype, _dtype.dtype):
        return dtype
    if dtype in (bool, int, float):
        return {bool: _dtype.bool, int: _dtype.int64, float: _dtype.float64}[dtype]
    raise TypeError(f"tensor(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")


def _asked(function, data, **options):
    """Asks the modes with ``__torch_function__`` for a new tensor."""
    from ..dispatch.overrides import handle

    return handle(function, [], (data,), {k: v for k, v in options.items() if v is not None})


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data: numbers, nested sequences, arrays (``torch.tensor``).

    Args:
        dtype: inferred if None: int64, the default dtype, complex or bool; arrays keep theirs.

    Raises:
        ValueError: for ragged sequences. RuntimeError: for data of other kinds.

    >>> import ftorch as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if modes.function_modes:
        return _asked(tensor, data, dtype=dtype, device=device, requires_grad=requires_grad or None)
    if dtype is None and (array := _plain(data)) is not None:
        return new_leaf(from_array(array, device), requires_grad)
    dtype = _as_dtype(dtype)
    if isinstance(data, TensorBase):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() "
            "or sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor).",
            stacklevel=2,
        )
        where = data.device if device is None else device
        return new_leaf(data.detach().clone().to(where, dtype or data.dtype), requires_grad)
    if isinstance(data, jax.core.Tracer):
        out = from_array(data)
        return out if dtype is None else out.to(dtype)
    if isinstance(data, (TypedStorage, UntypedStorage)):
        out = as_tensor_of(data).clone().to(device or data.device, dtype)
        return new_leaf(out, requires_grad)
    if dtype is not None and dtype.is_shell:
        raise RuntimeError("store_scalar: invalid type")
    array = _infer(data, dtype)
    if dtype is not None and array.dtype.kind in "iufc" and not dtype.is_complex:
        if not isinstance(data, (np.ndarray, jax.Array)) and not hasattr(data, "__array_interface__"):
            _check_numbers(array, dtype)
    if dtype is None and array.dtype.kind == "c" and _dtype.get_default_dtype() is _dtype.float16:
        if not isinstance(data, (np.ndarray, np.generic, jax.Array)):
            dtype = _dtype.complex32  # kept in complex64's arrays
    array = _cast_array(array, dtype)
    out = from_array(array, device, stride=_memory_order_of(data))
    if dtype is not None and dtype.stored:
        out = out.to(dtype)
    return new_leaf(out, requires_grad)


def _plain(data):
    """The array of a Python number, or of lists of Python's numbers of one type; None for all else."""
    kind = data.__class__
    if kind is list or kind is tuple:
        kinds = set(map(type, data))
        if len(kinds) != 1:
            return None
        (kind,) = kinds
        if kind is list or kind is tuple:
            kinds = set(map(type, itertools.chain.from_iterable(data)))
            if len(kinds) != 1 or len(set(map(len, data))) != 1:
                return None
            (kind,) = kinds
    dtype = _PLAIN_KINDS.get(kind)
    if dtype is None:
        return None
    try:
        with np.errstate(over="ignore"):
            return np.array(data, dtype or _dtype.get_default_dtype().numpy)
    except (OverflowError, ValueError):  # told elsewhere
        return None


_PLAIN_KINDS = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: False}


def _memory_order_of(data):
    """The strides of a copy of a NumPy array, dense in the array's order; None if contiguous."""
    if not isinstance(data, np.ndarray) or data.flags.c_contiguous:
        return None
    if any(s < 0 for s in data.strides):
        raise ValueError(_NEGATIVE_STRIDES)
    if not data.size or 0 in data.strides:
        return None
    stride = tuple(s // data.itemsize for s in data.strides)
    if geometry(Size(data.shape), _dtype.from_numpy(data.dtype), _device.CPU, stride).is_dense:
        return stride
    return permuted_stride(data.shape, memory_order(data.strides, data.shape))


_NEGATIVE_STRIDES = (
    "At least one stride in the given numpy array is negative, and tensors with negative "
    "strides are not currently supported. (You can probably work around this by making a "
    "copy of your array  with array.copy().) "
)


def as_tensor(data, dtype=None, device=None):
    """Data as a tensor, sharing memory if it can (``torch.as_tensor``).

    >>> import ftorch as torch
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
    """
    if modes.function_modes:
        return _asked(as_tensor, data, dtype=dtype, device=device)
    if isinstance(data, TensorBase):
        return data.to(device=data.device if device is None else device, dtype=dtype or data.dtype)
    if isinstance(data, np.ndarray):
        dtype = _as_dtype(dtype)
        where = _device.resolve(device)
        if where is _device.CPU and (dtype is None or dtype.numpy == data.dtype):
            return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """Any data as a tensor (``torch.asarray``): arrays, buffers, DLPack, numbers, sequences.

    Args:
        copy: True never shares memory, False always does, None does where it can.
        requires_grad: of the result; False detaches a tensor, None is as ``obj`` has it.

    Raises:
        ValueError: if ``copy=False`` and the data cannot be shared. RuntimeError: for dtypes that
            cannot require grad.

    >>> import ftorch as torch
    >>> torch.asarray([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    if modes.function_modes:
        return _asked(asarray, obj, dtype=dtype, device=device, copy=copy, requires_grad=requires_grad)
    dtype = _as_dtype(dtype)
    if isinstance(obj, TensorBase):
        source = obj
    elif isinstance(obj, (TypedStorage, UntypedStorage)):
        source = as_tensor_of(obj)
    elif isinstance(obj, np.ndarray):
        source = from_numpy(obj)
    elif isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
            )
        source = from_numpy(np.array(obj))
    elif hasattr(obj, "__dlpack__"):
        source = from_dlpack(obj)
    else:
        try:
            memoryview(obj)
        except TypeError:
            if copy is False:
                raise ValueError("can't alias arbitrary sequence into a tensor.") from None
            return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
        source = frombuffer(obj, dtype=dtype or _dtype.get_default_dtype())
    where = source.device if device is None else _device.resolve(device)
    if copy is False and where != source.device:
        raise ValueError(f"can't alias tensor from device '{source.device}' to '{where}'.")
    if copy is False and dtype not in (None, source.dtype):
        raise ValueError(
            f"can't alias tensor with dtype '{source.dtype.scalar_name}' into dtype "
            f"'{dtype.scalar_name}'."
        )
    out = source.to(where, dtype or source.dtype)
    if copy and out is source:
        out = out.clone()
    if requires_grad is None and source.requires_grad:
        warnings.warn(
            "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
            "False. Pass requires_grad=False explicitly to get the old behavior and silence this "
            "warning.",
            stacklevel=2,
        )
    if out.requires_grad:
        return out.detach() if requires_grad is False else out
    return new_leaf(out, bool(requires_grad))


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
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(_NEGATIVE_STRIDES)
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
        memory = np.lib.stride_tricks.as_strided(ndarray, (g.expanse,), (item,))
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
    if length == 0:
        raise ValueError("both buffer length (0) and count (-1) must not be 0")
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


def numpy(self, *, force=False):
    """The tensor as a NumPy array that shares its memory, if it is on the CPU.

    Args:
        force: also for tensors that require grad or live elsewhere (then a copy).

    Raises:
        RuntimeError: for tensors that require grad. TypeError: for other devices and dtypes.
    """
    if force:
        return self.detach().cpu().resolve_conj().resolve_neg().numpy()
    if self._ftorch_requires_grad and modes.grad:
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
    if g.dtype.numpy.kind == "V" or g.dtype.name == "bfloat16" or g.dtype.stored:
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


def from_jax(array, requires_grad=False, *, sharded=False) -> Tensor:
    """A tensor around a ``jax.Array`` (or a tracer), without a copy.

    Args:
        sharded: whether an array with a ``NamedSharding`` over several devices stays there. It is gathered on one
            device otherwise.

    Raises:
        ValueError: for ``sharded`` and an array that lies otherwise.

    >>> import ftorch as torch, jax.numpy as jnp
    >>> torch.from_jax(jnp.arange(3))
    tensor([0, 1, 2])
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
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return ext_tensor.detach()
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


def dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule of the tensor."""
    if self._ftorch_requires_grad:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach()"
        )
    if self._ftorch_geometry.device is _device.CPU and self._ftorch_geometry.dtype.name != "bfloat16":
        if self._ftorch_geometry.bits & CONJ:
            raise BufferError("Can't export tensors with the conjugate bit set")
        return self.numpy().__dlpack__()
    return jax_array(self).__dlpack__(stream=stream)


def dlpack_device(self):
    """(DLPack device type, index)."""
    if self._ftorch_geometry.device is _device.CPU:
        return 1, 0
    return jax_array(self).__dlpack_device__()


def move_to_device(t, where: _device.device):
    """A copy of a tensor's value on another device, outside any graph."""
    g = t._ftorch_geometry
    target = geometry(g.shape, g.dtype, where, g.stride if g.is_dense else None)
    if where is _device.META:
        return wrap(Storage(target))
    if g.device is _device.META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    value = read(t).as_jax()
    storage = Storage(target, jax.device_put(value, _device.to_jax(where)))
    if isinstance(value, jax.core.Tracer):
        storage.trace = IMMEDIATE
    return wrap(storage)
