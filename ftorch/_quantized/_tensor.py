"""`QuantizedTensor`: an ordinary tensor of integers and a quantizer, and the table of what can be done with it.

Like sparse tensors it takes part in calls by ``__torch_function__``: a public function is looked up in `TABLE` by its
name; what is not there raises PyTorch's error. Functions that only move elements are done on the integers, whose memory
a quantized tensor's views share.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ..eager.core import dtype as _dtype
from ..eager.core.errors import could_not_run
from ..eager.core.geometry import Size, geometry
from ..eager.core.user_warnings import warn_once
from ..eager.dispatch import overrides
from ..eager.memory.storage import INFERENCE
from ..eager.tensor import Tensor, modes
from . import _quantizer as q

TABLE: dict[str, Callable] = {}  # the name of a public function or method -> what it does here


def quantized_op(*names: str):
    """Declares what the public functions and methods of some names do when an operand is quantized."""

    def register(function):
        for name in names or (function.__name__,):
            TABLE[name] = function
        return function

    return register


class ScriptObject:
    """An object of a class that PyTorch has in C++, as packed weights are (``torch.ScriptObject``)."""

    is_replaced_whole = True  # nobody changes what it holds: compiled calls have it, and look whether it is the same

    __module__ = "torch"


# Public names whose operator is called otherwise.
_ATEN = {"add": "add.out", "mul": "mul.out", "neg": "neg.out", "abs": "abs.out", "sum": "sum.IntList_out",
         "argmax": "argmax.out", "where": "where.self", "_batch_norm_train": "native_batch_norm",
         "_instance_norm_train": "native_batch_norm"}


def not_run(name, backend="QuantizedCPU"):
    """PyTorch's error for an operator that there is not."""
    if backend == "CPU":
        return could_not_run(name, backend)
    return could_not_run(
        _ATEN.get(name, name), backend, "Call .dequantize() first to compute it on ordinary numbers."
    )


class QuantizedTensor(Tensor):
    """A tensor of integers that stand for real numbers (``torch.quantize_per_tensor`` makes one).

    Attributes:
        _ints: the integers, an ordinary tensor; packed into bytes for ``quint4x2`` and ``quint2x4``.
        _quantizer: a `PerTensor` or `PerChannel`.
    """

    __slots__ = ("_ints", "_quantizer")
    _slots_are_data = True
    _ints: Any
    _quantizer: Any
    __module__ = "torch"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "namespace", None) in ("quantized", "sparse"):  # its own operators of `torch.ops`
            return func.run(args, kwargs)
        name = overrides.called_name(func)
        found = TABLE.get(name)
        if found is not None:
            return found(*args, **kwargs)
        if name in MOVING:
            return moved(func, args, kwargs)
        inner = overrides.composition(func)
        if inner is not None:  # a composition: what it calls may be there
            return inner(*args, **kwargs)
        raise not_run(name)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise not_run(func._opname)

    is_quantized = True

    @property
    def requires_grad(self):
        return False

    @requires_grad.setter
    def requires_grad(self, value):
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad=True):
        """Quantized tensors have no gradients."""
        if requires_grad:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return self

    def __repr__(self, *, tensor_contents=None):
        from ._printing import representation

        opening = "Parameter containing:\n" if self.__dict__.get("_is_param") else ""
        return opening + representation(self)

    __str__ = __repr__

    def __hash__(self):
        return id(self)

    def __reduce_ex__(self, protocol):
        from ._creation import rebuilt_from_integers

        return rebuilt_from_integers, (self._ints, self.dtype, self._quantizer.arguments(), tuple(self.shape),
                                       self.__dict__ or None)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copy = build(self._ints.clone(), self._quantizer.copy(), self.dtype, self.shape)
            memo[id(self)] = copy
            copy.__dict__.update(deepcopy(self.__dict__, memo))
        return memo[id(self)]

    def __copy__(self):
        copy = build(self._ints, self._quantizer, self.dtype, self.shape)
        copy.__dict__.update(self.__dict__)
        return copy

    def __iter__(self):
        return iter(self.unbind(0))

    def __bool__(self):
        return bool(self.dequantize())

    def __format__(self, spec=""):
        return format(self.item(), spec) if spec and not self.dim() else repr(self)


