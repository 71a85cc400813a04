"""Whole slices picked and written along a dimension, index tensors side by side, masks."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from ...core import determinism
from ...core.registry import Shape, op
from ...core.user_warnings import warn_once
from .._common import broadcast_shapes, dtype_name, is_complex, up, wrap_dim
from .scatter import (
    UNCHECKED,
    WITHIN,
    bounds_within,
    check_reduction,
    first_outside,
    number,
    reduce_at,
    reduce_at_backward,
    size_at,
    vector,
)

_FORMS = "function method inplace"


def _at(x, dim, index):
    """``x.at[:, ..., index]``, for an index along one dimension."""
    return vector(x).at[(slice(None),) * dim + (index.reshape(-1),)]


# --- along a dimension ---------------------------------------------------------------


@op("index_select(Tensor self, int dim, Tensor index) -> Tensor", forms="function method out")
def index_select(self, dim, index):
    """The slices at the indices of a vector along a dimension (``torch.index_select``).

    Raises:
        IndexError: for indices out of range.

    >>> import ftorch as torch
    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([1, 1]))
    tensor([[2, 2],
            [4, 4]])
    """
    dim = wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in (np.int32, np.int64):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if self.ndim == 0:
        if index.size != 1:
            raise RuntimeError(
                f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)"
            )
        return self
    if self.shape[dim] == 0 and index.size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    return _at(self, dim, index).get(**WITHIN)


@index_select.derivative
def _(grad, *, self, dim, index):
    dim = wrap_dim(dim, self.ndim)
    total = jnp.zeros(self.shape, up(grad).dtype)
    return _add_slices(total, dim, index, up(grad)).astype(grad.dtype), None


@index_select.check(passes=bounds_within)
def _(self: Shape, dim, index):
    dim = wrap_dim(dim, self.ndim)
    wrong = first_outside(index, 0, size_at(self, dim))
    if wrong is not None:
        if dim == 1:  # which has a kernel of its own in PyTorch
            raise RuntimeError(f"INDICES element is out of DATA bounds, id={wrong} axis_dim={size_at(self, dim)}")
        raise IndexError("index out of range in self")


def _add_slices(x, dim, index, source):
    method = "max" if x.dtype == np.bool_ else "add"
    target = _at(x, dim, index)
    return getattr(target, method)(vector(source), **WITHIN).reshape(x.shape)


def _check_slices(name, self, dim, index, source):
    """What ``index_add`` and ``index_reduce`` ask of their arguments."""
    if index.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{dtype_name(index.dtype)} and size: {list(index.shape)}"
        )
    if index.dtype not in (np.int32, np.int64):
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index but got: {dtype_name(index.dtype)}"
        )
    if source.dtype != self.dtype:
        raise RuntimeError(
            f"{name}(): self ({dtype_name(self.dtype)}) and source ({dtype_name(source.dtype)}) "
            "must have the same scalar type"
        )
    if dim > 0 and dim >= source.ndim:
        raise RuntimeError(
            f"{name}(): Indexing dim {dim} is out of bounds of the source tensor with dim "
            f"{source.ndim}"
        )
    if size_at(source, dim) != index.size:
        raise RuntimeError(
            f"{name}(): Number of indices ({index.size}) should be equal to source.size(dim): "
            f"({size_at(source, dim)}), for dim: {dim}"
        )
    rest, source_rest = list(self.shape), list(source.shape)
    if len(rest) == len(source_rest):
        del rest[dim : dim + 1], source_rest[dim : dim + 1]
    if rest != source_rest:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(self.shape)} source.shape = {list(source.shape)}"
        )


@op("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    forms=_FORMS + " out")
def index_add(self, dim, index, source, alpha):
    """A copy with ``alpha * source`` added to slices along a dimension (``torch.index_add``).

    Raises:
        RuntimeError: for indices out of range, shapes that do not fit, or different dtypes.
        IndexError: for indices out of range of a vector.

    >>> import ftorch as torch
    >>> torch.zeros(3).index_add(0, torch.tensor([2, 2]), torch.tensor([1., 2.]))
    tensor([0., 0., 3.])
    """
    dim = wrap_dim(dim, self.ndim)
    _check_slices("index_add_", self, dim, index, source)
    alpha = number(alpha, self)
    scaled = source & alpha if self.dtype == np.bool_ else up(source) * up(alpha)
    return _add_slices(up(self), dim, index, scaled).astype(self.dtype)


index_add.changing("add rows")
index_add.overlap(exclusive=True)


@index_add.check(passes=bounds_within)
def _(self: Shape, dim, index):
    dim = wrap_dim(dim, self.ndim)
    wrong = first_outside(index, 0, size_at(self, dim))
    if wrong is not None:
        if self.ndim < 2:
            raise IndexError("index out of range in self")
        raise RuntimeError(
            f"index {wrong} is out of bounds for dimension {dim} with size {size_at(self, dim)}"
        )


@op("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    forms=_FORMS + " out")
def index_copy(self, dim, index, source):
    """A copy with slices along a dimension replaced (``torch.index_copy``).

    Raises:
        IndexError: for indices out of range or shapes that do not fit.

    >>> import ftorch as torch
    >>> torch.zeros(3).index_copy(0, torch.tensor([2, 0]), torch.tensor([1., 2.]))
    tensor([2., 0., 1.])
    """
    dim = wrap_dim(dim, self.ndim)
    _check_copied(self, dim, index, source)
    source = source.reshape(1) if source.ndim == 0 else source
    return _at(self, dim, index).set(source, **WITHIN).reshape(self.shape)


def _check_copied(self, dim, index, source):
    if index.ndim > 1:
        raise IndexError(
            f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})"
        )
    if source.ndim == 0 and index.size != 1:
        raise IndexError(
            f"index_copy_(): When source is scalar, index should have one element (got "
            f"{index.size})"
        )
    if self.ndim and source.ndim and self.ndim != source.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({source.ndim}), destination dimensionality "
            f"({self.ndim})"
        )
    if index.dtype != np.int64:
        raise RuntimeError(
            f"index_copy_(): Expected a long tensor for index, but got {dtype_name(index.dtype)}"
        )
    if source.dtype != self.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{dtype_name(self.dtype)} and (source) {dtype_name(source.dtype)}"
        )
    rest, source_rest = list(self.shape), list(source.shape)
    source_dim = dim if source.ndim else 0
    del rest[dim : dim + 1], source_rest[source_dim : source_dim + 1]
    if rest != source_rest:
        text = "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
        raise RuntimeError(
            f"{text}slice shape: {' '.join(map(str, rest))} at dimension {dim} and source slice "
            f"shape: {' '.join(map(str, source_rest))} at dimension 0."
        )
    if source.ndim and index.size != source.shape[source_dim]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) "
            f"({source.shape[source_dim]})"
        )


@index_copy.derivative
def _(grad, *, dim, index, source):
    dim = wrap_dim(dim, grad.ndim)
    zero = jnp.zeros((), grad.dtype)
    to_self = _at(grad, dim, index).set(zero, **WITHIN).reshape(grad.shape)
    return to_self, None, _at(grad, dim, index).get(**WITHIN).reshape(source.shape)


index_copy.changing("set rows")
index_copy.overlap(exclusive=True)


@index_copy.check(passes=bounds_within)
def _(self: Shape, dim, index):
    dim = wrap_dim(dim, self.ndim)
    wrong = first_outside(index, 0, size_at(self, dim))
    if wrong is not None:
        raise IndexError(
            f"index_copy_(): index {wrong} is out of bounds for dimension {dim} with size "
            f"{size_at(self, dim)}"
        )


def _fill_slices(self, dim, index, value):
    if index.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if is_complex(value) and not is_complex(self):
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    dim = wrap_dim(dim, self.ndim)
    size = size_at(self, dim)
    chosen = jnp.zeros((size,), bool).at[index.reshape(-1)].set(True, mode="drop")
    chosen = chosen.reshape([size if d == dim else 1 for d in range(self.ndim)])
    return jnp.where(chosen, value.astype(self.dtype), self)


# The Tensor overload comes first: a 0-d tensor would do as a number, without its gradient.
@op("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    forms=_FORMS, layout="preserve")
def index_fill(self, dim, index, value):
    """A copy with slices along a dimension set to a number (``torch.index_fill``).

    Raises:
        IndexError: for indices out of range.

    >>> import ftorch as torch
    >>> torch.zeros(3).index_fill(0, torch.tensor([2, 0]), 7)
    tensor([7., 0., 7.])
    """
    if value.ndim:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    return _fill_slices(self, dim, index, value)


@op("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    forms=_FORMS, layout="preserve")
def index_fill_scalar(self, dim, index, value):
    return _fill_slices(self, dim, index, value)


index_fill_scalar.fits("value")


def _check_filled(self: Shape, dim, index):
    dim = wrap_dim(dim, self.ndim)
    size = size_at(self, dim)
    wrong = first_outside(index, -size, size)
    if wrong is not None:
        raise IndexError(f"index {wrong} is out of bounds for dimension {dim} with size {size}")


index_fill.check(_check_filled)
index_fill_scalar.check(_check_filled)
index_fill_scalar.changing("fill rows")
for _kernel in (index_fill, index_fill_scalar):
    _kernel.overlap(exclusive=True, expanded="tensor[mask] = scalar")


def _spread(index, dim, source):
    """An index along a dimension as ``scatter`` has it: one for each element of the source."""
    shape = [-1 if d == dim else 1 for d in range(source.ndim)]
    return jnp.broadcast_to(index.reshape(shape), source.shape)


@op("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
    "bool include_self=True) -> Tensor", forms=_FORMS + " out")
def index_reduce(self, dim, index, source, reduce, include_self):
    """A copy with slices combined by "prod", "mean", "amax" or "amin".

    Args:
        include_self: whether the elements of ``input`` themselves count.

    >>> import ftorch as torch
    >>> torch.ones(2).index_reduce(0, torch.tensor([0, 0]), torch.tensor([2., 3.]), "prod")
    tensor([6., 1.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    warn_once("index_reduce() is in beta and the API may change at any time.")
    dim = wrap_dim(dim, self.ndim)
    _check_slices("index_reduce_", self, dim, index, source)
    check_reduction({"mean": "div_floor_cpu", "amax": "maximum_cpu", "amin": "minimum_cpu"}.get(
        reduce, ""), self, reduce)
    return reduce_at(self, dim, _spread(index, dim, source), source, reduce, include_self)


@index_reduce.derivative
def _(grad, *, self, dim, index, source, reduce, include_self, result):
    dim = wrap_dim(dim, self.ndim)
    spread = _spread(index, dim, source)
    return reduce_at_backward(
        grad, self, dim, spread, source, reduce, include_self, result, (True, True)
    )


@index_reduce.check
def _(self: Shape, dim, index):
    if first_outside(index, 0, size_at(self, wrap_dim(dim, self.ndim))) is not None:
        raise IndexError("index out of range in self")


index_reduce.overlap(exclusive=True)


# --- into the flattened tensor -------------------------------------------------------


def _check_flat(self: Shape, index):
    size = math.prod(self.shape)
    wrong = first_outside(index, -size, size)
    if wrong is not None:
        raise IndexError(
            f"out of range: tried to access index {wrong} on a tensor of {size} elements."
        )


@op("take(Tensor self, Tensor index) -> Tensor", forms="function method out")
def take(self, index):
    """The elements at indices of the flattened tensor (``torch.take``).

    Raises:
        IndexError: for indices out of range.

    >>> import ftorch as torch
    >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, -1]))
    tensor([1, 4])
    """
    if index.dtype != np.int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {dtype_name(index.dtype)}"
        )
    if not self.size:
        if index.size:
            raise IndexError("take(): tried to take from an empty tensor")
        return jnp.zeros(index.shape, self.dtype)
    return self.reshape(-1).at[index].get(mode=UNCHECKED)


@take.derivative
def _(grad, *, self, index):
    total = jnp.zeros((self.size,), up(grad).dtype)
    if self.size:
        total = total.at[index].add(up(grad), mode=UNCHECKED)
    return total.astype(grad.dtype).reshape(self.shape), None


take.check(_check_flat)


@op("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", forms=_FORMS, layout="preserve")
def put(self, index, source, accumulate):
    """A copy with elements of the flattened tensor written, or added to (``torch.put``).

    Raises:
        IndexError: for indices out of range.

    >>> import ftorch as torch
    >>> torch.zeros(3).put(torch.tensor([0, -1]), torch.tensor([1., 2.]))
    tensor([1., 0., 2.])
    """
    if index.dtype != np.int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {dtype_name(index.dtype)}"
        )
    if source.dtype != self.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{dtype_name(self.dtype)} and source.dtype = {dtype_name(source.dtype)}"
        )
    if source.size != index.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    if not self.size:
        if index.size:
            raise IndexError("put_(): Tried to put elements into an empty tensor")
        return self
    method = ("max" if self.dtype == np.bool_ else "add") if accumulate else "set"
    target = up(self).reshape(-1).at[index.reshape(-1)]
    changed = getattr(target, method)(up(source).reshape(-1), mode=UNCHECKED)
    return changed.astype(self.dtype).reshape(self.shape)


