"""Nested tensors: a batch of tensors whose sizes differ.

A nested tensor holds dense tensors, its *leaves*: in the jagged layout the rows of all components one
after the other, and offsets that say where each component begins; in the strided layout the components.
What works on each row alone is done on the leaves, by the function that was called. The leaves carry
the graph; a nested tensor requires grad if one of them does.
"""

from __future__ import annotations

import functools

import numpy as np

from .. import _utils
from ..eager.autograd import backward as _backward
from ..eager.call import op as _op
from ..eager.core import api as torch
from ..eager.core import formats
from ..eager.core.geometry import Size, contiguous_stride
from ..eager.core.user_warnings import warn_once
from ..eager.dispatch import overrides
from ..eager.kernels._common import wrap_dim
from ..eager.memory.storage import Storage
from ..eager.tensor import Tensor
from . import _jagged, _reductions, _strided
from ._extents import extent_of

# Functions of single elements, or of the last dimensions: they are done on the leaves.
_ON_LEAVES = frozenset(
    "abs add sub subtract mul multiply div divide true_divide neg negative pow exp log log1p expm1 sqrt "
    "rsqrt square reciprocal sin cos tan tanh sigmoid relu relu_ gelu silu mish elu selu celu softplus "
    "softsign hardtanh hardswish hardsigmoid leaky_relu logsigmoid erf clamp clip where dropout "
    "alpha_dropout floor ceil round trunc sign isnan isinf isfinite logical_not logical_and logical_or "
    "eq ne lt le gt ge maximum minimum lerp addcmul addcdiv linear layer_norm rms_norm clone contiguous "
    "to double float half bfloat16 int long bool zeros_like ones_like full_like empty_like rand_like "
    "randn_like detach nan_to_num embedding add_ sub_ mul_ div_ fill_ zero_ __radd__ __rmul__ __rsub__ "
    "__rtruediv__ rsub threshold threshold_ tanhshrink softshrink hardshrink cpu cuda type_as "
    "masked_fill _relu normalize positive".split()
)


@functools.cache
def _is_pointwise(name) -> bool:
    """Whether a function is of single elements, by the tags of ATen's op; jagged tensors have all of these."""
    plain = name.strip("_") if name.startswith("__") else name.removesuffix("_")
    forms = {plain, plain.removeprefix("r"), plain.removeprefix("i"), plain.removeprefix("special_")}
    return bool(forms & _jagged.pointwise_names())