_DEPRECATED = (
    "torch.quantize_per_tensor, torch.quantize_per_channel and other quantized tensor creation functions that produce tensors "
    "with dtype torch.quint8, torch.qint8, and torch.qint32 are deprecated and will be removed in a future PyTorch release. "
    "Please see https://github.com/pytorch/pytorch/issues/184982 for more information."
)


def build(ints, quantizer, dtype=None, shape=None) -> QuantizedTensor:
    """The quantized tensor of some integers, whose memory it shares.

    Args:
        shape: for packed integers, that of the tensor.
    """
    dtype = dtype or q.QUANTIZED[ints.dtype]
    warn_once(_DEPRECATED)
    t = object.__new__(QuantizedTensor)
    t._ftorch_storage = ints._ftorch_storage
    if dtype in q.PER_BYTE:
        t._ftorch_geometry, t._ftorch_offset = geometry(Size(shape), dtype, ints.device), 0
    else:
        g = ints._ftorch_geometry
        t._ftorch_geometry, t._ftorch_offset = geometry(g.shape, dtype, g.device, g.stride), ints._ftorch_offset
    t._ftorch_requires_grad = False
    t._grad_fn = t._grad = t._ftorch_meta = None
    t._base = None
    t._ftorch_output_nr = 0
    t._ftorch_attr_version = INFERENCE if modes.inference else 0
    t._ints, t._quantizer = ints, quantizer
    return t


def integers(t):
    """The integers of a quantized tensor in its own shape, unpacked."""
    if t.dtype in q.PER_BYTE:
        return q.unpack(t._ints, t.dtype, t.shape)
    return t._ints


def real(t):
    """The numbers that a quantized tensor stands for, float32; an ordinary tensor itself."""
    return t._quantizer.real(integers(t)) if isinstance(t, QuantizedTensor) else t


def quantized(x, quantizer, dtype):
    """Numbers as a quantized tensor."""
    ints = quantizer.quantized(x, dtype)
    if dtype in q.PER_BYTE:
        return build(q.pack(ints, dtype), quantizer, dtype, x.shape)
    return build(ints, quantizer, dtype)


def elementwise(function, operands, quantizer, dtype):
    """A function of the elements of quantized tensors, as a quantized tensor.

    Args:
        function: from tensors of numbers to one of numbers.
    """
    vector = function(*(t._quantizer.vector_real(integers(t)) for t in operands))
    ints = quantizer.elementwise_quantized(vector, function(*map(real, operands)), dtype)
    return build(ints, quantizer, dtype)


def with_integers(t, ints):
    """A quantized tensor like another one, of other integers."""
    if t.dtype in q.PER_BYTE:
        return build(q.pack(ints, t.dtype), t._quantizer, t.dtype, ints.shape)
    return build(ints, t._quantizer, t.dtype)


def quantized_like(t, dtype):
    """A quantized tensor's integers, packed as those of another dtype."""
    return build(q.pack(t._ints, dtype), t._quantizer, dtype, t.shape)


def per_tensor(t, name):
    """Raises RuntimeError unless a tensor has one scale."""
    if not isinstance(t._quantizer, q.PerTensor):
        raise RuntimeError(f"Only per_tensor quantized quantized tensors are supported by {name}.")
    return t


def adopt(t, out):
    """Makes a tensor what another one is: its integers, quantizer and geometry."""
    for slot in ("_ftorch_storage", "_ftorch_geometry", "_ftorch_offset", "_ints", "_quantizer"):
        setattr(t, slot, getattr(out, slot))
    return t


# --- functions that move elements ----------------------------------------------------

MOVING = frozenset(
    "__getitem__ view reshape t transpose permute unsqueeze squeeze flatten unflatten expand expand_as view_as "
    "reshape_as select narrow slice split chunk unbind unsafe_chunk unsafe_split tensor_split swapaxes swapdims "
    "movedim moveaxis repeat tile flip index_select contiguous clone detach as_strided channel_shuffle "
    "pixel_shuffle pixel_unshuffle max_pool2d T mT unfold "
    "ravel broadcast_to alias diagonal max_pool3d "
    "hsplit vsplit dsplit rot90 fliplr flipud adjoint H mH select_copy".split()
)
_FREE = frozenset("contiguous clone detach alias".split())