@put.derivative
def _(grad, *, index, source, accumulate):
    if not grad.size:
        return grad, None, jnp.zeros(source.shape, grad.dtype)
    flat = grad.reshape(-1).at[index.reshape(-1)]
    to_self = grad
    if not accumulate:
        to_self = flat.set(jnp.zeros((), grad.dtype), mode=UNCHECKED).reshape(grad.shape)
    return to_self, None, flat.get(mode=UNCHECKED).reshape(source.shape)


put.check(_check_flat)
put.overlap(exclusive=True)
put.notice(lambda accumulate: None if accumulate else determinism.alert("put_"))


@op("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    forms="function method out")
def take_along_dim(self, indices, dim):
    """`gather`, broadcasting the input and the indices (``torch.take_along_dim``).

    Raises:
        RuntimeError: for different numbers of dimensions, or indices that are not int64.

    >>> import ftorch as torch
    >>> x = torch.tensor([[3, 1], [2, 4]])
    >>> torch.take_along_dim(x, x.argsort(1), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    if indices.dtype != np.int64:
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{dtype_name(indices.dtype)}"
        )
    if dim is None:
        flat = self.reshape(-1)
        return flat.at[_modulo(indices.reshape(-1), flat.size)].get(mode=UNCHECKED)
    if self.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    if self.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, self.ndim)
    others = [tuple(1 if d == dim else n for d, n in enumerate(x.shape)) for x in (self, indices)]
    shape = list(broadcast_shapes(*others))
    sizes = {x is self: [*shape[:dim], x.shape[dim], *shape[dim + 1 :]] for x in (self, indices)}
    x, picked = jnp.broadcast_to(self, sizes[True]), jnp.broadcast_to(indices, sizes[False])
    return jnp.take_along_axis(x, _modulo(picked, x.shape[dim]), axis=dim, mode=UNCHECKED)


def _modulo(indices, size):
    # PyTorch takes these indices modulo the size, whatever they are.
    return jnp.remainder(indices, max(size, 1))
