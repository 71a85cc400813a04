"""Dimensions and parts: transposing, selecting, joining."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core import formats
from ..eager.tensor import Tensor
from ._convert import coalesce, to_coo
from ._tensor import (
    TABLE,
    CompressedPattern,
    CooPattern,
    SparseTensor,
    accumulated,
    adopt,
    host,
    index_tensor,
    is_compressed,
    is_coo,
    layout_name,
    not_run,
    record,
    sparse_op,
    values_of,
)


def wrap(dim, ndim):
    """A dimension counted from the front.

    Raises:
        IndexError: if there is none.
    """
    extent = max(ndim, 1)
    if not -extent <= dim < extent:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-extent}, {extent - 1}], but got "
            f"{dim})"
        )
    return dim % extent


@sparse_op()
def permute(input, *given, dims=None):
    """The dimensions in another order; sparse and dense ones stay apart."""
    dims = given if dims is None else dims
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    dims = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    ndim = input.dim()
    dims = tuple(wrap(d, ndim) for d in dims)
    if len(dims) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
            f"the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = "
            f"{len(dims)}"
        )
    if len(set(dims)) != ndim:
        raise RuntimeError("permute(sparse_coo): duplicate dims are not allowed.")
    if is_compressed(input):
        return transpose(input, *_swapped(dims)) if dims != tuple(range(ndim)) else input
    p = input._pattern
    n = p.sparse_dim
    if any((d < n) != (i < n) for i, d in enumerate(dims)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only transpositions "
            "within sparse and dense dimensions are supported."
        )
    v = values_of(input)
    rest = tuple(d - n + 1 for d in dims[n:])
    if rest != tuple(range(1, ndim - n + 1)):
        v = v.permute(0, *rest)
    indices = p.indices
    unmoved = dims[:n] == tuple(range(n))
    if not unmoved:
        indices = indices.index_select(0, index_tensor(np.array(dims[:n], np.int64), indices))
    size = tuple(input.shape[d] for d in dims)
    return CooPattern(indices, size, (p.coalesced or None) if unmoved else False).build(v, "Permute")


def _swapped(dims):
    moved = [i for i, d in enumerate(dims) if i != d]
    if len(moved) != 2:
        raise RuntimeError("permute: compressed tensors can only swap their two sparse dimensions")
    return moved


_TURNED = {
    formats.sparse_csr: formats.sparse_csc, formats.sparse_csc: formats.sparse_csr,
    formats.sparse_bsr: formats.sparse_bsc, formats.sparse_bsc: formats.sparse_bsr,
}


@sparse_op("transpose", "swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    """Two dimensions swapped; the compressed layouts turn into each other."""
    ndim = input.dim()
    dim0, dim1 = wrap(dim0, ndim), wrap(dim1, ndim)
    if dim0 == dim1:
        return input
    if is_coo(input):
        n = input._pattern.sparse_dim
        if max(dim0, dim1) >= n:
            raise RuntimeError(
                f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {n}, d0: "
                f"{dim0}, d1: {dim1}"
            )
        dims = list(range(ndim))
        dims[dim0], dims[dim1] = dim1, dim0
        out = permute(input, dims)
        return out if out._pattern.nnz else out._coalesced_(input._pattern.coalesced)
    p = input._pattern
    n = len(p.batch)
    if {dim0, dim1} != {n, n + 1}:
        raise RuntimeError(
            f"transpose(): can only transpose the two sparse dimensions of {p.layout} tensors"
        )
    size = list(p.size)
    size[n], size[n + 1] = size[n + 1], size[n]
    v, block = values_of(input), p.block
    if block is not None:
        v, block = v.transpose(n + 1, n + 2), block[::-1]
    turned = CompressedPattern(p.compressed, p.plain, size, _TURNED[p.layout], block)
    return turned.build(v, "Transpose")


def _check_t(input, name):
    p = input._pattern
    if is_coo(input) and (p.sparse_dim > 2 or input.dim() != p.sparse_dim):
        raise RuntimeError(
            f"{name}() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {p.sparse_dim} sparse and "
            f"{input.dim() - p.sparse_dim} dense dimensions"
        )


@sparse_op()
def t(input):
    _check_t(input, "t")
    if input.dim() > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {input.dim()}D "
            "tensor"
        )
    return input if input.dim() < 2 else transpose(input, 0, 1)


@sparse_op()
def t_(input):
    _check_t(input, "t_")
    return adopt(input, t(input))


sparse_op("transpose_", "swapaxes_", "swapdims_")(
    lambda input, dim0, dim1: adopt(input, transpose(input, dim0, dim1))
)
sparse_op("T")(lambda input: permute(input, tuple(reversed(range(input.dim())))))
sparse_op("mT", "adjoint")(lambda input: transpose(input, -2, -1))
sparse_op("H", "mH")(lambda input: transpose(input, -2, -1).conj())


@sparse_op()
def unsqueeze(input, dim):
    """A new dimension of extent one, sparse if the one before it is."""
    if is_compressed(input):
        raise RuntimeError("Sparse CSR tensors do not have strides")
    p = input._pattern
    ndim = input.dim()
    if not -ndim - 1 <= dim <= ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim - 1}, {ndim}], but got {dim})"
        )
    dim %= ndim + 1
    size = (*input.shape[:dim], 1, *input.shape[dim:])
    if dim > p.sparse_dim:
        return CooPattern(p.indices, size).build(
            values_of(input).unsqueeze(dim - p.sparse_dim + 1), "Unsqueeze"
        )
    zeros = torch.zeros_like(p.indices[:1]) if p.sparse_dim else p.indices.new_zeros((1, p.nnz))
    indices = torch.cat([p.indices[:dim], zeros, p.indices[dim:]])
    return CooPattern(indices, size).build(values_of(input), "Unsqueeze")


# --- parts ---------------------------------------------------------------------------


def _chosen(input, where, indices, size, name):
    """The elements at some positions, with other places."""
    p = input._pattern
    v = values_of(input).index_select(0, index_tensor(where, p.indices))
    return p.moved(indices, size, p.coalesced or None).build(v, name)


@sparse_op()
def select(input, dim, index):
    """The part at one index of a dimension; dense if no sparse dimension is left."""
    if input.dim() == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap(dim, input.dim())
    extent = input.shape[dim]
    if not -extent <= index < extent:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension "
            f"{dim}"
        )
    index %= extent
    if is_compressed(input) and dim < len(input._pattern.batch):
        p = input._pattern
        parts = [part.select(dim, index) for part in (p.compressed, p.plain)]
        rest = (*p.size[:dim], *p.size[dim + 1 :])
        return CompressedPattern(*parts, rest, p.layout, p.block).build(values_of(input).select(dim, index), "Select")
    was_compressed = is_compressed(input)
    if was_compressed:
        input = to_coo(input)
    p = input._pattern
    size = (*input.shape[:dim], *input.shape[dim + 1 :])
    if dim >= p.sparse_dim:
        v = values_of(input).select(dim - p.sparse_dim + 1, index)
        out = CooPattern(p.indices, size, p.coalesced or None).build(v, "Select")
        return out if p.nnz < 2 else out._coalesced_(False)
    at = host(p.indices)
    where = np.flatnonzero(at[dim] == index)
    if p.sparse_dim == 1:
        v = values_of(input).index_select(0, index_tensor(where, p.indices))
        return v.sum(0).to(v.dtype)
    out = _chosen(input, where, np.delete(at, dim, 0)[:, where], size, "Select")
    return out if was_compressed or len(where) < 2 else out._coalesced_(False)


@sparse_op()
def unbind(input, dim=0):
    dim = wrap(dim, input.dim())
    return tuple(select(input, dim, i) for i in range(input.shape[dim]))


@sparse_op()
def index_select(input, dim, index):
    """The parts at some indices of a dimension."""
    if is_compressed(input):
        raise not_run("index_select", input)
    dim = wrap(dim, input.dim())
    if index.dim() > 1:
        raise IndexError("index_select() argument index must be 1-D or a 0-D tensor")
    wanted = host(index).reshape(-1).astype(np.int64)
    extent = input.shape[dim]
    if wanted.size and (wanted.min() < -extent or wanted.max() >= extent):
        bad = wanted[(wanted < -extent) | (wanted >= extent)][0]
        raise IndexError(
            f"index_select(): index contains {bad} that is out of range for tensor of size "
            f"{list(input.shape)} at dimension {dim}"
        )
    wanted %= max(extent, 1)
    p = input._pattern
    size = (*input.shape[:dim], len(wanted), *input.shape[dim + 1 :])
    if dim >= p.sparse_dim:
        v = values_of(input).index_select(dim - p.sparse_dim + 1, index_tensor(wanted, p.indices))
        return CooPattern(p.indices, size, p.coalesced or None).build(v, "IndexSelect")
    at = host(p.indices)
    order = np.argsort(at[dim], kind="stable")
    begins = np.searchsorted(at[dim][order], wanted, side="left")
    counts = np.searchsorted(at[dim][order], wanted, side="right") - begins
    new = np.repeat(np.arange(len(wanted)), counts)
    offsets = np.arange(len(new)) - np.repeat(np.cumsum(counts) - counts, counts)
    where = order[np.repeat(begins, counts) + offsets]
    moved = at[:, where]
    moved[dim] = new
    out = _chosen(input, where, moved, size, "IndexSelect")
    return out if dim == 0 else out._coalesced_(False)


@sparse_op()
def narrow(input, dim, start, length):
    """Raises what PyTorch says of a range, or that there are no such views."""
    dim = wrap(dim, input.dim())
    extent, start = input.shape[dim], int(start)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -extent <= start <= extent:
        raise IndexError(f"start out of range (expected to be in range of [{-extent}, {extent}], but got {start})")
    start = start + extent if start < 0 else start
    if start + length > extent:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({extent}).")
    raise not_run("as_strided", input)


@sparse_op()
def narrow_copy(input, dim, start, length):
    """A part of a dimension."""
    dim = wrap(dim, input.dim())
    extent = input.shape[dim]
    if not -extent <= start <= extent or (
        start % (extent or 1) if start < 0 else start
    ) + length > (extent):
        raise RuntimeError(
            "Invalid range to narrow. range(start, start+length) must be a subset of range(0, "
            f"{extent})."
        )
    start = start + extent if start < 0 else start
    p = input._pattern
    size = (*input.shape[:dim], length, *input.shape[dim + 1 :])
    if dim >= p.sparse_dim:
        v = values_of(input).narrow(dim - p.sparse_dim + 1, start, length)
        return CooPattern(p.indices, size, p.coalesced or None).build(v, "NarrowCopy")
    at = host(p.indices)
    where = np.flatnonzero((at[dim] >= start) & (at[dim] < start + length))
    moved = at[:, where]
    moved[dim] -= start
    return _chosen(input, where, moved, size, "NarrowCopy")


def _no_view(input, *args, **kwargs):
    raise not_run("as_strided", input)


sparse_op("squeeze", "chunk", "split", "as_strided", "diagonal")(_no_view)


@sparse_op()
def flatten(input, start_dim=0, end_dim=-1):
    """The tensor itself, where there is nothing to flatten.

    Raises:
        RuntimeError: elsewhere.
    """
    if input.dim() and wrap(start_dim, input.dim()) == wrap(end_dim, input.dim()):
        return input
    return reshape(input)


@sparse_op("movedim", "moveaxis")
def movedim(input, source, destination):
    """Dimensions at other places, by `permute`."""
    sizes = torch.empty(tuple(range(2, 2 + input.dim())), device="meta").movedim(source, destination).shape
    return permute(input, [n - 2 for n in sizes])


@sparse_op("reshape", "reshape_as")
def reshape(input, *args, **kwargs):
    raise RuntimeError("reshape is not implemented for sparse tensors")


@sparse_op("expand", "expand_as")
def expand(input, *args, **kwargs):
    raise RuntimeError("expand is unsupported for Sparse tensors")


@sparse_op("view", "view_as")
def view(input, *args, **kwargs):
    raise not_run("view", input)


@sparse_op("__getitem__", "getitem")
def getitem(input, key):
    """Numbers, ``None``, ``...`` and ``:``: what needs no view."""
    keys = key if isinstance(key, tuple) else (key,)
    count = sum(k is not None and k is not Ellipsis for k in keys)
    if count > input.dim():
        raise IndexError(f"too many indices for tensor of dimension {input.dim()}")
    result, dim = input, 0
    for k in keys:
        if k is Ellipsis:
            dim += input.dim() - count
        elif k is None:
            result = result.unsqueeze(dim)
            dim += 1
        elif isinstance(k, (int, np.integer)) and not isinstance(k, bool):
            if not -result.shape[dim] <= k < result.shape[dim]:
                raise IndexError(
                    f"index {k} is out of bounds for dimension {dim} with size {result.shape[dim]}"
                )
            result = (
                TABLE["select"](result, dim, int(k))
                if isinstance(result, SparseTensor)
                else (result.select(dim, int(k)))
            )
        elif isinstance(k, slice):
            extent = result.shape[dim]
            if k.indices(extent) != (0, extent, 1):
                raise not_run("as_strided", input)
            dim += 1
        else:
            raise not_run("index.Tensor", input)
    return result


@sparse_op("__setitem__", "setitem")
def setitem(input, key, value):
    if isinstance(input, SparseTensor):
        raise TypeError("Cannot assign to a sparse tensor")
    raise RuntimeError(
        "copy_() between dense and sparse Tensors is not implemented! Found self type = "
        f"{input.type()} and src type = {value.type()}"
    )


# --- joining -------------------------------------------------------------------------


@sparse_op("cat", "concat", "concatenate")
def cat(tensors, dim=0, *, out=None):
    """Tensors of coordinates one after the other along a dimension."""
    tensors = list(tensors)
    for i, x in enumerate(tensors):
        if isinstance(x, SparseTensor):
            if is_compressed(x):
                raise RuntimeError("Sparse CSR tensors do not have is_contiguous")
        elif isinstance(x, Tensor):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {i}."
            )
    first = tensors[0]
    dim = wrap(dim, first.dim())
    p = first._pattern
    for i, x in enumerate(tensors):
        q = x._pattern
        if q.sparse_dim != p.sparse_dim or x.dim() != first.dim():
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {p.sparse_dim}, "
                f"{first.dim() - p.sparse_dim}, but tensor at position {i} has {q.sparse_dim}, "
                f"{x.dim() - q.sparse_dim}."
            )
        if any(a != b for d, (a, b) in enumerate(zip(x.shape, first.shape)) if d != dim):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the "
                f"concatenating dimension), but found shape: {list(x.shape)} at position {i}."
            )
    total = sum(x.shape[dim] for x in tensors)
    size = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    begin, indices, values = 0, [], []
    dense = dim - p.sparse_dim + 1
    for x in tensors:
        at, v = x._pattern.indices, values_of(x)
        if dim < p.sparse_dim:
            shift = torch.zeros((p.sparse_dim, 1), dtype=at.dtype, device=at.device)
            shift[dim] = begin
            at = at + shift
        else:
            before, after = list(v.shape), list(v.shape)
            before[dense], after[dense] = begin, total - begin - x.shape[dim]
            v = torch.cat([v.new_zeros(before), v, v.new_zeros(after)], dense)
        begin += x.shape[dim]
        indices.append(at)
        values.append(v)
    return CooPattern(torch.cat(indices, 1), size).build(torch.cat(values), "Cat")


@sparse_op()
def stack(tensors, dim=0, *, out=None):
    ndim = tensors[0].dim()
    return cat([unsqueeze(x, dim) for x in tensors], dim if dim >= 0 else dim + ndim + 1)


sparse_op("hstack")(lambda tensors: cat(tensors, 0 if tensors[0].dim() == 1 else 1))
sparse_op("vstack", "row_stack")(lambda tensors: cat(
    [unsqueeze(x, 0) if x.dim() == 1 else x for x in tensors]
))


# --- reductions ----------------------------------------------------------------------


def summed(input, dim=None, keepdim=False, dtype=None, name="Sum"):
    """The sum over dimensions of a tensor of coordinates: dense if no sparse one is left."""
    p, v = input._pattern, values_of(input)
    if dtype is not None:
        v = v.to(dtype)
    if dim is None:
        return v.sum()
    ndim = input.dim()
    dims = sorted([wrap(d, ndim) for d in ((dim,) if isinstance(dim, int) else dim)])
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    if not dims:
        return input if dtype is None else input.to(dtype)
    n = p.sparse_dim
    over = [d for d in dims if d < n]
    inner = [d - n + 1 for d in dims if d >= n]
    if inner:
        v = v.sum(inner, keepdim=keepdim)
    elif v.dtype.category < 2:
        v = v.to(torch.zeros(0, dtype=v.dtype).sum().dtype)
    left = [d for d in range(n) if d not in over]
    if over and not left:
        total = v.sum(0)
        return total.reshape([1 if d in dims else m for d, m in enumerate(input.shape)]) if keepdim else total
    size = tuple(
        (1 if d in dims else m) for d, m in enumerate(input.shape) if keepdim or d not in dims
    )
    at = host(p.indices)
    if keepdim:
        at = at.copy()
        at[over] = 0
    elif over:
        at = at[left]
    if not over:
        return p.moved(at, size, p.coalesced or None).build(v, name)
    keys = p.host_keys(left)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    v = accumulated(v, index_tensor(inverse.reshape(-1), p.indices), len(first))
    return p.moved(at[:, first], size, None if keepdim else True).build(v, name)


@sparse_op("sum")
def sum_(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """The sum of all elements, of which the gradient is dense; or over dimensions."""
    if dim is None:
        total = input._v.detach().sum(dtype=dtype)
        return record("Sum", [input], total, lambda grad: [grad.to(input.dtype).expand(tuple(input.shape))])
    if is_compressed(input):
        if input.layout is not formats.sparse_csr:
            raise RuntimeError(
                "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout "
                f"{layout_name(input)}"
            )
        if not keepdim:
            raise RuntimeError(
                "reduction operations on CSR tensors with keepdim=False is unsupported"
            )
        total = summed(to_coo(input), dim, True, dtype)
        return total.to_sparse(layout=input.layout)
    return summed(input, dim, keepdim, dtype)


@sparse_op("norm", "_norm_method")
def norm(input, p="fro", dim=None, keepdim=False, dtype=None, out=None):
    """The norm of all elements."""
    if is_compressed(input):
        raise not_run("norm.out", input)
    if dim is not None and not (isinstance(dim, (list, tuple)) and not dim):
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        if len(dims) != input.dim():
            raise RuntimeError("norm_sparse currently only supports full reductions, so 'dim' must "
                               "either be empty or contain all dimensions of the input")
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None and p in ("fro", None):
        raise ValueError("dtype argument is not supported in frobenius norm")
    if p == "nuc":
        raise not_run("_linalg_svd", input)
    order = 2 if p in ("fro", None) else p
    v = values_of(coalesce(input))
    return torch.linalg.vector_norm(v, float(order), dtype=dtype)


@sparse_op("any")
def any_(input, dim=None, keepdim=False):
    if is_compressed(input) or dim is not None:
        raise not_run("any.all_out" if dim is None else "any.dim", input)
    return values_of(coalesce(input)).any()


@sparse_op()
def equal(input, other):
    raise not_run("equal", input if isinstance(input, SparseTensor) else other)
