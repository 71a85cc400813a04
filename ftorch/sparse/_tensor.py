"""Sparse tensors: a pattern (where elements are) and dense values, and the table of what they can do.

`SparseTensor` takes part in calls by ``__torch_function__``: a public function is looked up in `TABLE`
by its name; what is not there raises PyTorch's error. Autograd needs two primitives only: `values_of`
(a sparse tensor's values as a dense tensor) and `Pattern.build` (a sparse tensor of dense values).
Everything between them is ordinary calls on dense tensors, which compile and differentiate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ..eager.autograd import inplace_history, nodes, tape
from ..eager.core import api as torch
from ..eager.core import formats
from ..eager.core.dtype import can_cast, int64
from ..eager.core.errors import could_not_run, unmet
from ..eager.core.geometry import Size, geometry
from ..eager.core.user_warnings import warn_once
from ..eager.dispatch import overrides
from ..eager.memory.storage import INFERENCE, Storage
from ..eager.tensor import Tensor, count_write, modes
from . import _copies
from ._index_arrays import accumulated, host, index_tensor

TABLE: dict[str, Callable] = {}  # the name of a public function or method -> what it does here


def sparse_op(*names: str):
    """Declares what the public functions and methods of some names do when an operand is sparse."""

    def register(function):
        for name in names or (function.__name__,):
            TABLE[name] = function
        return function

    return register


# --- autograd ------------------------------------------------------------------------


class SparseNode(nodes.Node):
    """A node whose backward is a Python function of the result's gradient."""

    __slots__ = ("function",)
    function: Any

    def apply(self, grads):
        return self.function(grads[0])


def record(name, inputs, out, backward):
    """Puts a fresh tensor into the graph if an input requires grad.

    Args:
        backward: the gradients of the inputs, of that of ``out``.
    """
    if modes.grad and any(t.requires_grad for t in inputs):
        node = tape.node_class(f"{name}Backward0", SparseNode)()
        node._ftorch_edges = tuple(tape.edge_of(t) if t.requires_grad else None for t in inputs)
        node.function = backward
        out._ftorch_requires_grad, out._grad_fn, out._ftorch_output_nr = True, node, 0
    return out


def also_dense(out, *inputs):
    """Lets a fresh result hand dense gradients on to its operands.

    Args:
        inputs: (operand, its gradient of a dense gradient of the result) of each.
    """
    node = getattr(out, "_grad_fn", None)
    given = [(t, rule) for t, rule in inputs if isinstance(t, Tensor) and t.requires_grad]
    if not isinstance(node, SparseNode) or not given or any(out is t for t, _ in given):
        return out
    of_values, count = node.function, len(node._ftorch_edges)
    node._ftorch_edges = (*node._ftorch_edges, *(tape.edge_of(t) for t, _ in given))

    def backward(grad):
        if isinstance(grad, SparseTensor):
            return [*of_values(grad), *[None] * len(given)]
        return [*[None] * count, *(rule(grad) for _, rule in given)]

    node.function = backward
    return out


def renamed(out, name, number=0):
    """A fresh result whose node goes by the name of the whole operation."""
    node = out._grad_fn
    if node is not None:
        base = type(node).__mro__[1]
        node.__class__ = tape.node_class(f"{name}Backward{number}", base)
    return out


# --- patterns ------------------------------------------------------------------------


def _of_indices(function):
    """A property that is computed anew when somebody has written to the indices."""
    name = function.__name__

    def get(self):
        versions = self.versions()
        known = self.computed.get(name)
        if known is None or known[0] != versions:
            known = self.computed[name] = versions, function(self)
        return known[1]

    return property(get, doc=function.__doc__)


