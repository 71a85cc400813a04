"""Tensor methods that are no ops: a tensor's geometry and its memory.

Conversions and values are in `conversions`, autograd is in `graph_methods`; all register in `METHODS`.
"""

from __future__ import annotations

import operator

import numpy as np

from ..autograd.inplace_history import check_inplace
from ..autograd.tape import rename_node
from ..autograd.unregistered import refuse_gradients
from ..autograd.views import as_strided as _as_strided
from ..autograd.views import view_call
from ..bindings import declared
from ..call import op as _op
from ..call.argument_types import type_name
from ..core import api, fill, formats
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import CONJ, NEG, Size, geometry, infer_size, view_stride
from ..core.registry import OPS
from ..core.user_warnings import warn_user
from ..memory import host_memory, shared_memory
from ..runtime import capture_trace, executor
from ..tensor import (
    DISPATCHING,
    PLAIN,
    TensorBase,
    count_write,
    extras,
    from_array,
    modes,
    replace_memory,
    wrap_view,
)
from .storage_sharing import check_resizable

METHODS: dict[str, object] = {}


def method(function):
    """Registers a method of `Tensor`."""
    METHODS[function.__name__] = function
    return function


def attribute(getter):
    """Registers a read-only attribute of `Tensor`."""
    METHODS[getter.__name__] = property(getter)
    return getter


def asked(name, self, other, *args, **kwargs):
    """What the class of a method's second tensor makes of the call; NotImplemented where it has no say."""
    if not modes.subclasses:
        return NotImplemented
    return _op.hooks.function_override(METHODS[name], (self, other, *args), kwargs)


# --- geometry ------------------------------------------------------------------------

METHODS["shape"] = property(lambda self: self._ftorch_geometry.shape)
METHODS["dtype"] = property(lambda self: self._ftorch_geometry.dtype)
METHODS["device"] = property(lambda self: self._ftorch_geometry.device)
METHODS["ndim"] = property(lambda self: len(self._ftorch_geometry.shape))
METHODS["itemsize"] = property(lambda self: self._ftorch_geometry.dtype.itemsize)
METHODS["nbytes"] = property(lambda self: self._ftorch_geometry.numel * self._ftorch_geometry.dtype.itemsize)
METHODS["layout"] = property(lambda self: formats.strided)
for _name, _kind in (("is_cuda", "cuda"), ("is_cpu", "cpu"), ("is_meta", "meta"),
                     ("is_xla", "tpu")):
    METHODS[_name] = property(lambda self, _kind=_kind: self._ftorch_geometry.device.type == _kind)
for _name in ("is_sparse", "is_quantized", "is_mkldnn", "is_nested", "is_sparse_csr", "is_mps",
              "is_vulkan", "is_xpu", "is_ipu", "is_maia", "is_mtia"):
    METHODS[_name] = False


@method
def size(self, dim=None):
    """The shape, or the extent of one dimension."""
    shape = self._ftorch_geometry.shape
    if dim is None:
        return shape
    if dim.__class__ is not int and (isinstance(dim, (float, bool, str)) or not hasattr(dim, "__index__")):
        raise TypeError(f"size(): argument 'dim' (position 1) must be int, not {type_name(dim)}")
    return shape[_wrap(dim, len(shape))]


def _wrap(dim, ndim):
    extent = max(ndim, 1)
    if not -extent <= dim < extent:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-extent}, {extent - 1}], but got "
            f"{dim})"
        )
    return dim + extent if dim < 0 else dim


@method
def stride(self, dim=None):
    """The strides, or that of one dimension."""
    strides = self._ftorch_geometry.stride
    if not (dim is None or hasattr(dim, "__index__")):
        raise TypeError(f"stride(): argument 'dim' (position 1) must be int, not {type_name(dim)}")
    return strides if dim is None else strides[_wrap(dim, len(strides))]


@method
def dim(self):
    """The number of dimensions."""
    return len(self._ftorch_geometry.shape)


METHODS["ndimension"] = dim


@method
def numel(self):
    """The number of elements."""
    return self._ftorch_geometry.numel


METHODS["nelement"] = numel


