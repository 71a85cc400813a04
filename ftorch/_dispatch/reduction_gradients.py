"""Gradients of reductions, products and softmax."""

from __future__ import annotations

import math

from ..eager.core import api
from ..eager.core.dtype import finfo, int64
from .gradient_rules import Missing, aten_op, number_like, options_of, product_reversed, rule

# --- reductions ------------------------------------------------------------------------------------


def _dims(saved, name="dim"):
    definition = saved.plan.op.definition
    dim = saved[name] if name in definition.argument_names else None
    rank = len(saved.shape())
    if dim is None:
        return ()
    return tuple(sorted(d % rank for d in ((dim,) if isinstance(dim, int) else dim))) if rank else ()


def _keeps(saved):
    return "keepdim" in saved.plan.op.definition.argument_names and saved["keepdim"]


def _restored(saved, x, dims):
    """A reduced tensor with its dimensions as ones."""
    if not _keeps(saved):
        for d in dims:
            x = x.unsqueeze(d)
    return x


@rule("sum")
def _sum(saved, grad, _):
    dims = _dims(saved)
    return _restored(saved, grad, dims).expand(saved.shape())


@rule("mean")
def _mean(saved, grad, _):
    dims = _dims(saved)
    shape = saved.shape()
    count = math.prod(shape[d] for d in dims) if dims else math.prod(shape)
    return _restored(saved, grad, dims).expand(shape) / count


@rule("amax amin")
def _amax(saved, grad, _):
    dims, x = _dims(saved), saved.tensor(0)
    whole_shape = [1 if d in (dims or range(x.dim())) else n for d, n in enumerate(x.shape)]
    keeps = _keeps(saved)
    y = saved.result() if keeps else saved.result().view(whole_shape)
    hit = y == x
    grad = grad if keeps else grad.view(whole_shape)
    return grad / hit.sum(list(dims) or None, keepdim=True) * hit


@rule("max min median kthvalue sort topk cummax_ mode")
def _chosen(saved, grad, _):
    """Of what a reduction chooses, the place is told."""
    shape = saved.shape()
    if len(saved.plan.geometries) == 1:
        return _evenly(saved, grad)
    places, name = saved.result(1), saved.plan.op.definition.name
    dim = saved["dim"]
    if name not in ("sort", "topk") and not saved["keepdim"] and shape:
        grad, places = grad.unsqueeze(dim), places.unsqueeze(dim)
    zeros = aten_op("new_zeros")(grad, shape)
    return api.scatter(zeros, dim, places, grad)


def _evenly(saved, grad):
    """Of equal extrema each has its share."""
    x, y = saved.tensor(0), saved.result()
    unknown = x.isnan().logical_and(y.isnan())
    hit = (x == y).logical_or_(unknown)
    return hit * (grad / hit.sum())


def _deviations(saved, grad):
    x, dims = saved.tensor(0), _dims(saved)
    shape = saved.shape()
    names = saved.plan.op.definition.argument_names
    correction = saved["correction"] if "correction" in names else int(saved["unbiased"])
    correction = 1 if correction is None else correction
    count = math.prod(shape[d] for d in dims) if dims else math.prod(shape)
    if count <= correction:
        raise Missing
    factor = 2.0 / (count - correction)
    if not dims:
        return product_reversed(x - x.mean(), lambda: grad * factor)
    grad = _restored(saved, grad, dims)
    return product_reversed(x - x.mean(list(dims), keepdim=True), lambda: grad * factor)


@rule("var")
def _var(saved, grad, _):
    return _deviations(saved, grad)


@rule("std")
def _std(saved, grad, _):
    y = saved.result()
    return _deviations(saved, (grad / (y * 2)).masked_fill_(y == 0, 0))


@rule("linalg_vector_norm norm")
def _norm(saved, grad, _):
    names = saved.plan.op.definition.argument_names
    order = saved["ord" if "ord" in names else "p"]
    if order not in (2, 2.0, None):
        raise Missing
    x, dims = saved.tensor(0), _dims(saved)
    grad, y = (_restored(saved, t, dims) for t in (grad, saved.result()))
    return grad * (x / y).masked_fill_(y == 0, 0)


@rule("logsumexp")
def _logsumexp(saved, grad, _):
    dims = _dims(saved)
    grad, y = (_restored(saved, t, dims) for t in (grad, saved.result()))
    return grad * (saved.tensor(0) - y).exp()


@rule("cumsum")
def _cumsum(saved, grad, _):
    dim = saved["dim"]
    return grad.flip(dim).cumsum(dim).flip(dim) if saved.shape() and saved.shape()[dim] > 1 else grad


@rule("trace")
def _trace(saved, grad, _):
    rows, columns = saved.shape()
    zeros = aten_op("zeros")([rows * columns], **options_of(grad))
    count = min(rows, columns)
    places = aten_op("arange", "start_step")(0, count * (columns + 1), columns + 1, **{**options_of(grad), "dtype": int64})
    return aten_op("index_fill", "int_Tensor")(zeros, 0, places, grad).view([rows, columns])


