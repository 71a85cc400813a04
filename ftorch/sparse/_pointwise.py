"""Element by element: functions that keep zeros, and arithmetic."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core.dtype import promote_types
from ..eager.tensor import Tensor
from ._attributes import emptied
from ._convert import coalesce, to_compressed, to_coo
from ._tensor import (
    CooPattern,
    SparseTensor,
    adopt,
    host,
    index_tensor,
    is_compressed,
    is_coo,
    not_run,
    rebuilt,
    sparse_op,
    values_of,
)

# --- one operand ---------------------------------------------------------------------

# Functions f with f(0) = 0: they are applied to the elements, each place taken once.
_UNARY = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf "
    "log1p nan_to_num rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh trunc angle "
    "conj_physical"
)
_ALIASES = {
    "absolute": "abs", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh",
    "fix": "trunc", "special_erf": "erf", "special_expm1": "expm1",
}
# These are linear: places that occur more than once may stay.
_LINEAR = "neg negative conj resolve_conj resolve_neg real imag positive".split()


def _unary(name, of):
    def apply(input, *args, **kwargs):
        out = kwargs.pop("out", None)
        if name == "angle" and is_coo(input):
            raise not_run(name, input)
        t = coalesce(input) if is_coo(input) and name not in _LINEAR else input
        v = values_of(t)
        attribute = getattr(v, of) if hasattr(v, of) else getattr(torch, of)
        result = (
            attribute
            if isinstance(attribute, Tensor)
            else (attribute(*args, **kwargs) if hasattr(v, of) else attribute(v, *args, **kwargs))
        )
        result = rebuilt(t, result, of.capitalize())
        return result if out is None else adopt(out, result)

    def apply_(input, *args, **kwargs):
        if is_coo(input) and name not in _LINEAR and not input._pattern.coalesced:
            raise RuntimeError(f"{of}_ requires coalesced input")
        return adopt(input, apply(input, *args, **kwargs))

    sparse_op(name)(apply)
    sparse_op(f"{name}_")(apply_)


for _name in (*_UNARY.split(), *_LINEAR):
    _unary(_name, _name)
for _name, _of in _ALIASES.items():
    _unary(_name, _of)


# --- sums ----------------------------------------------------------------------------


def _sizes(name, a, b):
    return (
        f"{name}: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
        f"{list(b.shape)}"
    )


def _scaled(v, alpha):
    return v if alpha == 1 else v * alpha


def _dense_plus_sparse(dense, sparse, alpha):
    if tuple(dense.shape) != tuple(sparse.shape):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(dense.shape)} while other has size {list(sparse.shape)} (FYI: dense-sparse "
            "addition does not currently support broadcasting)"
        )
    dtype = promote_types(dense.dtype, sparse.dtype)
    v = _scaled(values_of(sparse), alpha).to(dtype)
    p = sparse._pattern
    if is_compressed(sparse):
        p, v = p.element_coo(), p.elements(v)
    if p.sparse_dim == 0:
        return dense.to(dtype) + v.sum(0)
    return dense.to(dtype).index_put(tuple(p.indices.unbind(0)), v, accumulate=True)


def _joined(a, b, alpha):
    """The sum of two tensors of coordinates."""
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(_sizes("add", a, b))
    p, q = a._pattern, b._pattern
    dtype = promote_types(a.dtype, b.dtype)
    va, vb = values_of(a).to(dtype), _scaled(values_of(b), alpha).to(dtype)
    if p.sparse_dim != q.sparse_dim:
        if q.nnz == 0:
            return p.twin().build(va, "Add")
        if p.nnz == 0:
            return q.twin().build(vb, "Add")
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same density, but 'self' has {p.sparse_dim} sparse dimensions while "
            f"'other' has {q.sparse_dim} sparse dimensions"
        )
    in_step = va.is_contiguous() and vb.is_contiguous()  # PyTorch then walks through both at once
    is_same = (
        p.same(q) or (p.nnz == q.nnz and np.array_equal(host(p.indices), host(q.indices)))
    )
    if in_step and dtype.scalar_name == "Bool":
        raise NotImplementedError("\"cadd_sparse\" not implemented for 'Bool'")
    if in_step and is_same:
        return (q if p.coalesced else p).twin().build(va + vb, "Add")  # in order if both are
    if q.nnz == 0:
        return p.twin().build(va, "Add")
    if p.nnz == 0:
        return q.twin().build(vb, "Add")
    if in_step:
        return _merged(p, va, q, vb)
    indices = torch.cat([p.indices, q.indices], 1)
    both = CooPattern(indices, p.size).build(torch.cat([va, vb]), "Add")
    if p.coalesced and q.coalesced or both._pattern.nnz > a.numel():
        return coalesce(both)  # the number of elements must not grow without bound
    return both


def _merged(p, va, q, vb):
    """The sum by a walk through both lists of places at once: of those that are next, the lower, or both if they are equal."""
    ours, theirs = host(p.indices), host(q.indices)
    flat = [np.ravel_multi_index(tuple(i), p.size[: p.sparse_dim]) if len(i) else np.zeros(i.shape[1], int)
            for i in (ours, theirs)]
    if all((np.diff(keys) > 0).all() for keys in flat):
        at = np.searchsorted(np.union1d(*flat), flat[0]), np.searchsorted(np.union1d(*flat), flat[1])
    else:
        at = _walked(*flat)
    count = max(int(places[-1]) for places in at) + 1
    indices = np.empty((p.sparse_dim, count), np.int64)
    indices[:, at[0]], indices[:, at[1]] = ours, theirs
    values = torch.zeros((count, *va.shape[1:]), dtype=va.dtype)
    for places, v in zip(at, (va, vb)):
        values = values.index_add(0, torch.from_numpy(places), v)
    return CooPattern(torch.from_numpy(indices), p.size, (p.coalesced and q.coalesced) or None).build(values, "Add")


def _walked(a, b):
    """Where a walk through two lists of numbers, in no order, puts the elements of each."""
    places: tuple = ([], [])
    i = j = count = 0
    while i < len(a) or j < len(b):
        takes_a, takes_b = i < len(a), j < len(b)
        if takes_a and takes_b:
            takes_a, takes_b = a[i] <= b[j], b[j] <= a[i]
        if takes_a:
            places[0].append(count)
            i += 1
        if takes_b:
            places[1].append(count)
            j += 1
        count += 1
    return tuple(np.array(found, np.int64) for found in places)


@sparse_op()
def add(input, other, *, alpha=1, out=None):
    """The sum: dense if the first operand is, else sparse."""
    if not isinstance(input, SparseTensor):
        input = input if isinstance(input, Tensor) else torch.tensor(input)
        result = _dense_plus_sparse(input, other, alpha)
    elif not isinstance(other, SparseTensor):
        if is_coo(input) or not isinstance(other, Tensor):
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
            )
        result = _dense_plus_sparse(other * alpha if alpha != 1 else other, input, 1)
    elif is_coo(input) and is_coo(other):
        result = _joined(input, other, alpha)
    elif is_compressed(input) and input.layout is other.layout:
        if input._pattern.same(other._pattern):
            result = rebuilt(input, values_of(input) + _scaled(values_of(other), alpha), "Add")
        else:
            block = input._pattern.block
            result = to_compressed(
                _joined(to_coo(input), to_coo(other), alpha), input.layout, block
            )
    else:
        raise RuntimeError("add: expected 'self' and 'other' to have the same layout")
    if out is None:
        return result
    return adopt(out, result) if isinstance(out, SparseTensor) else out.copy_(result)


@sparse_op("sub", "subtract")
def sub(input, other, *, alpha=1, out=None):
    return add(input, other, alpha=-alpha, out=out)


@sparse_op()
def rsub(input, other, *, alpha=1):
    return add(other, input, alpha=-alpha)


sparse_op("__rsub__")(lambda input, other: add(other, input, alpha=-1))
sparse_op("__radd__")(lambda input, other: add(other, input))


@sparse_op("add_")
def add_(input, other, *, alpha=1):
    if not isinstance(input, SparseTensor):
        p, v = other._pattern, _scaled(values_of(other), alpha)
        if tuple(input.shape) != tuple(other.shape):
            return _dense_plus_sparse(input, other, alpha)  # which says what is wrong
        if is_compressed(other):
            p, v = p.element_coo(), p.elements(v)
        if p.sparse_dim == 0:
            return input.add_(v.sum(0))
        places = tuple(p.indices.unbind(0))
        return input.index_put_(places, v.to(input.dtype), accumulate=True)
    return adopt(input, add(input, other, alpha=alpha))


@sparse_op("sub_", "subtract_")
def sub_(input, other, *, alpha=1):
    return add_(input, other, alpha=-alpha)


# --- products ------------------------------------------------------------------------


def _is_number(x):
    return not isinstance(x, Tensor) or (x.dim() == 0 and not isinstance(x, SparseTensor))


def _times_dense(sparse, dense):
    if dense.shape != sparse.shape:
        shape = torch.broadcast_shapes(tuple(dense.shape), tuple(sparse.shape))
        if tuple(shape) != tuple(sparse.shape):
            sparse = coalesce(broadcast_to(coalesce(sparse), shape))
        dense = dense.expand(shape)
    p = sparse._pattern
    return p.twin().build(values_of(sparse) * p.gather(dense), "Mul")


def _intersection(a, b):
    """The product of two tensors of coordinates."""
    if tuple(a.shape) != tuple(b.shape):
        shape = torch.broadcast_shapes(tuple(a.shape), tuple(b.shape))
        a, b = broadcast_to(a, shape), broadcast_to(b, shape)
    p, q = a._pattern, b._pattern
    if p.same(q) and p.coalesced and q.coalesced:
        return rebuilt(a, values_of(a) * values_of(b), "Mul")
    if p.sparse_dim != q.sparse_dim:
        if not p.nnz or not q.nnz:
            return emptied(a, promote_types(a.dtype, b.dtype))
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of sparse "
            "dimensions, and shape of sparse dimensions"
        )
    # The elements of the one are looked up in the other: of the uncoalesced one, else of that with fewer.
    if p.coalesced != q.coalesced:
        is_swapped = q.coalesced
    else:
        is_swapped = p.nnz < q.nnz
    source, other = (a, coalesce(b)) if is_swapped else (b, coalesce(a))
    p, q = source._pattern, other._pattern
    keys, known = p.host_keys(), q.host_keys()
    place = np.searchsorted(known, keys)
    found = np.flatnonzero(known[np.minimum(place, len(known) - 1)] == keys if len(known) else np.zeros(0, np.int64))
    vs = values_of(source).index_select(0, index_tensor(found, p.indices))
    vo = values_of(other).index_select(0, index_tensor(place[found], p.indices))
    values = vs * vo if is_swapped else vo * vs
    return p.moved(host(p.indices)[:, found], p.size, p.coalesced or None).build(values, "Mul")


@sparse_op("broadcast_to")
def broadcast_to(input, size):
    """The elements repeated along dimensions of extent one, and new ones in front."""
    size = tuple(size)
    p = input._pattern
    if size == tuple(input.shape):
        return input
    new = len(size) - input.dim()
    sparse = p.sparse_dim + new
    at = np.concatenate([np.zeros((new, p.nnz), np.int64), host(p.indices)])
    old = (1,) * new + tuple(p.size)
    chosen = np.arange(p.nnz)
    for d in range(sparse):
        if old[d] != size[d]:
            if old[d] != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({size[d]}) must match the existing size "
                    f"({old[d]}) at non-singleton dimension {d}."
                )
            count = at.shape[1]
            at = np.tile(at, (1, size[d]))
            at[d] = np.repeat(np.arange(size[d]), count)
            chosen = np.tile(chosen, size[d])
    v = values_of(input).index_select(0, index_tensor(chosen, p.indices))
    v = v.expand((len(chosen), *size[sparse:]))
    return p.moved(at, size).build(v, "Expand")


@sparse_op("mul", "multiply", "__rmul__")
def mul(input, other, *, out=None):
    """The product; sparse."""
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if _is_number(other):
        result = rebuilt(input, values_of(input) * other, "Mul")
    elif not isinstance(other, SparseTensor):
        result = _times_dense(input, other)
    elif is_coo(input) and is_coo(other):
        result = _intersection(input, other)
    elif is_compressed(input) and input.layout is other.layout:
        if input._pattern.same(other._pattern):
            result = rebuilt(input, values_of(input) * values_of(other), "Mul")
        else:
            product = _intersection(to_coo(input), to_coo(other))
            result = to_compressed(product, input.layout, input._pattern.block)
    else:
        raise RuntimeError("mul: expected 'self' and 'other' to have the same layout")
    return result if out is None else adopt(out, result)


@sparse_op("mul_", "multiply_")
def mul_(input, other):
    if not isinstance(input, SparseTensor):
        raise not_run("mul_.Tensor", other)
    result = mul(input, other)
    if is_coo(result) and _is_number(other):  # which says nothing of the places
        result._coalesced_(result._pattern.nnz < 2)
    return adopt(input, result)


@sparse_op("div", "divide", "true_divide")
def div(input, other, *, rounding_mode=None, out=None, what="division"):
    """The quotient by a number."""
    if not isinstance(input, SparseTensor):
        if is_coo(other):
            raise (
                not_run("reciprocal", other) if _is_number(input) else RuntimeError(_divisor(other, what))
            )
        raise not_run("div.Tensor", other)
    if not _is_number(other):
        raise RuntimeError(_divisor(other, what))
    if rounding_mode is not None and is_coo(input):
        input = coalesce(input)
    v = values_of(input)
    v = v.div(other) if rounding_mode is None else v.div(other, rounding_mode=rounding_mode)
    result = rebuilt(input, v, "Div")
    return result if out is None else adopt(out, result)


def _divisor(other, what):
    return (
        f"Sparse {what} requires a scalar or zero-dim dense tensor divisor (got shape "
        f"{list(other.shape)} for divisor)"
    )


sparse_op("__rtruediv__", "__rdiv__")(lambda input, other: div(other, input))
sparse_op("floor_divide")(lambda input, other: div(input, other, rounding_mode="floor", what="floor division"))


@sparse_op("div_", "divide_", "true_divide_")
def div_(input, other, *, rounding_mode=None):
    return adopt(input, div(input, other, rounding_mode=rounding_mode))


sparse_op("floor_divide_")(lambda input, other: div_(input, other, rounding_mode="floor"))


@sparse_op("pow")
def power(input, exponent, *, out=None):
    """A power by a number that is not zero."""
    if not isinstance(input, SparseTensor) or not _is_number(exponent):
        raise not_run("pow.Tensor_Tensor", input if isinstance(input, SparseTensor) else exponent)
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    t = coalesce(input) if is_coo(input) else input
    result = rebuilt(t, values_of(t).pow(exponent), "Pow")
    return result if out is None else adopt(out, result)


@sparse_op()
def square(input, *, out=None):
    return power(input, 2, out=out)


@sparse_op()
def tanhshrink(input):
    return input - input.tanh()


@sparse_op()
def ldexp(input, other, *, out=None):
    """``input * 2**other``, where ``other`` is dense."""
    result = input * torch.pow(2.0, other)
    return result if out is None else adopt(out, result)


@sparse_op("pow_", "square_")
def power_(input, exponent=2):
    raise not_run("pow_.Scalar", input)


@sparse_op()
def fill_(input, value):
    if is_coo(input):
        raise not_run("fill_.Scalar", input)
    return adopt(input, rebuilt(input, values_of(input).fill_(value), "Fill"))