@method
def element_size(self):
    """Bytes per element."""
    return self._ftorch_geometry.dtype.itemsize


@method
def storage_offset(self):
    """The position of the first element in the storage, in elements."""
    capture_trace.asks_place()
    return self._ftorch_offset


@method
def is_contiguous(self, memory_format=formats.contiguous_format):
    """Whether the elements lie in memory in the order of the format."""
    if memory_format is formats.contiguous_format:
        return self._ftorch_geometry.is_contiguous
    return formats.is_in_format(self._ftorch_geometry, memory_format)


@method
def is_floating_point(self):
    return self._ftorch_geometry.dtype.is_floating_point


@method
def is_complex(self):
    return self._ftorch_geometry.dtype.is_complex


@method
def is_signed(self):
    return self._ftorch_geometry.dtype.is_signed


@method
def is_conj(self):
    """Whether the tensor is a conjugate view (``torch.is_conj``)."""
    return bool(self._ftorch_geometry.bits & CONJ)


@method
def is_neg(self):
    """Whether the tensor is a negated view (``torch.is_neg``)."""
    return bool(self._ftorch_geometry.bits & NEG)


@method
def is_inference(self):
    """Whether the tensor was made in ``inference_mode``."""
    return self._ftorch_storage.version < 0


@method
def is_set_to(self, tensor):
    """Whether both are the same part of the same storage."""
    if tensor.__class__ not in PLAIN and (result := asked("is_set_to", self, tensor)) is not NotImplemented:
        return result
    capture_trace.asks_place()
    g, h = self._ftorch_geometry, tensor._ftorch_geometry
    return (
        self._ftorch_storage is tensor._ftorch_storage and self._ftorch_offset == tensor._ftorch_offset
        and g.shape == h.shape and g.stride == h.stride and not (g.bits or h.bits)  # PyTorch compares resolved copies
    )


@method
def is_same_size(self, other):
    if other.__class__ not in PLAIN and (result := asked("is_same_size", self, other)) is not NotImplemented:
        return result
    return self._ftorch_geometry.shape == other._ftorch_geometry.shape


@method
def get_device(self):
    """The index of the device, -1 for the CPU."""
    index = self._ftorch_geometry.device.index
    return -1 if index is None else index


# --- memory --------------------------------------------------------------------------


@method
def data_ptr(self):
    """The address of the first element: on the CPU that of its memory, until somebody writes there."""
    if not self._ftorch_geometry.numel or self._ftorch_geometry.device.type == "meta":
        return 0
    return self._ftorch_storage.address() + self._ftorch_offset * self._ftorch_geometry.dtype.itemsize


@method
def untyped_storage(self):
    from .storages import UntypedStorage

    capture_trace.asks_place()
    return UntypedStorage.of(self._ftorch_storage)


@method
def storage(self):
    from .storages import warn_of_typed

    warn_of_typed()
    return _typed_storage(self)


@method
def _typed_storage(self):
    from .storages import TypedStorage

    capture_trace.asks_place()
    return TypedStorage(self._ftorch_storage, dtype=self._ftorch_geometry.dtype)


@method
def contiguous(self, *, memory_format=formats.contiguous_format):
    """The tensor itself if it lies in memory as the format says, else a copy that does."""
    if memory_format is formats.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if is_contiguous(self, memory_format):
        return self
    return clone(self, memory_format=memory_format)


@method
def clone(self, *, memory_format=None):
    """A copy; gradients flow through it (``torch.clone``)."""
    seen = None
    if memory_format is not None and (self.__class__ in DISPATCHING or _op.hooks.python is not None or _is_traced(self)):
        seen = memory_format  # whoever makes the copy is told
    out = _op.call(_op.op_named("clone"), (self,), (seen,))
    if memory_format is not None and memory_format is not formats.preserve_format:
        relayout(out, formats.strides_for(self._ftorch_geometry.shape, memory_format))
    return out


def _is_traced(t):
    return bool(_op.special[0]) and hasattr(t, "_ftorch_level") and t._ftorch_level.sees_aten


