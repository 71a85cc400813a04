"""Conversions: a tensor in other dtypes, on other devices, as Python values, NumPy arrays, copies and pickles."""

from __future__ import annotations

import jax
import numpy as np

from .. import native
from ..autograd.nodes import Node
from ..autograd.tape import edge_of, node_class
from ..autograd.views import view_call
from ..bindings import declared
from ..call import op as _op
from ..core import device as _device
from ..core import dtype as _dtype
from ..core import formats
from ..core.geometry import Size, geometry, is_channels_last
from ..core.registry import OPS
from ..dispatch.overrides import DisableTorchFunction
from ..memory import gpu_driver
from ..memory.storage import KEPT_BYTES, Storage, on_look, strided
from ..runtime import capture_trace, executor
from ..runtime.value_checks import postponed
from ..tensor import (
    DISPATCHING,
    IMMEDIATE,
    PLAIN,
    Tensor,
    TensorBase,
    check_free,
    modes,
    new_leaf,
    wrap,
    wrap_view,
)
from .jax_interop import dlpack, dlpack_device, jax_array
from .methods import METHODS, asked, clone, is_contiguous, method
from .numpy_interop import numpy
from .python_data import say_that_gradients_end

# --- dtype and device ----------------------------------------------------------------


def _cast(self, dtype):
    if dtype is self._ftorch_geometry.dtype:
        return self
    return _op.call(_op.op_named("_to_copy"), (self,), (dtype,))


class _MoveNode(Node):
    __slots__ = ("device",)

    def apply(self, grads):
        return [None if grads[0] is None else to(grads[0], self.device)]


def _move(self, where):
    if _op.special[0] or self.__class__ not in PLAIN:
        handled, result = _op.hooks.python_method("_to_copy", self, device=where)
        if handled:
            return result
    out = move_to_device(self, where)
    if modes.grad and _op.is_in_graph(self):
        node = node_class("ToCopyBackward0", _MoveNode)()
        node.device = self._ftorch_geometry.device
        node._ftorch_edges = (edge_of(self),)
        out._grad_fn, out._ftorch_requires_grad = node, True
    return out


_PYTHON_DTYPES = {bool: _dtype.bool, int: _dtype.int64, float: _dtype.float64,
                  complex: _dtype.complex128}


@method
def to(self, *args, **kwargs):
    """The tensor in another dtype, on another device or in another memory format.

    Takes ``to(dtype)``, ``to(device, dtype)``, ``to(other)`` with ``non_blocking``, ``copy`` and
    ``memory_format``. The tensor itself is returned where nothing changes.
    """
    dtype = kwargs.pop("dtype", None)
    where = kwargs.pop("device", None)
    other = kwargs.pop("tensor", None)
    copy = kwargs.pop("copy", False)
    kwargs.pop("non_blocking", None)
    memory_format = kwargs.pop("memory_format", None)
    if kwargs:
        raise wrong_combination(args, kwargs)
    flags = []
    for a in args:
        if isinstance(a, _dtype.dtype):
            dtype = a
        elif isinstance(a, TensorBase):
            other = a
        elif a in (bool, int, float, complex) and isinstance(a, type):
            dtype = _PYTHON_DTYPES[a]
        elif isinstance(a, bool):
            flags.append(a)
        elif isinstance(a, (_device.device, str, int)):
            where = a
        elif isinstance(a, formats.memory_format):
            memory_format = a
        elif a is not None:
            raise wrong_combination(args, {})
    if len(flags) > 1:
        copy = flags[1]
    if dtype is not None and not isinstance(dtype, _dtype.dtype) and not (isinstance(dtype, type) and dtype in _PYTHON_DTYPES):
        raise wrong_combination(args, {"dtype": dtype})
    if where is not None and not isinstance(where, (_device.device, str, int)):
        raise wrong_combination(args, {"device": where})
    if where is not None and args and (args[0] is dtype or args[0] in _PYTHON_DTYPES):  # a device comes first
        raise wrong_combination(args, {} if len(args) > 1 else {"device": where})
    if other is not None:
        if dtype is not None or where is not None:  # it says both
            named = {"dtype": dtype, "device": where}
            raise wrong_combination(args, {k: v for k, v in named.items() if v is not None and not any(v is a for a in args)})
        if other.__class__ not in PLAIN:
            named = {"copy": copy} if copy and len(flags) < 2 else {}
            named |= {} if memory_format is None else {"memory_format": memory_format}
            if (result := asked("to", self, other, *flags, **named)) is not NotImplemented:
                return result
        dtype, where = other._ftorch_geometry.dtype, other._ftorch_geometry.device
    if isinstance(dtype, type):
        dtype = _PYTHON_DTYPES[dtype]
    out = self
    if where is not None:
        if where.__class__ is int and not _device.jax_devices("cuda"):
            raise RuntimeError(
                "Device index must not be negative" if where < 0 else "Cannot access accelerator device when none is available."
            )
        where = _device.resolve(where)
        if where is not self._ftorch_geometry.device:
            out = _move(out, where)
    if dtype is not None and dtype is not out._ftorch_geometry.dtype:
        out = _cast(out, dtype)
    if memory_format not in (None, formats.preserve_format) and (
        _suggested(out) is not memory_format or ((copy or out is not self) and not is_contiguous(out, memory_format))
    ):
        return clone(out, memory_format=memory_format)
    return clone(out) if copy and out is self else out


