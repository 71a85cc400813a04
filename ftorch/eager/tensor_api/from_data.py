"""``torch.tensor``, ``as_tensor`` and ``asarray``: tensors of data of any kind."""

from __future__ import annotations

import itertools

import jax
import numpy as np

from ..call.op import hooks, special
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import Size, geometry, memory_order, permuted_stride
from ..core.public_functions import public_of
from ..core.user_warnings import warn_user
from ..dispatch.overrides import DisableTorchFunctionSubclass
from ..tensor import PLAIN, TensorBase, from_array, modes, new_leaf
from .jax_interop import from_dlpack
from .numpy_interop import NEGATIVE_STRIDES, from_numpy, frombuffer
from .python_data import cast_array, check_numbers, inferred_array
from .storages import TypedStorage, UntypedStorage, as_tensor_of


def _as_dtype(dtype):
    if dtype is None or isinstance(dtype, _dtype.dtype):
        return dtype
    if dtype in (bool, int, float):
        return {bool: _dtype.bool, int: _dtype.int64, float: _dtype.float64}[dtype]
    raise TypeError(f"tensor(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")


def _asked(function, data, **options):
    """Asks the modes with ``__torch_function__`` for a new tensor."""
    from ..dispatch.overrides import handle

    return handle(public_of(function), [], (data,), {k: v for k, v in options.items() if v is not None})


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
    made = _tensor(data, dtype, device, requires_grad)
    if special[0] and hooks.lifted is not None:
        hooks.lifted(made)  # for whoever sees calls: numbers have become a tensor
    return made


def _tensor(data, dtype, device, requires_grad):
    if dtype is None and (array := _plain(data)) is not None:
        return new_leaf(from_array(array, device), requires_grad)
    dtype = _as_dtype(dtype)
    if isinstance(data, TensorBase):
        warn_user(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() "
            "or sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor).",
        )
        asked, modes.subclasses = modes.subclasses, False  # no class takes this call over: the copy is a plain tensor
        try:
            where = data.device if device is None else device
            return new_leaf(data.detach().clone().to(where, dtype or data.dtype), requires_grad)
        finally:
            modes.subclasses = asked
    if isinstance(data, jax.core.Tracer):
        out = from_array(data)
        return out if dtype is None else out.to(dtype)
    if isinstance(data, (TypedStorage, UntypedStorage)):
        out = as_tensor_of(data, dtype).clone().to(device or data.device)
        return new_leaf(out, requires_grad)
    if dtype is not None and dtype.is_shell:
        raise RuntimeError("store_scalar: invalid type")
    array = inferred_array(data, dtype)
    if dtype is not None and array.dtype.kind in "iufc" and not dtype.is_complex:
        if not isinstance(data, (np.ndarray, jax.Array)) and not hasattr(data, "__array_interface__"):
            check_numbers(array, dtype)
    if dtype is None and array.dtype.kind == "c" and _dtype.get_default_dtype() is _dtype.float16:
        if not isinstance(data, (np.ndarray, np.generic, jax.Array)):
            dtype = _dtype.complex32  # kept in complex64's arrays
    array = cast_array(array, dtype)
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
        raise ValueError(NEGATIVE_STRIDES)
    if not data.size or 0 in data.strides:
        return None
    stride = tuple(s // data.itemsize for s in data.strides)
    if geometry(Size(data.shape), _dtype.from_numpy(data.dtype), _device.CPU, stride).is_dense:
        return stride
    return permuted_stride(data.shape, memory_order(data.strides, data.shape))


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
        if data.__class__ not in PLAIN and modes.subclasses:  # whose handlers see nothing of this
            with DisableTorchFunctionSubclass():
                return as_tensor(data, dtype, device)
        return data.to(device=data.device if device is None else device, dtype=dtype or data.dtype)
    if isinstance(data, (TypedStorage, UntypedStorage)):
        return as_tensor_of(data, _as_dtype(dtype)).to(device or data.device)
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
        if obj.__class__ not in PLAIN and modes.subclasses:
            with DisableTorchFunctionSubclass():
                return asarray(obj, dtype=dtype, device=device, copy=copy, requires_grad=requires_grad)
        source = obj
    elif isinstance(obj, (TypedStorage, UntypedStorage)) and copy is not False:
        source = as_tensor_of(obj, dtype)
    elif isinstance(obj, np.ndarray):
        source = from_numpy(obj)
    elif isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
            )
        source = from_numpy(np.array(obj))
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
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
        warn_user(
            "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
            "False. Pass requires_grad=False explicitly to get the old behavior and silence this "
            "warning.",
        )
    if out.requires_grad:
        return out.detach() if requires_grad is False else out
    return new_leaf(out, bool(requires_grad))