def relayout(t, strides):
    """Declares the memory layout of a fresh tensor."""
    g = t._ftorch_geometry
    if g.stride != strides and t.__class__ in PLAIN:
        new = geometry(g.shape, g.dtype, g.device, strides)
        executor.relabel(t._ftorch_storage, new)
        t._ftorch_geometry = new
        if _op.special[0] and hasattr(t, "_ftorch_level"):
            t._ftorch_level.relaid(t, strides)
    return t


def _by_keyword(schema, self, sizes, named):
    """Sizes that were given by their keyword, as if they had been given without one."""
    given = next(iter(named.values()), None)
    if sizes or not isinstance(given, (tuple, list)):
        raise declared.misfit(schema, (self, *sizes), named)
    return (given,)


@method
def reshape(self, *sizes, shape=None):
    """The same elements in another shape: a view if one is possible, else a copy."""
    # Who looks at the call later finds what was given in these arguments: they stay as they are.
    schema = "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"
    asked_for = sizes if shape is None else _by_keyword(schema, self, sizes, {"shape": shape})
    given = tuple(asked_for[0]) if len(asked_for) == 1 and isinstance(asked_for[0], (tuple, list)) else asked_for
    try:
        found, is_view = _reshaped(self._ftorch_geometry, given if asked_for else (None,))
    except TypeError:
        raise declared.misfit(schema, (self, *asked_for)) from None
    if is_view:  # who records it keeps a -1: the sizes of others differ
        return view_call(OPS["view"], self, (given if _op.special[0] and -1 in given else found,))
    copy = contiguous(self)
    if _op.hooks.unsafe_view is not None and (_op.special[0] or copy.__class__ in DISPATCHING):
        copy = _op.hooks.unsafe_view(copy, found)
    else:
        copy = view_call(OPS["view"], copy, (found,))
    copy._base = None  # of a copy that nobody else can reach
    if copy._grad_fn is not None:
        rename_node(copy._grad_fn, "UnsafeViewBackward0")
    return copy


def _size_of(n) -> int:
    if isinstance(n, (bool, float)):
        raise TypeError
    return operator.index(n)


def _reshaped(g, shape):
    """(the sizes with -1 replaced, whether there is a view of them)."""
    key = ("reshape", shape)
    found = g._views.get(key)
    if found is None or isinstance(sum(shape), float):  # 2.0 is found as 2
        sizes = infer_size(tuple(n if n.__class__ is int else _size_of(n) for n in shape), g.numel)
        found = sizes, g.has_new_stride() or view_stride(g.shape, g.stride, sizes) is not None
        if all(n.__class__ is int for n in shape):
            g._views[key] = found
    return found


@method
def reshape_as(self, other):
    if other.__class__ not in PLAIN and (result := asked("reshape_as", self, other)) is not NotImplemented:
        return result
    return reshape(self, other.shape)


@method
def view_as(self, other):
    """``self.view(other.size())``."""
    if other.__class__ not in PLAIN and (result := asked("view_as", self, other)) is not NotImplemented:
        return result
    return view_call(OPS["view"], self, (other.shape,))


@method
def expand_as(self, other):
    """``self.expand(other.size())``."""
    if other.__class__ not in PLAIN and (result := asked("expand_as", self, other)) is not NotImplemented:
        return result
    return view_call(OPS["expand"], self, (other.shape, False))


@method
def as_strided(self, size, stride, storage_offset=None):
    """A view with any size, stride and offset in the storage (``torch.as_strided``)."""
    return _as_strided(self, size, stride, storage_offset)


def _transposed(attribute, op, conjugates=False, batches=True):
    """``x.T`` and its relatives; what they say of tensors that are no matrices they say once."""
    if batches:
        takes, hint = "matrices or batches of matrices", ""
    else:
        takes, hint = "matrices (2-D tensors)", "tensor.mH"
    identity = "Consider using x.conj()." if conjugates else (
        "This function is the identity in these cases."
    )
    said = set()

    def getter(self):
        ndim = len(self._ftorch_geometry.shape)
        if ndim != 2 and (ndim == 0 or attribute == "T" or ndim == 1 or not batches):
            if ndim == 0:
                text = f"Tensor.{attribute} is deprecated on 0-D tensors. {identity}"
            elif attribute == "T":
                text = (
                    "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
                    "deprecated and it will throw an error in a future release. Consider `x.mT` to "
                    "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` "
                    "to reverse the dimensions of a tensor."
                )
            else:
                also = f" For batches of matrices, consider using {hint}" if ndim > 2 else ""
                raise RuntimeError(
                    f"tensor.{attribute} is only supported on {takes}. Got {ndim}-D tensor.{also}"
                )
            if text not in said:
                said.add(text)
                warn_user(text)
        result = self if ndim == 0 and op != "numpy_T" else view_call(OPS[op], self, ())
        return result.conj() if conjugates else result

    return property(getter)