def wrong_combination(args, named):
    """The error of a call of `to` that has no such arguments."""
    given = [_kind_name(v) for v in args] + [f"{k}={_kind_name(v)}" for k, v in named.items()]
    more = ", " if named and not args else ""
    return TypeError(
        f"to() received an invalid combination of arguments - got ({', '.join(given)}{more}), but expected one of:\n"
        " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, "
        "torch.memory_format memory_format = None)\n"
        " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
        " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
    )


def _kind_name(value):
    name = type(value).__name__
    return f"torch.{name}" if isinstance(value, (_dtype.dtype, _device.device, formats.memory_format)) else name


def _suggested(t):
    """The memory format that a tensor's strides say."""
    g = t._ftorch_geometry
    if not is_channels_last(g):
        return formats.contiguous_format
    return formats.channels_last if g.ndim == 4 else formats.channels_last_3d


@method
def cpu(self, *, memory_format=None):
    return to(self, _device.CPU, memory_format=memory_format)


@method
def cuda(self, device=None, non_blocking=False, *, memory_format=None):
    if isinstance(device, (str, _device.device)) and _device.device(device).type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    return to(self, "cuda" if device is None else device, memory_format=memory_format)


for _name, _target in (
    ("float", _dtype.float32), ("double", _dtype.float64), ("half", _dtype.float16),
    ("bfloat16", _dtype.bfloat16), ("long", _dtype.int64), ("int", _dtype.int32),
    ("short", _dtype.int16), ("char", _dtype.int8), ("byte", _dtype.uint8), ("bool", _dtype.bool),
    ("chalf", _dtype.complex32), ("cfloat", _dtype.complex64), ("cdouble", _dtype.complex128),
):

    def _conversion(self, *, memory_format=None, _target=_target):
        if memory_format is not None:
            return to(self, _target, memory_format=memory_format)
        return _cast(self, _target)

    _conversion.__name__ = _name
    METHODS[_name] = _conversion


@method
def type_as(self, other):
    """``self.type(other.type())``."""
    if not isinstance(other, TensorBase):
        raise declared.misfit("type_as(Tensor self, Tensor other) -> Tensor", (self, other))
    if other.__class__ not in PLAIN and (result := asked("type_as", self, other)) is not NotImplemented:
        return result
    return to(self, other._ftorch_geometry.device, other._ftorch_geometry.dtype)


def type_(self, dtype=None, non_blocking=False):
    """The tensor's type as text, or the tensor cast to a type given as dtype or text."""
    from .legacy_types import type_name, type_target

    if dtype is None:
        return type_name(self)
    return to(self, *type_target(dtype))


type_.__name__ = type_.__qualname__ = "type"
METHODS["type"] = type_


# --- values --------------------------------------------------------------------------


@method
def item(self):
    """The value of a one-element tensor as a Python number.

    Raises:
        RuntimeError: if there is more than one element.
    """
    if (number := _number_of(self)) is not None:
        return number
    g = self._ftorch_geometry
    if g.numel != 1:
        raise RuntimeError(f"a Tensor with {g.numel} elements cannot be converted to Scalar")
    if _op.special[0] or self.__class__ not in PLAIN:
        handled, result = _op.hooks.python_method("_local_scalar_dense", self)
        if handled:
            return result
        if (level := getattr(self, "_ftorch_level", None)) is not None:  # by the operator, not the method
            return level.known(self, "item").item()
    if g.device is _device.META:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    _known(self)
    if g.dtype.is_shell:
        raise NotImplementedError(
            f"\"_local_scalar_dense_cpu\" not implemented for '{g.dtype.scalar_name}'"
        )
    if g.dtype.name not in _PLAIN_NUMPY:
        return float(_op.to_numpy(self).reshape(()))
    found = _in_place(self)
    return _op.to_numpy(self).item() if found is None else found.item()