class NestedTensor(Tensor):
    """A batch of tensors whose sizes differ (``torch.nested``)."""

    __module__ = "ftorch.nested._internal.nested_tensor"  # by which files name it
    __slots__ = ("_leaves", "_offsets", "_ragged", "_holes", "_at")  # _at: which dimension is ragged
    _slots_are_data = True

    def __new__(cls, values, offsets, *, lengths=None, requires_grad=False, _ragged_idx=1, **options):
        """A jagged tensor of its parts, a leaf; ``options``: PyTorch's others, which have no effect."""
        if offsets is None:
            raise AssertionError("offsets must not be None")
        return _rebuild_njt({
            "values": values.detach(), "offsets": offsets, "lengths": lengths, "_ragged_idx": _ragged_idx,
            "requires_grad": requires_grad,
        })

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = overrides.called_name(func)
        first = next(a for a in overrides.flat_arguments(args, kwargs) if isinstance(a, NestedTensor))
        if name == "is_same_size":
            return _same_size(*args, **kwargs)
        if first._offsets is not None:
            if name in _jagged.METHODS:
                return _jagged.METHODS[name](*args, **kwargs)
            if name in _jagged.POINTWISE or _is_pointwise(name):
                args, kwargs = _jagged.dense_operands(first, name, args, kwargs)
            if name == "chunk" and (args[2] if len(args) > 2 else kwargs.get("dim", 0)) % first.dim() != 1:
                return _jagged.chunk(*args, **kwargs)
            if name in _reductions.NAMES and not any(isinstance(a, Tensor) for a in args[1:]) and "other" not in kwargs:
                return _reductions.reduced(func, name, *args, **kwargs)
            if name in ("softmax", "log_softmax"):
                return _reductions.softmax(func, name, *args, **kwargs)
            if _is_pointwise(name):
                return mapped(func, name, first, args, kwargs)
        if first._offsets is None:
            if name in _strided.METHODS:
                return _strided.METHODS[name](*args, **kwargs)
            _strided.refuse(first, name, args)
        if name in _ON_LEAVES:
            return mapped(func, name, first, args, kwargs)
        if first._offsets is None and name in ("softmax", "log_softmax"):
            return _over_components(func, name, *args, **kwargs)
        if name in ("matmul", "bmm", "__matmul__"):
            return _matmul(func, *args, *kwargs.values())
        if name in ("cat", "concat"):
            return _cat(func, *args, **kwargs)
        inner = overrides.composition(func)
        if inner is not None:
            return inner(*args, **kwargs)
        raise _strided.not_run(name) if first._offsets is None else NotImplementedError(f"aten.{name}.default")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"{func} is not implemented for nested tensors: call unbind() first"
        )

    # what it is

    layout = property(lambda self: formats.strided if self._offsets is None else formats.jagged)
    is_nested = True
    dtype = property(lambda self: self._leaves[0].dtype if self._leaves else self._ftorch_geometry.dtype)
    device = property(lambda self: self._leaves[0].device if self._leaves else self._ftorch_geometry.device)
    requires_grad = property(
        lambda self: any(x.requires_grad for x in self._leaves),
        lambda self, value: self.requires_grad_(value) and None,
    )
    is_cpu = property(lambda self: self.device.type == "cpu")
    is_cuda = property(lambda self: self.device.type == "cuda")
    is_meta = property(lambda self: self.device.type == "meta")
    is_xla = False
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.numel() * self.dtype.itemsize)
    is_leaf = property(lambda self: all(x.is_leaf for x in self._leaves))
    grad_fn = property(lambda self: self._leaves[0].grad_fn if self._leaves else None)
    ndim = property(lambda self: self.dim())
    _version = property(lambda self: self._leaves[0]._version if self._leaves else 0)
    shape = property(lambda self: self.size())

    @property
    def grad(self):
        """The gradient, nested likewise; None if there is none."""
        grads = [x.grad for x in self._leaves]
        if any(g is None for g in grads):
            return None
        return made(grads, self._offsets, self._ragged, self._at)

    @grad.setter
    def grad(self, value):
        for x, g in zip(self._leaves, [None] * len(self._leaves) if value is None else value._leaves, strict=True):
            x.grad = g

    def requires_grad_(self, requires_grad=True):
        """Sets whether autograd records operations on the tensor."""
        for x in self._leaves:
            x.requires_grad_(requires_grad)
        return self

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Adds the gradients of this tensor to the ``.grad`` of the leaves of its graph."""
        if gradient is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        _backward.backward(self._leaves, gradient._leaves, retain_graph, create_graph, None, inputs)

    def dim(self):
        """The number of dimensions, the batch's included."""
        return self._leaves[0].dim() + 1 if self._leaves else 1

    def _nested_tensor_size(self):
        """The components' sizes, a row for each."""
        return torch.tensor([list(x.shape) for x in self.unbind()])

    def _nested_tensor_strides(self):
        """The components' strides, a row for each."""
        return torch.tensor([list(x.stride()) for x in self.unbind()])

    ndimension = dim

    def __reduce_ex__(self, protocol):
        """The elements, and where in them the components are, as PyTorch's files have them."""
        from .._serialization.pickling import _rebuild_from_type_v2, with_state

        values = self.values().detach()
        if self._offsets is None:
            sizes, counts = self._nested_tensor_size(), [x.numel() for x in self._leaves]
            strides = torch.tensor([contiguous_stride(size) for size in sizes.tolist()])
            begins = torch.tensor([sum(counts[:i]) for i in range(len(counts))])
            arguments = values.requires_grad_(self.requires_grad), sizes, strides, begins
            return with_state(None, _utils._rebuild_nested_tensor, arguments, self.__dict__)
        parts = {
            "values": values, "offsets": self.offsets(), "lengths": self.lengths(), "_ragged_idx": self._at,
            "_metadata_cache": {}, "requires_grad": self.requires_grad,
        }
        return _rebuild_from_type_v2, (_rebuild_njt, type(self), (parts,), self.__dict__)

    def __copy__(self):
        """The same components: in the jagged layout a leaf in their memory, in the strided one where they are in the graph."""
        if self._offsets is None:
            copy = made(self._leaves, is_view=True)
        else:
            copy = self.detach().requires_grad_(self.requires_grad)
        copy.__dict__.update(self.__dict__)
        return copy

    _ragged_idx = property(lambda self: self._at)
    _min_seqlen = property(lambda self: _jagged.lengths_of(self)[0])
    _max_seqlen = property(lambda self: _jagged.lengths_of(self)[1])
    _maybe_min_seqlen, _maybe_max_seqlen = _min_seqlen, _max_seqlen
    _size = property(lambda self: tuple(self.size()))
    _strides = property(lambda self: self.stride())

    def _get_min_seqlen(self):
        return self._min_seqlen

    def _get_max_seqlen(self):
        return self._max_seqlen

    def stride(self, dim=None):
        """The strides, of which the batch's is a multiple of the ragged extent."""
        if self._offsets is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")
        inner = self.values().stride()
        whole = (self._ragged * inner[self._at - 1], *inner)
        return whole if dim is None else whole[dim]

    def element_size(self):
        """The bytes of an element."""
        return self.dtype.itemsize

    def storage_offset(self):
        """Where in its memory `values` begins."""
        return self.values().storage_offset() if self._offsets is not None else self._ftorch_offset

    def is_shared(self):
        """Whether other processes see the memory."""
        return self.values().is_shared()

    def untyped_storage(self):
        """The memory of `values`."""
        return self.values().untyped_storage()

    def type(self, dtype=None):
        """The name of a dense tensor's type, or a copy of another dtype."""
        return self._leaves[0].type() if dtype is None else self.to(dtype)

    def numel(self):
        """The number of elements."""
        return sum(x.numel() for x in self._leaves)

    def size(self, dim=None):
        """The size, of which one dimension is ragged in the jagged layout; or that of one dimension.

        Raises:
            RuntimeError: in the strided layout for the whole size, and for irregular dimensions.
        """
        if self._offsets is not None:
            whole: list = [len(self), *self._leaves[0].shape]
            whole[self._at] = self._ragged
            return tuple.__new__(Size, whole) if dim is None else whole[dim]
        if dim is None:
            raise RuntimeError(
                "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
            )
        dim = _strided.wrapped(dim, self.dim())
        if dim == 0:
            return len(self._leaves)
        sizes = {x.shape[dim - 1] for x in self._leaves}
        if len(sizes) != 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return sizes.pop()

    def __len__(self):
        if self._offsets is None:
            self.size()
        return self._offsets.shape[0] - 1

    def is_contiguous(self, memory_format=None):
        """Whether the elements lie one after the other."""
        return self._holes is None and all(x.is_contiguous() for x in self._leaves)

    # what it holds

    def values(self):
        """The elements of all components: rows in the jagged layout, one dimension in the strided."""
        if self._offsets is not None:
            return self._leaves[0] if self._holes is None else self._holes[0]
        return torch.cat([x.reshape(-1) for x in self._leaves])

    @property
    def _values(self):
        """`values`: a tensor in the jagged layout, a method in the strided."""
        return self.values if self._offsets is None else self.values()

    _lengths = property(lambda self: self.lengths())

    def offsets(self):
        """Where in `values` each component begins, and the end."""
        if self._offsets is None:
            raise AttributeError("'Tensor' object has no attribute 'offsets'")
        return self._offsets if self._holes is None else self._holes[1]

    def lengths(self):
        """How many rows of `values` each component has; None if they follow each other without holes."""
        return None if self._holes is None else self._holes[2]

    def unbind(self, dim=0):
        """The components.

        Raises:
            RuntimeError: for another dimension.
        """
        if dim != 0 and self._offsets is not None:
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        if dim != 0:
            raise RuntimeError(
                f"NestedTensor can only be unbound along dimension 0 , got dimension {dim} instead."
            )
        if self._offsets is None:
            return tuple(self._leaves)
        return tuple(self._leaves[0].split(self.counts().tolist(), self._at - 1))

    def counts(self) -> np.ndarray:
        """The lengths of the components."""
        return np.diff(np.asarray(_op.to_numpy(self._offsets)))

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, key):
        if self._offsets is not None:
            return _jagged.item(self, key)
        if isinstance(key, int):
            return _strided.component(self, key)
        if key is None:
            return _strided.unsqueeze(self, 0)
        if key is ...:
            return self
        if isinstance(key, tuple) and len(key) == 2 and key[0] is ... and isinstance(key[1], int):
            return _strided.select(self, -1, key[1])
        if isinstance(key, tuple) and key and isinstance(key[0], int):
            return self.unbind()[key[0]][key[1:]]
        raise _strided.not_run("slice.Tensor")

    def _is_view(self):
        return self._offsets is not None  # of its values

    def to_padded_tensor(self, padding, output_size=None):
        """A dense tensor with the components, filled up with ``padding``."""
        return to_padded(self, padding, output_size)

    def transpose(self, dim0, dim1):
        """Two dimensions of each component swapped.

        Raises:
            ValueError, RuntimeError: one of them is the batch's, in the jagged and the strided layout.
            IndexError: there is no such dimension.
        """
        d0, d1 = (wrap_dim(d, self.dim()) for d in (dim0, dim1))
        if d0 == d1:
            return self
        if 0 in (d0, d1):
            if self._offsets is not None:
                raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
            raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
        out = mapped(lambda x: x.transpose(d0 - 1, d1 - 1), "transpose", self, (self,), {})
        out._at = {d0: d1, d1: d0}.get(self._at, self._at)
        return out

    def __hash__(self):
        return id(self)

    def __repr__(self, *, tensor_contents=None):
        grad = self.grad_fn
        if self._offsets is not None:
            sizes = ", ".join(str(n) for n in self.size())
            how = (
                f", grad_fn={grad}"
                if grad is not None
                else (", requires_grad=True" if self.requires_grad else "")
            )
            return (
                f"NestedTensor(size=({sizes}), offsets={self._offsets}{how}, "
                f"contiguous={self.is_contiguous()})"
            )
        parts = [x.detach().requires_grad_(self.requires_grad) for x in self._leaves]
        lines = ",\n".join("  " + repr(x).replace("\n", "\n  ") for x in parts)
        end = (
            f", grad_fn=<{grad.name()}>"
            if grad is not None
            else (", requires_grad=True" if self.requires_grad else "")
        )
        return f"nested_tensor([\n{lines}\n]{end})"

    __str__ = __repr__

    def __format__(self, spec):
        return object.__format__(self, spec) if spec else repr(self)