METHODS["T"] = _transposed("T", "numpy_T")
METHODS["mT"] = _transposed("mT", "mT")
METHODS["mH"] = _transposed("mH", "mT", conjugates=True)
METHODS["H"] = _transposed("H", "mT", conjugates=True, batches=False)


def _part(name):
    def getter(self):
        if not self._ftorch_geometry.dtype.is_complex:
            if name == "_real_part":
                return self
            raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
        return view_call(OPS[name], self, ())

    def setter(self, value):
        getter(self).copy_(value)

    return property(getter, setter)


METHODS["real"] = _part("_real_part")
METHODS["imag"] = _part("_imag_part")


@method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Makes the tensor another part of another storage.

    Raises:
        RuntimeError: it is a leaf that requires grad.
    """
    _op.check_writable(self)
    if modes.grad and _op.is_in_graph(self):
        check_inplace(self)
    if (level := getattr(self, "_ftorch_level", None)) is not None:
        return level.set(self, source, storage_offset, size, stride)
    leave_capture(self)
    offset, shape, strides = storage_offset, size, stride
    if source is None:
        cell = api.empty(0, dtype=self.dtype, device=self.device)._ftorch_storage
        shape, strides = (0,), (1,)
    elif isinstance(source, TensorBase):
        if source.dtype is not self.dtype:
            raise RuntimeError(f"Could not set tensor of type {source.dtype.c_name} to a tensor of type {self.dtype.c_name}")
        cell = source._ftorch_storage
        if shape is None:
            offset, shape, strides = source._ftorch_offset, source.shape, source.stride()
    else:
        kind = getattr(source, "dtype", self.dtype)
        if kind is not self.dtype:
            raise RuntimeError(f"Expected a Storage of type {self.dtype.c_name} or an UntypedStorage, but got type "
                               f"{kind.scalar_name} for argument 1 'storage'")
        cell = source._cell
        if shape is None:
            shape = (cell.nbytes // self.dtype.itemsize,)
    shape = Size((shape,) if isinstance(shape, int) else shape)
    device = self._ftorch_geometry.device  # `device` of fake tensors is another
    where = geometry(shape, self.dtype, device, None if strides is None else tuple(strides))
    extent = offset + 1 + sum((n - 1) * s for n, s in zip(shape, where.stride)) if where.numel else 0
    if extent * self.dtype.itemsize > cell.nbytes and device is not _device.META:
        from .storages import UntypedStorage

        if shape == self.shape and where.stride == self.stride():  # as in PyTorch, where only a new size makes room
            raise RuntimeError(
                f"setStorage: sizes {list(shape)}, strides {list(strides or ())}, storage offset {offset}, and itemsize "
                f"{self.dtype.itemsize} requiring a storage size of {extent * self.dtype.itemsize} are out of bounds for "
                f"storage of size {cell.nbytes}"
            )
        UntypedStorage.of(cell).resize_(extent * self.dtype.itemsize)
    refuse_gradients(self, "set_", [self, source] if isinstance(source, TensorBase) else [self])
    replace_memory(self, cell, where, offset)
    count_write(self)
    extras(self).accumulator = None  # graphs made before know nothing of the new elements
    return self


def leave_capture(t):
    """Ends a capture in which a tensor from outside changes its own geometry: programs give values only."""
    capture = capture_trace.capturing()
    if capture is not None and not capture.has_made(t._ftorch_storage):
        capture.end("a tensor's own geometry is changed")


@method
def resize_(self, *sizes, size=None, memory_format=None):
    """Changes the size in place; the storage grows if it must (new elements are zero, see `ftorch.eager.core.fill`).

    Args:
        memory_format: the layout of the memory from then on, also where the size is what it was.
    """
    if size is not None or not sizes:
        (given,) = _by_keyword(
            "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)", self, sizes,
            {} if size is None else {"size": size},
        )
    else:
        given = sizes[0] if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else map(operator.index, sizes)
    if _op.is_in_graph(self):
        raise RuntimeError("cannot resize variables that require grad")
    shape = Size(given)
    if memory_format is formats.preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    if min(shape, default=0) < 0 and 0 not in shape:  # PyTorch's tensor has that size nevertheless, and memory of none
        raise RuntimeError("numel: integer multiplication overflow")
    host_memory.check_countable(shape, self.dtype.itemsize)
    stride = formats.strides_for(shape, memory_format) if memory_format is not None else None
    if shape == self._ftorch_geometry.shape and stride in (None, self._ftorch_geometry.stride):
        return self
    _op.check_writable(self)
    if (level := getattr(self, "_ftorch_level", None)) is not None:
        return level.resized(self, shape, memory_format)
    leave_capture(self)
    new = geometry(shape, self.dtype, self._ftorch_geometry.device, stride)
    needed = self._ftorch_offset + new.expanse
    cell = self._ftorch_storage
    if cell.root.numel < needed:
        _grow(self, cell, needed)
    self._ftorch_geometry = new
    count_write(self)
    return self


def _grow(t, cell, needed):
    host_memory.check((needed,), t.dtype)
    check_resizable(cell)
    if cell.root.device is _device.META:
        cell.root = geometry(Size((needed,)), t.dtype, _device.META)
        return
    flat = _op.to_numpy(wrap_view(cell, geometry(Size((cell.root.numel,)), t.dtype, t.device), 0, None))
    value = fill.value(t.dtype)
    grown = np.zeros(needed, t.dtype.numpy) if value is None else np.full(needed, value, t.dtype.numpy)
    grown[: flat.size] = flat
    cell.root = geometry(Size((needed,)), t.dtype, t.device)
    cell.host, cell.trace, cell.array = None, None, _device.put(grown, t.device)


@method
def resize_as_(self, the_template, memory_format=None):
    """Changes the size in place to another tensor's (see `resize_`); the memory format, too, for ``preserve_format``."""
    if the_template.__class__ not in PLAIN:
        if (result := asked("resize_as_", self, the_template)) is not NotImplemented:
            return result
    kept = memory_format is formats.preserve_format
    return resize_(
        self, the_template.shape, memory_format=formats.suggested(the_template._ftorch_geometry) if kept else memory_format
    )