@rule("nansum")
def _nansum(saved, grad, _):
    known = saved.tensor(0).isnan().logical_not()
    return _sum(saved, grad, _) * known


@rule("prod")
def _prod(saved, grad, _):
    """The products of what stands before and after each element, which has no need to look for zeros."""
    shape, names = saved.shape(), saved.plan.op.definition.argument_names
    if not shape:
        return aten_op("clone")(grad)
    x = saved.tensor(0)
    if "dim" not in names:
        return _products_of_others(grad, x.view([-1]), 0).view(shape)
    dim = saved["dim"] % len(shape)
    if not saved["keepdim"] and len(shape) != 1:
        grad = grad.unsqueeze(dim)
    return _products_of_others(grad, x, dim)


def _products_of_others(grad, x, dim):
    n = x.shape[dim]
    if n == 1:
        return grad
    ones = aten_op("ones")([1 if d == dim else m for d, m in enumerate(x.shape)], **options_of(grad))
    before = api.cat([ones, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = api.cat([ones, x.narrow(dim, 1, n - 1).flip([dim])], dim).cumprod(dim).flip([dim])
    return grad * (before * after)


@rule("logcumsumexp")
def _logcumsumexp(saved, grad, _):
    dim, x, y = saved["dim"], saved.tensor(0), saved.result()
    if not saved.shape():
        return grad
    least = number_like(finfo(grad.dtype).min, grad)
    size = grad.abs().log()
    parts = [api.where(grad > 0, size, least), api.where(grad < 0, size, least)]
    sums = [(api.logcumsumexp((part - y).flip([dim]), dim).flip([dim]) + x).exp() for part in parts]
    return sums[0] - sums[1]


# --- products ------------------------------------------------------------------------------------


@rule("mm")
def _mm(saved, grad, index):
    return _product_gradient(grad, saved.tensor(1 - index), saved.plan.inputs[index], index == 0)


def _product_gradient(grad, other, g, is_first):
    """The gradient of a matrix in a product, laid out as it: by columns, if it lies so."""
    if g.stride[0] == 1 and g.stride[1] == g.shape[0]:
        turned = grad.t()
        return (other.mm(turned) if is_first else turned.mm(other)).t()
    return grad.mm(other.t()) if is_first else other.t().mm(grad)


@rule("matmul")
def _matmul(saved, grad, index):
    x, y = saved.plan.inputs
    other = saved.tensor(1 - index)
    if x.ndim == y.ndim == 1:
        return grad * other
    if y.ndim == 1:
        return grad.unsqueeze(-1) * other if index == 0 else _rows(other).t().mv(grad.reshape(-1))
    if x.ndim == 1:
        return other.matmul(grad.unsqueeze(-1)).squeeze(-1) if index == 0 else other.unsqueeze(-1) * grad.unsqueeze(-2)
    if index == 0:
        return grad.matmul(other.transpose(-2, -1))
    return _rows(other).t().mm(_rows(grad)) if y.ndim == 2 else other.transpose(-2, -1).matmul(grad)


@rule("linear")
def _linear(saved, grad, index):
    if saved.plan.inputs[saved.place("weight")].ndim != 2:
        raise Missing
    if index == saved.place("input"):
        return grad.matmul(saved["weight"])
    return _rows(grad).t().mm(_rows(saved["input"])) if index == saved.place("weight") else grad


def _rows(x):
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


@rule("addmm")
def _addmm(saved, grad, index):
    if len(saved.plan.inputs) != 3 or any(n != 1 for n in saved.numbers):
        raise Missing
    if index == 0:
        return grad
    return _product_gradient(grad, saved.tensor(3 - index), saved.plan.inputs[index], index == 1)


@rule("bmm")
def _bmm(saved, grad, index):
    other = saved.tensor(1 - index).transpose(1, 2)
    return grad.bmm(other) if index == 0 else other.bmm(grad)


@rule("baddbmm")
def _baddbmm(saved, grad, index):
    if len(saved.plan.inputs) != 3 or any(n != 1 for n in saved.numbers):
        raise Missing
    if index == 0:
        return grad
    other = saved.tensor(3 - index).transpose(1, 2)
    return grad.bmm(other) if index == 1 else other.bmm(grad)


@rule("mv")
def _mv(saved, grad, index):
    return grad.outer(saved.tensor(1)) if index == 0 else saved.tensor(0).t().mv(grad)


@rule("dot")
def _dot(saved, grad, index):
    return grad * saved.tensor(1 - index)


@rule("_safe_softmax")
def _safe_softmax(saved, grad, _):
    return aten_op("_softmax_backward_data")(grad, saved.result(), saved["dim"], grad.dtype)


@rule("softmax log_softmax")
def _softmax(saved, grad, _):
    y = saved.result()
    if y.dtype is not grad.dtype or y.dtype is not saved.plan.inputs[0].dtype:
        raise Missing
    kind = saved.plan.op.definition.name
    return aten_op(f"_{kind}_backward_data")(grad, y, saved["dim"], grad.dtype)