_PROTOTYPE = (
    "The PyTorch API of nested tensors is in prototype stage and will change in the near future. We recommend "
    "specifying layout=torch.jagged when constructing a nested tensor, as this layout receives active development, "
    "has better operator coverage, and works with torch.compile."
)


def _rebuild_njt(constructor_kwargs) -> NestedTensor:
    """A jagged tensor from what a file has of it."""
    from . import nested_tensor_from_jagged

    given = constructor_kwargs
    found = nested_tensor_from_jagged(given["values"], given["offsets"], given["lengths"], given.get("_ragged_idx", 1))
    return found.requires_grad_(given.get("requires_grad", False))


_rebuild_njt.__module__ = NestedTensor.__module__


def made(leaves, offsets=None, ragged=None, at=1, is_view=False) -> NestedTensor:
    """A nested tensor around leaves.

    Args:
        at: which of its dimensions is ragged in the jagged layout, the leaf's ``at - 1``.
        is_view: whether the leaves are parts of one tensor; else the strided layout is said to be a prototype.
    """
    if offsets is None and not is_view:
        warn_once(_PROTOTYPE)
    t = object.__new__(NestedTensor)
    g = leaves[0]._ftorch_geometry if leaves else torch.zeros(0)._ftorch_geometry
    storage = Storage(g)
    storage.error = NotImplementedError("Cannot access storage of NestedTensorImpl")
    t._ftorch_storage, t._ftorch_geometry, t._ftorch_offset = storage, g, 0
    t._ftorch_requires_grad = False
    t._grad_fn = t._grad = t._base = t._ftorch_meta = None
    t._ftorch_output_nr = t._ftorch_attr_version = 0
    t._leaves, t._offsets, t._holes, t._at = list(leaves), offsets, None, at
    t._ragged = ragged if ragged is not None or offsets is None else extent_of(offsets)
    return t


