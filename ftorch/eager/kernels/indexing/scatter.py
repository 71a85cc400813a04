"""Elements picked and written by index tensors along a dimension, and written into slices."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.dtype import from_numpy
from ...core.registry import Shape, op
from ...core.user_warnings import warn_once
from .._common import dtype_name, is_complex, is_integral, up, wrap_dim
from ..pointwise.unary import no_derivative
from ..reduction.reductions import put_along

# Indices are checked before a kernel runs wherever their values are at hand. Where they are not,
# XLA clamps what is read out of bounds and drops what is written there.
UNCHECKED = "promise_in_bounds"
WITHIN = {"mode": UNCHECKED, "wrap_negative_indices": False}  # of indices that are not negative


def not_implemented(kernel, x):
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_name(x.dtype)}'")


def number(value, x):
    """A scalar argument in the dtype of ``x``.

    Raises:
        RuntimeError: for a complex number where ``x`` is real.
    """
    value = jnp.asarray(value)
    if is_complex(value) and not is_complex(x) and x.dtype != np.bool_:
        name = from_numpy(x.dtype).cpp_name
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return value.astype(x.dtype)


_UNSIGNED = {np.dtype(f"i{size}"): np.dtype(f"u{size}") for size in (4, 8)}


def first_outside(index, low, high):
    """The first of the (NumPy) indices that is not in ``low <= index < high``, or None."""
    if 0 in index.strides:  # repeats: once
        index = index[tuple(slice(1 if step == 0 else None) for step in index.strides)]
    if not index.size:
        return None
    unsigned = _UNSIGNED.get(index.dtype) if low == 0 else None
    if unsigned is not None:  # a negative one is among the largest
        if np.maximum.reduce(index.view(unsigned), axis=None) < high:
            return None
    elif index.min() >= low and index.max() < high:
        return None
    return index[(index < low) | (index >= high)].flat[0]


def vector(x):
    return x.reshape(1) if x.ndim == 0 else x


def size_at(x, dim):
    return x.shape[dim] if x.ndim else 1


def _check_within(self: Shape, dim, index):
    dim = wrap_dim(dim, self.ndim)
    wrong = first_outside(index, 0, size_at(self, dim))
    if wrong is not None:
        raise RuntimeError(
            f"index {wrong} is out of bounds for dimension {dim} with size {size_at(self, dim)}"
        )


def bounds_within(self, dim, index):
    """What `_check_within` lets pass, see `OpDef.check`."""
    return [("index", 0, size_at(self, wrap_dim(dim, self.ndim)))]


# --- gather and scatter: one index per element ---------------------------------------


def _check_elementwise(name, x, index, dim, src=None, target="self"):
    """What gather and scatter ask of their arguments."""
    if index.size and index.dtype not in (np.int32, np.int64):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype != x.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if not index.size:
        return
    for other, role in ((x, target), (src, "src")):
        if other is not None and max(other.ndim, 1) != max(index.ndim, 1):
            raise RuntimeError(
                f"Index tensor must have the same number of dimensions as {role} tensor"
            )
    sizes, shape = vector(index).shape, vector(x).shape
    too_large = [d for d, n in enumerate(sizes) if d != dim and n > shape[d]]
    if target == "input":
        for d in too_large:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no "
                f"larger than self {list(x.shape)} apart from dimension {dim}"
            )
    small_src = src is not None and any(map(operator.gt, sizes, vector(src).shape))
    if too_large or small_src:
        and_src = f" and to be no larger size than src {list(src.shape)}" if src is not None else ""
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart "
            f"from dimension {dim}{and_src}"
        )


def _positions(index, dim):
    """Where ``scatter`` writes each element of its source."""
    return tuple(
        index if d == dim else lax.broadcasted_iota(index.dtype, index.shape, d)
        for d in range(index.ndim)
    )


def take_elements(x, dim, index):
    """``gather`` after its checks."""
    if not index.size:
        return jnp.zeros(index.shape, x.dtype)
    picked, array = vector(index), vector(x)
    array = array[tuple(
        slice(None) if d == dim else slice(n) for d, n in enumerate(picked.shape)
    )]
    return jnp.take_along_axis(array, picked, axis=dim, mode=UNCHECKED).reshape(index.shape)


def _scatter_with(method, x, dim, index, src):
    """Writes or reduces ``src`` (an array of the index's dimensions, or 0-d) into ``x``."""
    if not index.size:
        return x
    target, index_ = vector(x), vector(index)
    if src.ndim:
        src = vector(src)[tuple(slice(n) for n in index_.shape)]
    src = jnp.broadcast_to(src.astype(x.dtype), index_.shape)
    if all(d == dim or n == m for d, (n, m) in enumerate(zip(target.shape, index_.shape, strict=True))):
        result = put_along(method, target, index_, src, dim)
    else:
        result = getattr(target.at[_positions(index_, dim)], method)(src, **WITHIN)
    return result.reshape(x.shape)


@op("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    forms="function method out")
def gather(self, dim, index, sparse_grad):
    """The elements at an index for each place along a dimension (``torch.gather``).

    ``result[i][j] = input[index[i][j]][j]`` for dimension 0.

    Raises:
        RuntimeError: for indices out of range, or an index of other dimensions.

    >>> import ftorch as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    dim = wrap_dim(dim, self.ndim)
    _check_elementwise("gather", self, index, dim, target="input")
    return take_elements(self, dim, index)


@gather.derivative
def _(grad, *, self, dim, index):
    dim = wrap_dim(dim, self.ndim)
    zeros = jnp.zeros(self.shape, up(grad).dtype)
    return _scatter_with("add", zeros, dim, index, grad).astype(grad.dtype), None


def _gather_back(grad, dim, index, src, node):
    """The gradient of what ``scatter`` takes from its source.

    Raises:
        RuntimeError: for an index smaller than the source: what PyTorch's node returns has the index's sizes, and its
            engine refuses it (but for nothing taken of one element).
    """
    if index.shape == src.shape:
        return take_elements(grad, dim, index)
    if vector(index).shape != vector(src).shape and not _is_nothing_of_one(index, src):
        raise RuntimeError(
            f"Function {node}Backward0 returned an invalid gradient at index 1 - got {list(index.shape)} but "
            f"expected shape compatible with {list(src.shape)}"
        )
    return (
        jnp.zeros(src.shape, grad.dtype)
        if index.size == 0
        else take_elements(grad, dim, index).reshape(src.shape)
    )


def _is_nothing_of_one(index, src):
    return all(
        n == m or n == 1 and m == 0
        for n, m in zip(vector(src).shape, vector(index).shape, strict=True)
    )


def _zero_scattered(grad, dim, index):
    return _scatter_with("set", grad, dim, index, jnp.zeros((), grad.dtype))


_SCATTER_FORMS = "function method inplace out"


@op("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", forms=_SCATTER_FORMS)
def scatter(self, dim, index, src):
    """A copy with elements written at an index for each along a dimension (``torch.scatter``).

    ``result[index[i][j]][j] = src[i][j]`` for dimension 0. The source may be a number; ``reduce``
    ("add", "multiply") combines it with what is there.

    Raises:
        RuntimeError: for indices out of range, sizes that do not fit, or different dtypes.

    >>> import ftorch as torch
    >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), 5.0)
    tensor([[0., 5.],
            [5., 0.]])
    """
    dim = wrap_dim(dim, self.ndim)
    _check_elementwise("scatter", self, index, dim, src)
    return _scatter_with("set", self, dim, index, src)


scatter.changing("set elements")


@scatter.derivative
def _(grad, *, dim, index, src, needs):
    dim = wrap_dim(dim, grad.ndim)
    to_src = _gather_back(grad, dim, index, src, "Scatter") if needs[-1] else None
    return _zero_scattered(grad, dim, index), None, to_src


@op("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    forms=_SCATTER_FORMS)
def scatter_value(self, dim, index, value):
    dim = wrap_dim(dim, self.ndim)
    _check_elementwise("scatter", self, index, dim)
    return _scatter_with("set", self, dim, index, number(value, self))


scatter_value.changing("fill elements")


@scatter_value.derivative
def _(grad, *, dim, index):
    return _zero_scattered(grad, wrap_dim(dim, grad.ndim), index), None


# --- reductions into the target ------------------------------------------------------

# What to do with each element; for bool, addition is "or" and multiplication "and".
_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "max", "amin": "min"}
_BOOL_REDUCTIONS = {"sum": "max", "prod": "min", "amax": "max", "amin": "min"}


def _neutral(reduce, dtype):
    """What a reduction starts from where the target's own element does not count."""
    if reduce in ("sum", "mean", "prod"):
        return jnp.asarray(reduce == "prod", dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(-np.inf if reduce == "amax" else np.inf, dtype)
    if dtype == np.bool_:
        return jnp.asarray(reduce == "amin")
    limits = np.iinfo(dtype)
    return jnp.asarray(limits.min if reduce == "amax" else limits.max, dtype)


def _counts(index, dim, shape, include_self):
    """How many elements each element of a mean was made of (at least 1)."""
    counts = jnp.full(shape, int(include_self), np.int64)
    return jnp.maximum(_scatter_with("add", counts, dim, index, jnp.ones((), np.int64)), 1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _multiply_at(dim, x, index, src):
    """``x`` times the elements of ``src`` that meet it: JAX has no derivative where several do."""
    return _scatter_with("multiply", x, dim, index, src)


@_multiply_at.defjvp
def _(dim, primals, tangents):
    (x, index, src), (to_x, _, to_src) = primals, tangents
    result = _multiply_at(dim, x, index, src)
    others = _multiply_at(dim, jnp.ones_like(x), index, src)
    parts = to_src.astype(x.dtype) * _factors(dim, x, index, src.astype(x.dtype), result)
    return result, to_x * others + _scatter_with("add", jnp.zeros_like(x), dim, index, parts)


def _factors(dim, x, index, src, result):
    """What each element of ``src`` is multiplied with in the product that it goes to (0 for more than
    one zero)."""
    one, is_zero = jnp.ones((), x.dtype), src == 0
    zeros = _scatter_with("add", jnp.zeros(x.shape, np.int64), dim, index, is_zero)
    alone = is_zero & (take_elements(zeros, dim, index) == 1)
    without = _multiply_at(dim, x, index, jnp.where(alone, one, src))
    return jnp.where(
        alone, take_elements(without, dim, index),
        take_elements(result, dim, index) / jnp.where(is_zero, one, src),
    )


def reduce_at(x, dim, index, src, reduce, include_self):
    methods = _BOOL_REDUCTIONS if x.dtype == np.bool_ else _REDUCTIONS
    total = up(x)
    if not include_self:
        total = _scatter_with("set", total, dim, index, _neutral(reduce, total.dtype))
    if reduce == "prod" and not is_integral(total) and index.size:
        src = jnp.broadcast_to(_crop(src, index) if src.ndim else src, index.shape)
        total = _multiply_at(dim, total, index, src)
    else:
        total = _scatter_with(methods[reduce], total, dim, index, src)
    if reduce == "mean":
        counts = _counts(index, dim, x.shape, include_self)
        if is_integral(x):
            total = jnp.floor_divide(total, counts.astype(total.dtype))
        else:
            total = total / counts.astype(total.dtype)
    return total.astype(x.dtype)


def reduce_at_backward(grad, x, dim, index, src, reduce, include_self, result, needs):
    """(gradient of the target, gradient of the source) of a reduction, as PyTorch defines them.

    Ties of a maximum share the gradient evenly; products with one zero are differentiated exactly.

    Raises:
        RuntimeError: for an index smaller than the source.
    """
    if reduce in ("sum", "mean"):
        back = functools.partial(_gather_back, dim=dim, index=index, src=src, node="ScatterReduce")
    else:
        for d in reversed(range(vector(src).ndim)):
            n, m = vector(src).shape[d], vector(index).shape[d]
            if n != m and 1 not in (n, m):
                raise RuntimeError(
                    f"The size of tensor a ({n}) must match the size of tensor b ({m}) at "
                    f"non-singleton dimension {d}"
                )
    if reduce == "sum":
        to_self, to_src = grad, back(grad) if needs[-1] else None
    elif reduce == "mean":
        share = grad / _counts(index, dim, grad.shape, include_self).astype(up(grad).dtype)
        share = share.astype(grad.dtype)
        to_self, to_src = share, back(share) if needs[-1] else None
    elif reduce == "prod":
        to_self, to_src = _product_backward(grad, x, dim, index, src, include_self, result)
    else:
        at_self = (x == result).astype(np.int64)
        at_src = _crop(src, index) == take_elements(result, dim, index)
        ties = _scatter_with("add", at_self, dim, index, at_src)
        share = grad / jnp.maximum(ties, 1).astype(grad.dtype)
        to_self = share * at_self.astype(grad.dtype)
        used = jnp.pad(vector(at_src), _margins(src, index)).reshape(src.shape)
        picked = jnp.pad(vector(take_elements(share, dim, index)), _margins(src, index)).reshape(
            src.shape
        )
        to_src = picked * used.astype(grad.dtype)
    if not include_self:
        to_self = _zero_scattered(to_self, dim, index)
    return to_self, None, to_src


def _margins(src, index):
    return [(0, n - m) for n, m in zip(vector(src).shape, vector(index).shape, strict=True)]


def _crop(src, index):
    return vector(src)[tuple(slice(n) for n in vector(index).shape)].reshape(index.shape)


def _product_backward(grad, x, dim, index, src, include_self, result):
    start = up(x) if include_self else _scatter_with("set", up(x), dim, index, jnp.ones((), up(x).dtype))
    cropped = _crop(src, index).astype(start.dtype)
    others = _multiply_at(dim, jnp.ones_like(start), index, cropped)
    factors = _factors(dim, start, index, cropped, result.astype(start.dtype))
    to_src = (take_elements(grad, dim, index) * factors.conj()).astype(grad.dtype)
    to_self = (grad * others.conj()).astype(grad.dtype)
    return to_self, jnp.pad(vector(to_src), _margins(src, index)).reshape(src.shape)


def check_reduction(kernel, x, reduce):
    """Raises PyTorch's error, in the name of its kernel, where a dtype cannot be reduced so."""
    if reduce == "mean" and x.dtype == np.bool_ or reduce in ("amax", "amin") and is_complex(x):
        raise not_implemented(kernel, x)


@op("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", forms=_SCATTER_FORMS)
def scatter_add(self, dim, index, src):
    """Like `scatter`, adding to what is there (``torch.scatter_add``).

    >>> import ftorch as torch
    >>> torch.zeros(2).scatter_add(0, torch.tensor([1, 1]), torch.tensor([2., 3.]))
    tensor([0., 5.])
    """
    dim = wrap_dim(dim, self.ndim)
    _check_elementwise("scatter", self, index, dim, src)
    return reduce_at(self, dim, index, src, "sum", True)


scatter_add.changing("add elements")


@scatter_add.derivative
def _(grad, *, dim, index, src, needs):
    return (
        grad,
        None,
        _gather_back(grad, wrap_dim(dim, grad.ndim), index, src, "ScatterAdd")
        if needs[-1]
        else None,
    )


_SHORT = {"max": "amax", "min": "amin"}  # what ATen understands besides


@op("scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, "
    "bool include_self=True) -> Tensor", forms=_SCATTER_FORMS)
def scatter_reduce(self, dim, index, src, reduce, include_self):
    """Like `scatter`, combining with "sum", "prod", "mean", "amax" or "amin".

    Args:
        include_self: whether the elements of ``input`` themselves count.

    >>> import ftorch as torch
    >>> x, index, src = torch.ones(2), torch.tensor([1, 1]), torch.tensor([2., 4.])
    >>> torch.scatter_reduce(x, 0, index, src, "mean", include_self=False)
    tensor([1., 3.])
    """
    dim = wrap_dim(dim, self.ndim)
    _check_elementwise("scatter", self, index, dim, src)
    name, reduce = reduce, _SHORT.get(reduce, reduce)
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {name}"
        )
    check_reduction(f"scatter_gather_tensor_cpu_reduce_{reduce}", self, reduce)
    return reduce_at(self, dim, index, src, reduce, include_self)


@scatter_reduce.derivative
def _(grad, *, self, dim, index, src, reduce, include_self, result, needs):
    dim = wrap_dim(dim, self.ndim)
    return reduce_at_backward(
        grad, self, dim, index, src, _SHORT.get(reduce, reduce), include_self, result, needs
    )


_OLD_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def _old_reduce(x, dim, index, src, reduce):
    if reduce not in _OLD_REDUCTIONS:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return reduce_at(x, dim, index, src, _OLD_REDUCTIONS[reduce], include_self=True)


@op("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    forms=_SCATTER_FORMS)
def scatter_src_reduce(self, dim, index, src, reduce):
    warn_once(
        "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch "
        "release. Use torch.scatter_reduce instead for more reduction options."
    )
    dim = wrap_dim(dim, self.ndim)
    _check_elementwise("scatter", self, index, dim, src)
    return _old_reduce(self, dim, index, src, reduce)


scatter_src_reduce.derivative(no_derivative("scatter"))


@op("scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) "
    "-> Tensor", forms=_SCATTER_FORMS)
def scatter_value_reduce(self, dim, index, value, reduce):
    dim = wrap_dim(dim, self.ndim)
    _check_elementwise("scatter", self, index, dim)
    return _old_reduce(self, dim, index, number(value, self), reduce)


scatter_value_reduce.derivative(no_derivative("scatter"))


for _kernel in (gather, scatter, scatter_value, scatter_add, scatter_reduce, scatter_src_reduce,
                scatter_value_reduce):
    _kernel.check(_check_within, passes=bounds_within)
    _kernel.overlap(exclusive=_kernel is not gather)