def _nothing(t):
    return None


_number_of = _nothing if _op.in_c is None else _op.in_c.number_of  # of a tensor whose value is simply there


def _in_place(t):
    """The elements of a tensor on the CPU where they lie, to be read at once; None where they have to be made."""
    g, storage = t._ftorch_geometry, t._ftorch_storage
    root = storage.root
    if g.bits or root.dtype is not g.dtype or not root.is_contiguous or postponed.checks or g.device is not _device.CPU:
        return None
    trace = storage.trace
    if trace is not None:
        if trace.captures:
            return None
        storage.settle()
    elif on_look[0] is not None:
        return None
    memory = storage.array
    if memory is None:
        memory = storage.host
        if memory is None or storage.trace is not None or storage.error is not None:
            return None
    elif memory.__class__ is not np.ndarray:
        memory = np.asarray(storage.ready())
        if memory.nbytes <= KEPT_BYTES:  # who looks once looks again
            storage.array = memory
    if g is root and memory.shape == g.shape:
        return memory
    if not memory.flags.c_contiguous or memory.dtype != g.dtype.numpy:
        return None
    return strided(memory, g, t._ftorch_offset)


_PLAIN_NUMPY = {
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex32", "complex64", "complex128",
}


def _known(t):
    if t._ftorch_storage.error is not None and t._ftorch_storage.array is None:
        raise t._ftorch_storage.error
    if t._ftorch_storage.trace is IMMEDIATE:
        raise RuntimeError(
            "the value of this tensor is not known: it is being traced by a JAX transformation. Use "
            "torch.where or control flow operators instead of Python control flow on values"
        )


@method
def tolist(self):
    """The elements as nested lists of Python numbers."""
    _known(self)
    array = _in_place(self)
    if array is None:
        array = _op.to_numpy(self)
    if self._ftorch_geometry.dtype.name not in _PLAIN_NUMPY:
        array = array.astype(np.float64)
    return array.tolist()


METHODS["numpy"] = numpy
METHODS["jax"] = jax_array
METHODS["__jax_array__"] = jax_array
METHODS["__dlpack__"] = dlpack
METHODS["__dlpack_device__"] = dlpack_device
METHODS["__array_priority__"] = 1000


@method
def __array__(self, dtype=None, copy=None):
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return array.astype(dtype)
    return array.copy() if copy else array  # NumPy leaves it to this method to copy


@method
def __len__(self):
    shape = self._ftorch_geometry.shape
    if not shape:
        raise TypeError("len() of a 0-d tensor")
    return shape[0]


@method
def __iter__(self):
    if not (self._ftorch_geometry.shape if self.__class__ in PLAIN else self.dim()):  # users' handlers see both calls
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@method
def __bool__(self):
    g = self._ftorch_geometry
    if g.numel > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    if g.numel == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    capture = capture_trace.capturing()
    if capture is not None and capture.on_truth is not None and capture.on_truth(self):
        return True
    return bool(item(self))


@method
def __int__(self):
    return int(_real(_single(self), "int64_t"))


@method
def __float__(self):
    if self.requires_grad:
        say_that_gradients_end()
    return float(_real(_single(self), "double"))


def _single(t):
    """`item` for Python's conversions, which PyTorch makes with another error."""
    if t._ftorch_geometry.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return item(t)


def _real(value, to):
    """A number without its imaginary part, which must be zero."""
    if type(value) is complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {to} without overflow")
        return value.real
    return value


@method
def __complex__(self):
    if self.requires_grad:
        say_that_gradients_end()
    return complex(_single(self))


@method
def __index__(self):
    g = self._ftorch_geometry
    if g.numel != 1 or g.dtype.category > 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(_real(item(self), "int64_t"))


@method
def __delitem__(self, index):
    raise TypeError("Tensor does not support deleting items")