def _same_structure(a, b, name):
    if (a._offsets is None) != (b._offsets is None):
        raise RuntimeError(f"{name}: both nested tensors must have the same layout")
    if a._offsets is None:
        fit = len(a._leaves) == len(b._leaves)
    else:
        fit = a._ragged == b._ragged and a._at == b._at
    if not fit:
        raise RuntimeError(
            f"cannot call binary pointwise function {name}.Tensor with inputs of shapes "
            f"{_shape(a)} and {_shape(b)}"
        )


def _shape(t):
    if t._offsets is None:
        return [tuple(x.shape) for x in t._leaves]
    return "(" + ", ".join(str(n) for n in t.size()) + ")"


def mapped(func, name, like, args, kwargs):
    """A function called on the leaves of its nested operands."""
    for value in overrides.flat_arguments(args, kwargs):
        if isinstance(value, NestedTensor) and value is not like:
            _same_structure(like, value, name)

    def leaf(value, i):
        if isinstance(value, NestedTensor):
            return value._leaves[i]
        if isinstance(value, (list, tuple)) and any(isinstance(v, NestedTensor) for v in value):
            return type(value)(leaf(v, i) for v in value)
        return value

    leaves = [
        func(*[leaf(a, i) for a in args], **{k: leaf(v, i) for k, v in kwargs.items()})
        for i in range(len(like._leaves))
    ]
    if name.endswith("_") and not name.startswith("__"):
        return like
    if leaves and isinstance(leaves[0], tuple):
        return type(leaves[0])(made(list(part), like._offsets, like._ragged, like._at) for part in zip(*leaves))
    return made(leaves, like._offsets, like._ragged, like._at)