def moved(func, args, kwargs):
    """Elements of a quantized tensor somewhere else, or of a part of it: done on the integers."""
    first = next(a for a in overrides.flat_arguments(args, kwargs) if isinstance(a, QuantizedTensor))
    name = overrides.called_name(func)
    quantizer = first._quantizer
    plain = [_plain(a) for a in args]
    named = {k: _plain(v) for k, v in kwargs.items()}
    if isinstance(quantizer, q.PerTensor):
        if first.dtype not in q.PER_BYTE:
            return wrapped(func(*plain, **named), quantizer)
        result = func(*[integers(first) if a is first else b for a, b in zip(args, plain)], **named)
        return _mapped(result, lambda r: with_integers(first, r))
    if name == "clone" and quantizer.floating:
        raise RuntimeError("clone for quantized Tensor only works for       PerTensorAffine and PerChannelAffine qscheme "
                           "right now")
    if name not in _FREE and first.dtype in q.PER_BYTE:  # done with a byte for each, of which the results become halves
        twin = build(integers(first), quantizer)
        result = moved(func, [twin if a is first else a for a in args], kwargs)
        return _mapped(result, lambda r: quantized_like(r, first.dtype))
    if name in _FREE:
        out = func(*plain, **named)
        return build(out, quantizer.copy() if name == "clone" else quantizer, first.dtype, first.shape)
    from ._movement import per_channel_moved

    return per_channel_moved(func, name, first, plain, named)


def _plain(a):
    return a._ints if isinstance(a, QuantizedTensor) else a


def _mapped(result, function):
    if isinstance(result, Tensor):
        return function(result)
    return type(result)(_mapped(r, function) for r in result)


def wrapped(result, quantizer):
    """Results on integers as quantized tensors."""
    return _mapped(result, lambda r: build(r, quantizer) if r.dtype is not _dtype.int64 else r)


# What works on a tensor's geometry is the same as for ordinary tensors.
for _name in (
    "shape",
    "dtype",
    "device",
    "ndim",
    "itemsize",
    "nbytes",
    "layout",
    "is_cuda",
    "is_cpu",
    "is_meta",
    "is_xla",
    "is_nested",
    "_is_view",
    "_is_zerotensor",
    "_has_symbolic_sizes_strides",
    "_backward_hooks",
    "_cdata",
    "__dlpack_device__",
    "is_sparse",
    "is_sparse_csr",
    "is_mkldnn",
    "is_vulkan",
    "is_ipu",
    "is_hpu",
    "is_mps",
    "is_mtia",
    "is_xpu",
    "is_maia",
    "size",
    "dim",
    "ndimension",
    "numel",
    "nelement",
    "element_size",
    "stride",
    "storage_offset",
    "is_contiguous",
    "is_floating_point",
    "is_complex",
    "is_conj",
    "is_neg",
    "is_inference",
    "is_same_size",
    "get_device",
    "grad_fn",
    "is_leaf",
    "output_nr",
    "_base_",
    "grad",
    "detach_",
    "retains_grad",
    "__len__",
    "__dir__",
    "is_non_overlapping_and_dense",
    "names",
    "has_names",
    "is_set_to",
):
    _value = vars(Tensor).get(_name)
    if _value is not None:
        setattr(QuantizedTensor, _name, _value)
        if callable(_value):
            TABLE[_name] = _value
for _name in ("_version", "is_shared", "is_pinned", "share_memory_", "pin_memory", "data_ptr", "untyped_storage"):
    _value = vars(Tensor).get(_name)
    if isinstance(_value, property):
        setattr(QuantizedTensor, _name, property(lambda self, _n=_name: getattr(self._ints, _n)))
    elif _value is not None:
        def _forward(self, *args, _n=_name, **kwargs):
            result = getattr(self._ints, _n)(*args, **kwargs)
            return self if result is self._ints else result

        setattr(QuantizedTensor, _name, _forward)
        TABLE[_name] = _forward