@method
def __contains__(self, element):
    if isinstance(element, (TensorBase, int, float, complex)):
        return bool((self == element).any())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {element.__class__}."
    )


@method
def __hash__(self):
    return id(self)


@method
def __format__(self, spec):
    if not self._ftorch_geometry.shape and type(self) is Tensor and not self.is_meta:
        return format(item(self), spec)
    return object.__format__(self, spec) if spec else repr(self)


@method
def __repr__(self, *, tensor_contents=None):
    from .representing import representation

    return representation(self, tensor_contents)


def _names(self):
    return sorted({*dir(self.__class__), *self.__dict__})


METHODS["__dir__"] = _names  # as a function of that name it would be the module's own


# --- classes --------------------------------------------------------------------------


def retyped(self, cls):
    """A tensor of another class that is the same one: in the same memory and at the same place in the graph.

    Of a leaf it makes a second leaf, which no gradient of the first one reaches: see `as_subclass`.
    """
    if native.module is not None and executor.DEFERRED:
        return native.module.as_subclass(self, cls)
    out = object.__new__(cls)
    for slot in TensorBase.__slots__:
        setattr(out, slot, getattr(self, slot))
    return out


def _check_class(cls):
    if not issubclass(cls, TensorBase):
        raise TypeError("Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. "
                        "Make sure your class inherits from Tensor.")


@method
def as_subclass(self, cls):
    """A view of the tensor that is an instance of a subclass; gradients flow through it.

    Raises:
        TypeError: the class is none of tensors.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    _check_class(cls)
    if self.__class__ in DISPATCHING or cls in DISPATCHING:
        check_free(self, cls)
        return retyped(self, cls)
    return retyped(alias(self), cls)


def alias(tensor):
    """A view of all of a tensor, of which neither its class nor modes are asked."""
    with DisableTorchFunction():
        return view_call(OPS["alias"], tensor)


def _make_subclass(cls, data, require_grad=False):
    if not isinstance(data, TensorBase):
        raise TypeError(f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}")
    _check_class(cls)
    if _op.special[0] and data.__class__ is Tensor and not modes.levels:  # below who sees calls
        made = wrap_view(data._ftorch_storage, data._ftorch_geometry, data._ftorch_offset, None)
    else:
        made = data.detach()
    check_free(made, cls)
    return new_leaf(retyped(made, cls), require_grad)


METHODS["_make_subclass"] = staticmethod(_make_subclass)


def _make_wrapper_subclass(
    cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None, layout=None,
    device=None, pin_memory=False, requires_grad=False, dispatch_sizes_strides_policy=None,
    dispatch_device=False, dispatch_layout=False, storage_size=None,
):
    """A tensor of a subclass with ``__torch_dispatch__``, which has a shape but no elements.

    Raises:
        TypeError: the class is no subclass of Tensor, or has no ``__torch_dispatch__``.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not "
            "possible. Make sure your class inherits from Tensor."
        )
    if cls not in DISPATCHING:
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    g = geometry(
        Size(tuple(size)), dtype or _dtype.get_default_dtype(), _device.resolve(device),
        None if strides is None else tuple(strides),
    )
    storage = Storage(g)
    storage.error = RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
    out = object.__new__(cls)
    out._ftorch_storage, out._ftorch_geometry, out._ftorch_offset = storage, g, storage_offset or 0
    out._ftorch_requires_grad, out._ftorch_output_nr, out._ftorch_attr_version = bool(requires_grad), 0, 0
    out._grad_fn = out._grad = out._base = out._ftorch_meta = None
    return out


METHODS["_make_wrapper_subclass"] = staticmethod(_make_wrapper_subclass)


def move_to_device(t, where: _device.device):
    """A copy of a tensor's value on another device, outside any graph."""
    g = t._ftorch_geometry
    target = geometry(g.shape, g.dtype, where, g.stride if g.is_dense else None)
    if where is _device.META:
        return wrap(Storage(target))
    if g.device is _device.META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    value = _op.read(t).as_jax()
    if isinstance(value, jax.core.Tracer):
        storage = Storage(target, jax.device_put(value, _device.to_jax(where)))
        storage.trace = IMMEDIATE
    elif where is _device.CPU and g.device.type == "cuda":
        storage = Storage(target, _device.put(gpu_driver.elements(value), where))
    else:
        storage = Storage(target, jax.device_put(value, _device.to_jax(where)))
    return wrap(storage)