def _over_components(func, name, input, dim=None, *args, **kwargs):
    """A normalization over a dimension of the components of a strided tensor."""
    if dim is None:
        return func(input._leaves[0], *args, **kwargs)
    at = dim % input.dim()
    if at == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim={at}")
    return mapped(lambda x: func(x, at - 1, *args, **kwargs), name, input, (input,), {})


def _places(input):
    """(the component that each row belongs to, its place there), as tensors."""
    counts = input.counts()
    total = int(counts.sum())
    batch = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return torch.from_numpy(batch), torch.from_numpy(place)


def _matmul(func, a, b):
    if isinstance(a, NestedTensor) and isinstance(b, NestedTensor):
        if a._offsets is not None and b._offsets is not None:
            return _jagged.product_over_ragged(a, b)
        return made([x @ y for x, y in zip(a._leaves, b._leaves, strict=True)])
    if not isinstance(a, NestedTensor) and b._offsets is not None and b._at == b.dim() - 1 and a.dim() == b.dim() == 3:
        return _matmul(func, b.transpose(1, 2), a.transpose(1, 2)).transpose(1, 2)
    if not isinstance(a, NestedTensor):
        raise RuntimeError("Expected both to be nested, but got a non-nested self and nested other")
    if a._offsets is None:
        raise RuntimeError("Expected both to be nested, but got a nested self and non-nested other")
    if b.dim() == 3 and a.dim() == 3:
        return _jagged.product(a, b)
    return mapped(func, "matmul", a, (a, b), {})


def _cat(func, tensors, dim=0):
    first = tensors[0]
    dim %= first.dim()
    if first._offsets is None and dim == 0:
        return made([x for t in tensors for x in t._leaves])
    if dim < 1 + (first._offsets is not None):
        raise RuntimeError(f"cat(): not supported for NestedTensor on dim={dim}")
    return mapped(lambda parts: func(parts, dim - 1), "cat", first, (list(tensors),), {})


def to_padded(input, padding, output_size=None):
    """See `ftorch.nested.to_padded_tensor`."""
    parts = input.unbind()
    largest = [max((x.shape[d] for x in parts), default=0) for d in range(input.dim() - 1)]
    size = (len(parts), *largest)
    if output_size is not None:
        wanted = tuple(output_size)
        cut = slice(1, None) if input._offsets is not None else slice(None)  # jagged ones may be
        if len(wanted) != len(size) or any(
            w < n for w, n in zip(wanted[1:][cut], largest[cut])
        ):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not "
                "supported."
            )
        size = wanted
    if input._offsets is not None and input._at == 1 and size[2:] == tuple(input._leaves[0].shape[1:]):
        values = input._leaves[0]
        full = torch.full(size, padding, dtype=values.dtype, device=values.device)
        batch, place = (p.to(values.device) for p in _places(input))
        if size[1] < largest[0]:
            kept = (place < size[1]).nonzero().reshape(-1)
            batch, place, values = (x.index_select(0, kept) for x in (batch, place, values))
        return full.index_put((batch, place), values)
    padded = []
    for x in parts:
        widths = [w for d in range(x.dim() - 1, -1, -1) for w in (0, size[d + 1] - x.shape[d])]
        padded.append(torch.nn.functional.pad(x, widths, value=padding))
    return torch.stack(padded)


def _same_size(self, other) -> bool:
    """``self.is_same_size(other)``: nested tensors of components of the same sizes.

    Raises:
        RuntimeError: one of them is not nested.
        ValueError: the same, where the other one is jagged.
    """
    nested = [isinstance(x, NestedTensor) for x in (self, other)]
    if any(isinstance(x, NestedTensor) and x._offsets is not None for x in (self, other)):
        for name, x in (("self", self), ("other", other)):
            if not isinstance(x, NestedTensor) or x._offsets is None:
                raise ValueError(f"NestedTensor is_same_size_default(self: jt_all, other: jt_all): expected {name} to be a "
                                 "jagged layout NestedTensor")
        return self.size() == other.size()
    if not all(nested):
        are = ["nested" if x else "not nested" for x in nested]
        raise RuntimeError(f"Expected both self and other to be nested tensors. Self is {are[0]}. While Other is {are[1]}.")
    return [x.shape for x in self.unbind()] == [x.shape for x in other.unbind()]