class Pattern:
    """Where the elements of a sparse tensor are. ``size`` is the tensor's.

    Attributes:
        computed: what was computed of the indices, and of which versions of them.
        is_shared: whether copies of the tensor have it, too; is_lent: whether a user has its indices, and may write.
    """

    size: Size
    layout: formats.layout
    computed: dict[str, tuple]
    is_shared = is_lent = False

    @_of_indices
    def places(self):
        """The same object for patterns of the same places, as long as nobody writes to their indices."""
        return object()

    def twin(self):
        """The pattern for a copy of the tensor: it has the same indices until somebody may write to them."""
        if not self.is_lent:
            self.is_shared = True
        twin = copy(self)
        twin.is_lent = False
        if self.is_lent:
            twin.own()
        return twin

    def own(self):
        """Gets indices of its own."""
        before, self.is_shared = self.versions(), False
        self.copy_parts()
        now = self.versions()
        self.computed = {k: (now, value) for k, (versions, value) in self.computed.items() if versions == before}

    def versions(self):
        """How often somebody has written to the indices."""
        return [part._ftorch_storage.version for part in self.parts()]  # inference tensors' are counted, too

    def parts(self) -> tuple:
        """The tensors of indices."""
        raise AssertionError("abstract")

    def copy_parts(self):
        """Replaces the tensors of indices by copies."""
        raise AssertionError("abstract")

    def build(self, values, name="SparseCooTensorWithDimsAndTensors"):
        """The sparse tensor of these elements; gradients flow to ``values``."""
        out = _blank(self, values.detach())
        return record(name, [values], out, lambda grad: [self.take(grad)])

    def take(self, t):
        """The elements that a dense or sparse tensor of the size has at these places."""
        if isinstance(t, SparseTensor):
            if t._pattern.same(self):
                return values_of(t)
            if t._pattern.same((once := self.unique)[0]):
                return values_of(t) if once[2] is None else values_of(t).index_select(0, once[2])
            t = t.to_dense()
        return self.gather(t)

    @property
    def unique(self):
        """(the pattern with each place once, where its places come first, which is whose): the pattern
        itself and None if places do not repeat."""
        return self, None, None

    def same(self, other) -> bool:
        """Whether both are known to be the same places in the same order."""
        raise AssertionError("abstract")

    def gather(self, dense):
        """The elements of a dense tensor at these places."""
        raise AssertionError("abstract")

    def elements(self, values):
        """The values as single elements, one behind the other."""
        return values

    def by_rows(self):
        """A matrix's elements row by row: (where rows begin, columns, their places among `elements` or None: those are in
        this order); or None if they are no matrix's."""
        return self._sorted