_WIDE = {float: _dtype.float64, complex: _dtype.complex128}


@method
def copy_(self, other, non_blocking=False):
    """Copies elements from another tensor, broadcast and cast, across devices."""
    if not isinstance(other, TensorBase):
        if not isinstance(other, (int, float, complex, np.generic)):
            raise TypeError(
                f"copy_(): argument 'other' (position 1) must be Tensor, not {type_name(other)}"
            )
        # A Python number keeps its precision: it takes the dtype of `self` only when written.
        source = api.tensor(other, dtype=_WIDE.get(type(other)))
    else:
        source = other
    if source._ftorch_geometry.device is not self._ftorch_geometry.device:
        source = source.to(self._ftorch_geometry.device)
    return _op.call_inplace(_op.op_named("copy"), (self, source), (False,))


def write_array(t, array):
    """Overwrites a tensor's elements by an array of its shape, as an in-place op does."""
    source = from_array(array, t._ftorch_geometry.device)
    return copy_(t, source)


@method
def share_memory_(self):
    """Moves the storage to memory that other processes have, too; sent to them it is no copy then."""
    if self.device.type == "cpu":
        shared_memory.share(self._ftorch_storage)
    return self


@method
def is_shared(self):
    return shared_memory.is_shared(self._ftorch_storage)


@method
def pin_memory(self, device=None):
    """The tensor itself: JAX's transfers do not need pinned memory."""
    return self


@method
def is_pinned(self, device=None):
    return False
