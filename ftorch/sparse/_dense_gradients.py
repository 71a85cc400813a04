"""Gradients of sparse tensors that are dense: those of sums of all elements, which linear functions hand on whole.

What is built of values takes of a dense gradient the elements at its own places. PyTorch's derivatives of the functions
here are ordinary ones, to which a dense gradient stays dense: ``x.to_sparse().sum()`` has a gradient of ones at the places
where ``x`` is zero, too.
"""

from __future__ import annotations

from collections.abc import Callable

from ..eager.core import api as torch
from ..eager.tensor import Tensor
from . import _attributes, _convert, _matmul, _pointwise, _structural  # noqa: F401  (they fill the table)
from ._tensor import TABLE, SparseNode, SparseTensor, also_dense, record, renamed


def _power(grad, input, exponent):
    if exponent == 0:
        return torch.zeros_like(grad)
    return grad * (input.to_dense().pow(exponent - 1) * exponent).conj()


def _selected(grad, input, dim, index):
    return torch.zeros(tuple(input.shape), dtype=grad.dtype).select_scatter(grad, dim, int(index))


def _gathered(grad, input, dim, index):
    return torch.zeros(tuple(input.shape), dtype=grad.dtype).index_add(dim, index.reshape(-1), grad)


# {name: (the gradient of the dense gradient, the first operand and the other arguments; how many of these there are)}
_RULES: dict[str, Callable] = {
    "neg": lambda grad, input: -grad,
    "negative": lambda grad, input: -grad,
    "clone": lambda grad, input, **kwargs: grad,
    "t": lambda grad, input: grad.t(),
    "transpose": lambda grad, input, dim0, dim1: grad.transpose(dim0, dim1),
    "unsqueeze": lambda grad, input, dim: grad.squeeze(dim),
    "pow": _power,
    "select": _selected,
    "index_select": _gathered,
    "coalesce": lambda grad, input: grad,
    "to_sparse": lambda grad, input, *args, **kwargs: grad,
    "to_sparse_coo": lambda grad, input, *args, **kwargs: grad,
    "to_sparse_csr": lambda grad, input, *args, **kwargs: grad,
    "to_sparse_csc": lambda grad, input, *args, **kwargs: grad,
    "to_sparse_bsr": lambda grad, input, *args, **kwargs: grad,
    "to_sparse_bsc": lambda grad, input, *args, **kwargs: grad,
}


_NAMES = {  # of nodes, by the operation as a whole
    "t": ("T", 0), "to_sparse_coo": ("ToSparse", 1), "to_sparse_csr": ("ToSparseCsr", 0),
    "to_sparse_csc": ("ToSparseCsc", 0), "to_sparse_bsr": ("ToSparseBsr", 0), "to_sparse_bsc": ("ToSparseBsc", 0),
}


def _handing_on(name, function, rule):
    def call(input, *args, **kwargs):
        out = function(input, *args, **kwargs)
        if name in _NAMES and out is not input and isinstance(out._grad_fn, SparseNode):
            renamed(out, *_NAMES[name])
        return also_dense(out, (input, lambda grad: rule(grad, input, *args, **kwargs)))

    return call


def _is_number(value):
    return not isinstance(value, Tensor) or value.dim() == 0


def _scaled(function, scale):
    """A product with a number or a quotient by one; no others hand dense gradients on."""

    def call(input, other, **kwargs):
        out = function(input, other, **kwargs)
        if kwargs or not isinstance(input, SparseTensor) or isinstance(other, SparseTensor):
            return out
        if not _is_number(other):
            shape = tuple(other.shape)
            return also_dense(out, (input, lambda grad: grad * other.conj()),
                              (other, lambda grad: (grad * input.to_dense().conj()).sum_to_size(shape)))
        return also_dense(out, (input, lambda grad: scale(grad, other)))

    return call


def _joined(function):
    def call(tensors, dim=0, **kwargs):
        out = function(tensors, dim, **kwargs)
        parts, start = [], 0
        for t in tensors:
            parts.append((t, lambda grad, at=start, n=t.shape[dim]: grad.narrow(dim, at, n)))
            start += t.shape[dim]
        return out if kwargs else also_dense(out, *parts)

    return call


def _plus_sparse(dense, sparse, total, scale):
    if not (isinstance(dense, Tensor) and sparse.requires_grad and total.dtype.is_floating_point):
        return total
    shape = tuple(dense.shape)
    return record("Add", [dense, sparse], total.detach(),
                  lambda grad: [grad.sum_to_size(shape).to(dense.dtype), grad.to(sparse.dtype) * scale])


def _multiplied(function, name):
    """Products with dense matrices and vectors, whose derivatives are dense ones."""

    def call(input, other, **kwargs):
        dense = isinstance(other, Tensor) and not isinstance(other, SparseTensor) and other.dim() in (1, 2)
        if kwargs or not (dense and isinstance(input, SparseTensor) and input.requires_grad and input.dim() == 2):
            return function(input, other, **kwargs)

        def backward(grad):
            outer = grad[:, None] * other.conj() if other.dim() == 1 else grad @ other.mH
            if not other.requires_grad:
                return [outer, None]
            return [outer, TABLE["matmul"](input.t().conj() if input.is_complex() else input.t(), grad)]

        out = function(input.detach(), other.detach())
        return record("Mv" if other.dim() == 1 else name, [input, other], out, backward)

    return call


def _plus_product(function):
    def call(input, mat1, mat2, *, beta=1, alpha=1, out=None):
        dense = not isinstance(input, SparseTensor) and not isinstance(mat2, SparseTensor)
        if out is not None or not (dense and isinstance(mat1, SparseTensor) and mat1.requires_grad):
            return function(input, mat1, mat2, beta=beta, alpha=alpha, out=out)
        product = TABLE["mm"](mat1, mat2)
        return (input if beta == 1 else input * beta) + (product if alpha == 1 else product * alpha)

    return call


def _added(function, sign):
    def call(input, other, *, alpha=1, **kwargs):
        out = function(input, other, alpha=alpha, **kwargs)
        if not isinstance(input, SparseTensor):
            return _plus_sparse(input, other, out, sign * alpha)
        if not isinstance(other, SparseTensor):
            return out
        return also_dense(out, (input, lambda grad: grad), (other, lambda grad: grad * (sign * alpha)))

    return call


for _name, _rule in _RULES.items():
    TABLE[_name] = _handing_on(_name, TABLE[_name], _rule)
for _name in ("cat", "concat", "concatenate"):
    TABLE[_name] = _joined(TABLE[_name])
for _name in ("mul", "multiply", "__rmul__"):
    TABLE[_name] = _scaled(TABLE[_name], lambda grad, other: grad * other)
for _name in ("div", "divide", "true_divide"):
    TABLE[_name] = _scaled(TABLE[_name], lambda grad, other: grad / other)
for _name in ("mm", "matmul", "__matmul__", "mv"):
    TABLE[_name] = _multiplied(TABLE[_name], "Mm")
TABLE["addmm"] = _plus_product(TABLE["addmm"])
TABLE["add"] = _added(TABLE["add"], 1)
TABLE["sub"] = _added(TABLE["sub"], -1)