class CooPattern(Pattern):
    """Coordinates: ``indices`` is (sparse dimensions, number of elements)."""

    layout = formats.sparse_coo

    def __init__(self, indices, size, coalesced=None):
        self.indices, self.size, self.computed = indices, Size(size), {}
        # Whether places are known to be sorted and different; less than two are, where nobody says otherwise.
        self.coalesced = indices.shape[1] < 2 if coalesced is None else coalesced

    @property
    def sparse_dim(self) -> int:
        return self.indices.shape[0]

    @property
    def nnz(self) -> int:
        return self.indices.shape[1]

    @_of_indices
    def unique(self):
        if self.coalesced or self.nnz < 2:
            return self, None, None
        _, first, inverse = np.unique(self.host_keys(), return_index=True, return_inverse=True)
        if len(first) == self.nnz:
            return self, None, None
        pattern = self.moved(host(self.indices)[:, first], self.size, True)
        first, inverse = (index_tensor(a.reshape(-1), self.indices) for a in (first, inverse))
        return pattern, first, inverse

    @_of_indices
    def _sorted(self):
        if self.sparse_dim != 2 or len(self.size) != 2:
            return None
        rows, columns = host(self.indices)
        order = None
        if not self.coalesced and (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            rows, columns = rows[order], columns[order]
        begins = np.searchsorted(rows, np.arange(self.size[0] + 1))
        return [None if x is None else index_tensor(x, self.indices) for x in (begins, columns, order)]

    def same(self, other):
        return isinstance(other, CooPattern) and (
            other is self
            or ((other.indices is self.indices or other.places is self.places) and other.size == self.size)
        )

    def gather(self, dense):
        if self.sparse_dim == 0:
            return dense.unsqueeze(0).expand((self.nnz, *dense.shape))
        return dense[tuple(self.indices.unbind(0))]

    def scatter(self, values):
        """The dense tensor with these elements, summed where places are the same."""
        sparse, dense = self.size[: self.sparse_dim], self.size[self.sparse_dim :]
        return (
            accumulated(values, self.keys(), math.prod(sparse)).reshape(self.size)
            if (math.prod(self.size))
            else torch.zeros((*sparse, *dense), dtype=values.dtype, device=values.device)
        )

    def keys(self, dims=None):
        """The places as one number each, as a tensor (row-major over the sparse dimensions)."""
        dims = range(self.sparse_dim) if dims is None else dims
        key = torch.zeros(self.nnz, dtype=int64, device=self.indices.device)
        for d in dims:
            key = key * self.size[d] + self.indices[d]
        return key

    def host_keys(self, dims=None) -> np.ndarray:
        """`keys` as an array."""
        indices = host(self.indices)
        key = np.zeros(self.nnz, np.int64)
        for d in range(self.sparse_dim) if dims is None else dims:
            key = key * self.size[d] + indices[d]
        return key

    def parts(self):
        return (self.indices,)

    def copy_parts(self):
        self.indices = self.indices.clone()

    def moved(self, indices, size, coalesced=None) -> CooPattern:
        """A pattern of other places."""
        if isinstance(indices, np.ndarray):
            indices = index_tensor(indices, self.indices)
        return CooPattern(indices, size, coalesced)


class CompressedPattern(Pattern):
    """Rows (or columns) compressed: ``compressed`` says where in ``plain`` each begins.

    Dimensions: batch, the two sparse ones, dense ones. Blocks are (rows, columns) of the block layouts.
    """

    def __init__(self, compressed, plain, size, layout, block=None):
        self.compressed, self.plain, self.size, self.computed = compressed, plain, Size(size), {}
        self.layout, self.block = layout, block
        warn_once(
            f"Sparse {_LAYOUT_NAME[layout].removeprefix('Sparse').upper()} tensor support is in beta state. If you "
            "miss a functionality in the sparse tensor support, please submit a feature request to "
            "https://github.com/pytorch/pytorch/issues.",
            key="sparse compressed tensors",  # PyTorch warns of the first layout only
        )

    def parts(self):
        return self.compressed, self.plain

    def copy_parts(self):
        self.compressed, self.plain = self.compressed.clone(), self.plain.clone()

    @property
    def by_row(self) -> bool:
        return self.layout in (formats.sparse_csr, formats.sparse_bsr)

    @property
    def batch(self):
        return tuple(self.compressed.shape[:-1])

    @property
    def nnz(self) -> int:
        return self.plain.shape[-1]

    def by_rows(self):
        if len(self.size) == 2 and self.layout is formats.sparse_csr:
            return self.compressed, self.plain, None
        return self._sorted

    @_of_indices
    def _sorted(self):
        return self.element_coo()._sorted

    def same(self, other):
        return isinstance(other, CompressedPattern) and (
            other is self
            or (((other.compressed is self.compressed and other.plain is self.plain) or other.places is self.places)
                and other.size == self.size and other.block == self.block)
        )

    @_of_indices
    def coordinates(self) -> np.ndarray:
        """(batch dimensions + 2, elements of all batches): places, of blocks for block layouts."""
        n, batches = len(self.batch), math.prod(self.batch)
        compressed = host(self.compressed).reshape(batches, -1)
        plain = host(self.plain).reshape(batches, -1).astype(np.int64)
        rows = np.stack([
            np.repeat(np.arange(c.shape[0] - 1), np.diff(c)) for c in compressed
        ]) if batches else plain
        batch = np.unravel_index(np.repeat(np.arange(batches), self.nnz), self.batch) if n else ()
        pair = (rows, plain) if self.by_row else (plain, rows)
        return np.stack([*batch, *(p.ravel().astype(np.int64) for p in pair)])

    @property
    def dense_size(self):
        return tuple(self.size[len(self.batch) + 2 :])

    def flat(self, values):
        """Values with the batches joined: (elements, [block], dense dimensions)."""
        n = len(self.batch)
        return values.reshape((-1, *values.shape[n + 1 :])) if n else values

    def unflat(self, values):
        """The inverse of `flat`."""
        return values.reshape((*self.batch, self.nnz, *values.shape[1:])) if self.batch else values

    def element_coo(self) -> CooPattern:
        """The places of single elements; those of blocks row by row."""
        at = self.coordinates
        if self.block is not None:
            r, c = self.block
            grid = np.indices((r, c)).reshape(2, 1, -1)
            pair = at[-2:, :, None] * np.array([[[r]], [[c]]]) + grid
            at = np.concatenate([np.repeat(at[:-2], r * c, axis=1), pair.reshape(2, -1)])
        return CooPattern(index_tensor(at, self.plain), self.size)

    def elements(self, values):
        """Values as those of `element_coo`: (elements, dense dimensions)."""
        flat = self.flat(values)
        return flat if self.block is None else flat.reshape((-1, *self.dense_size))

    def gather(self, dense):
        taken = self.element_coo().gather(dense)
        if self.block is not None:
            taken = taken.reshape((-1, *self.block, *self.dense_size))
        return self.unflat(taken)

    def scatter(self, values):
        """The dense tensor with these elements."""
        return self.element_coo().scatter(self.elements(values))


# --- the tensor ----------------------------------------------------------------------

_BACKEND = {formats.sparse_coo: "Sparse", formats.strided: ""}
_LAYOUT_NAME = {
    formats.strided: "Strided", formats.sparse_coo: "Sparse", formats.sparse_csr: "SparseCsr",
    formats.sparse_csc: "SparseCsc", formats.sparse_bsr: "SparseBsr", formats.sparse_bsc: "SparseBsc",
}


def layout_name(t) -> str:
    """``"SparseCsr"``: how PyTorch's messages name a layout."""
    return _LAYOUT_NAME[t.layout]


# Public names whose operator is called otherwise.
_ATEN = {
    "vector_norm": "linalg_vector_norm", "softmax": "_softmax", "log_softmax": "_log_softmax",
    "argwhere": "nonzero", "mean": "mean.dim", "sort": "sort.stable", "isclose": "eq.Tensor",
}
_COMPARED = frozenset("eq ne lt le gt ge remainder fmod bitwise_and bitwise_or bitwise_xor".split())


def not_run(name, t):
    """PyTorch's error for an operator that a layout does not have."""
    name, kind = _ATEN.get(name, name), t.device.type.upper()
    return could_not_run(
        name, f"{_BACKEND.get(t.layout, 'SparseCsr')}{kind}", "Call .to_dense() first to compute it on a strided tensor. "
        f"'aten::{name}' is only available for these backends: [{kind}, Meta]."
    )


class SparseTensor(Tensor):
    """A tensor that keeps its elements at some places only; zero elsewhere."""

    __slots__ = ("_pattern", "_v")
    _slots_are_data = True
    _pattern: Any
    _v: Any

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = overrides.called_name(func)
        found = TABLE.get(name) or TABLE.get(getattr(func, "_opname", ""))  # overloads, too
        if getattr(func, "namespace", "aten") not in ("aten", "prims"):
            found = None  # another package's operator of the name
        if found is not None:
            return found(*args, **kwargs)
        inner = overrides.composition(func) or getattr(func, "_function", None)
        if inner is not None:  # a composition, or a method as an operator: what it calls may be there
            return inner(*args, **kwargs)
        t = next(a for a in overrides.flat_arguments(args, kwargs) if isinstance(a, SparseTensor))
        if name in _COMPARED:
            name += ".Tensor" if len(args) < 2 or isinstance(args[1], Tensor) else ".Scalar"
        raise not_run(name.removesuffix(".default"), t)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Calls of the engine's own: sums of gradients, and nodes that gradients reach."""
        kwargs = kwargs or {}
        if func._opname == "add":
            return sum_of_gradients(*args[:2])
        dense = [a.to_dense() if isinstance(a, SparseTensor) else a for a in args]
        return func(*dense, **kwargs)

    def __repr__(self, *, tensor_contents=None):
        from ._printing import representation

        opening = "Parameter containing:\n" if self.__dict__.get("_is_param") else ""
        return opening + representation(self)

    __str__ = __repr__

    def __hash__(self):
        return id(self)

    __reduce_ex__, __copy__, __deepcopy__ = _copies.reduced, _copies.copied, _copies.deep_copied

    def __iter__(self):
        return iter(self.unbind(0))

    def _coalesced_(self, coalesced):
        """Says whether the elements are sorted and at different places; nothing is checked."""
        p = self._pattern
        self._pattern = CooPattern(p.indices, p.size, bool(coalesced))
        return self


def _blank(pattern, values):
    t = object.__new__(SparseTensor)
    storage = Storage(geometry(pattern.size, values.dtype, values.device))
    storage.error = NotImplementedError(
        f"Cannot access storage of {'Sparse' if pattern.layout is formats.sparse_coo else 'SparseCsr'}"
        "TensorImpl"
    )
    if modes.inference:
        storage.version = INFERENCE
    t._ftorch_storage, t._ftorch_geometry, t._ftorch_offset = storage, storage.root, 0
    t._ftorch_requires_grad = False
    t._grad_fn = t._grad = t._base = t._ftorch_meta = None
    t._ftorch_output_nr = t._ftorch_attr_version = 0
    t._pattern, t._v = pattern, values
    return t


def values_of(t: SparseTensor):
    """The elements of a sparse tensor, as a dense tensor in its graph."""
    pattern = t._pattern

    def backward(grad):
        # As a dense gradient would, it has each place once. Elements of the same place have the same.
        places, first, _ = pattern.unique
        return [places.build(grad if first is None else grad.index_select(0, first))]

    return record("Values", [t], t._v.detach(), backward)


def rebuilt(t, values, name):
    """The tensor with other values at the same places, whose indices are its own."""
    return t._pattern.twin().build(values, name)


def lent(t) -> Pattern:
    """A tensor's pattern for somebody who may write to the indices: no copy of the tensor sees that."""
    pattern = t._pattern
    if pattern.is_shared:
        pattern.own()
    pattern.is_lent = True
    return pattern


def adopt(t, out):
    """Makes a tensor what an out-of-place operation on it gave: the in-place form."""
    if not isinstance(t, SparseTensor):
        raise RuntimeError(unmet("self.is_sparse() && result.is_sparse()"))
    if modes.grad:
        inplace_history.check_inplace(t)
    if out.dtype is not t.dtype and can_cast(out.dtype, t.dtype):
        out = out.to(t.dtype)
    if out.dtype is not t.dtype:
        raise RuntimeError(
            f"result type {out.dtype.scalar_name} can't be cast to the desired output type "
            f"{t.dtype.scalar_name}"
        )
    t._pattern, t._v = out._pattern, out._v
    t._ftorch_geometry = geometry(out.shape, out.dtype, out.device)
    if modes.grad:
        t._ftorch_requires_grad, t._grad_fn, t._ftorch_output_nr = (
            out._ftorch_requires_grad, out._grad_fn, out._ftorch_output_nr
        )
    count_write(t)
    return t


def sum_of_gradients(a, b):
    """The sum of two gradients of which at least one is sparse: dense if the other one is."""
    if not isinstance(a, SparseTensor):
        return TABLE["add"](a, b)
    if not isinstance(b, SparseTensor):
        return TABLE["add"](b, a)
    return TABLE["add"](a, b)


def is_coo(t) -> bool:
    """Whether a value is a sparse tensor of coordinates."""
    return isinstance(t, SparseTensor) and isinstance(t._pattern, CooPattern)


def is_compressed(t) -> bool:
    """Whether a value is a sparse tensor of a compressed layout."""
    return isinstance(t, SparseTensor) and isinstance(t._pattern, CompressedPattern)


# What works on a tensor's geometry and its place in the graph is the same as for dense tensors.
for _name in (
    "shape", "dtype", "device", "ndim", "itemsize", "is_cuda", "is_cpu", "is_meta", "is_xla", "size",
    "dim", "ndimension", "numel", "nelement", "element_size", "is_floating_point", "is_complex",
    "is_signed", "is_conj", "is_neg", "is_inference", "get_device", "requires_grad",
    "requires_grad_", "grad_fn", "is_leaf", "output_nr", "_version", "_is_view", "grad",
    "backward", "detach_", "retain_grad", "retains_grad", "register_hook", "share_memory_",
    "register_post_accumulate_grad_hook", "is_shared", "is_pinned", "pin_memory", "__len__",
    "__dir__",
):
    _value = vars(Tensor).get(_name)
    if _value is not None:
        setattr(SparseTensor, _name, _value)
        if callable(_value):
            TABLE[_name] = _value
