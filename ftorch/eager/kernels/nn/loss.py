"""Losses that are element by element, or compare pairs and triples of vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ...core.registry import Shape, op
from .._common import (
    as_common,
    broadcast_shapes,
    default_float,
    difference,
    dtype_name,
    is_complex,
    is_floating,
    is_integral,
    opmath,
    refuse_bool_difference,
    refuse_cast,
    up,
)
from ..indexing.scatter import first_outside
from ..pointwise.unary import neg
from ._windows import check_reduction, legacy_notice, legacy_reduction, reduce_loss, sizes

_LEGACY = "bool? size_average=None, bool? reduce=None, str reduction='mean'"
_PLACE = {"public": "nn.functional"}


def _positive_part(x):
    """``x`` clamped below at 0; as in PyTorch the gradient passes at 0."""
    if is_complex(x):
        raise NotImplementedError("clamp is not supported for complex types")
    return jnp.where(x < 0, jnp.zeros((), x.dtype), x)


def _differing_sizes(input, target):
    if input.shape == target.shape:
        return None
    return (
        f"Using a target size (torch.Size({sizes(target.shape)})) that is different to the "
        f"input size (torch.Size({sizes(input.shape)})). This will likely lead to incorrect "
        "results due to broadcasting. Please ensure they have the same size."
    )


def _check_same_shape(a, b):
    """Shapes must broadcast; the words are those of PyTorch's TensorIterator."""
    broadcast_shapes(a.shape, b.shape)


# --- regression --------------------------------------------------------------------------


def _check_regression(kernel_name, x):
    if not is_floating(x):
        raise NotImplementedError(f"\"{kernel_name}\" not implemented for '{dtype_name(x.dtype)}'")


def _weighted(loss, input, weight, reduction):
    """A loss reduced, or with weights: their weighted sum, over the sum of the weights."""
    check_reduction(reduction)
    if weight is None:
        return reduce_loss(loss, reduction, input.dtype)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    weight = weight.astype(loss.dtype)
    loss = loss * weight
    if reduction == "mean":
        return (loss.sum(dtype=loss.dtype) / weight.sum(dtype=loss.dtype)).astype(input.dtype)
    return reduce_loss(loss, reduction, input.dtype)


@op(f"mse_loss(Tensor input, Tensor target, {_LEGACY}, Tensor? weight=None) -> Tensor",
    promote="common", **_PLACE)
def mse_loss(input, target, size_average, reduce, reduction, weight):
    """Squared error."""
    _check_same_shape(input, target)
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    _check_regression("mse_cpu", input)
    difference = up(input) - up(target)
    return _weighted(difference * difference, input, weight, reduction)


@op(f"l1_loss(Tensor input, Tensor target, {_LEGACY}, Tensor? weight=None) -> Tensor",
    promote="common", **_PLACE)
def l1_loss(input, target, size_average, reduce, reduction, weight):
    """Absolute error."""
    _check_same_shape(input, target)
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    loss = _absolute(difference(up(input), up(target)))
    if weight is not None:
        return _weighted(loss, loss.astype(_real(input.dtype)), weight, reduction)
    if reduction == "sum" and is_integral(loss):
        return loss.sum(dtype=jnp.int64)
    return reduce_loss(loss, reduction, _real(input.dtype))


@l1_loss.dtypes
def _(input, target):
    refuse_bool_difference(input.name == "bool", target.name == "bool")


def _real(dtype):
    return np.zeros((), dtype).real.dtype


def _absolute(x):
    """``abs`` whose gradient at 0 is 0 for complex numbers too."""
    if not is_complex(x):
        return jnp.abs(x)
    zero = x == 0
    return jnp.where(zero, 0, jnp.abs(jnp.where(zero, jnp.ones((), x.dtype), x)))


@op(f"smooth_l1_loss(Tensor input, Tensor target, {_LEGACY}, float beta=1.0) -> Tensor",
    promote="common", **_PLACE)
def smooth_l1_loss(input, target, size_average, reduce, reduction, beta):
    """Squared error below ``beta``, absolute error above."""
    _check_same_shape(input, target)
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    _check_regression("smooth_l1_cpu", input)
    difference = up(input) - up(target)
    size = jnp.abs(difference)
    if beta:
        size = jnp.where(size < beta, 0.5 * difference * difference / beta, size - 0.5 * beta)
    return reduce_loss(size, reduction, input.dtype)


@op("huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, "
    "Tensor? weight=None) -> Tensor", **_PLACE)
def huber_loss(input, target, reduction, delta, weight):
    """Squared error below ``delta``, ``delta`` times the absolute error above.

    The result has the dtype of ``input``, as PyTorch's has.
    """
    _check_same_shape(input, target)
    check_reduction(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if is_integral(input) and is_floating(target):
        refuse_cast(target.dtype, input.dtype)
    if is_complex(target) and not is_complex(input):
        refuse_cast(jnp.promote_types(input.dtype, target.dtype), input.dtype)
    _check_regression("huber_cpu", input)
    precise = jnp.promote_types(up(input).dtype, up(target).dtype)
    difference = input.astype(precise) - target.astype(precise)
    size = jnp.abs(difference)
    loss = jnp.where(size < delta, 0.5 * difference * difference, delta * (size - 0.5 * delta))
    if weight is not None:  # unlike the other losses, the mean is one over all elements
        if weight.shape != input.shape:
            raise ValueError("Weights and input must have the same size.")
        loss = loss * weight.astype(loss.dtype)
    return reduce_loss(loss, reduction, input.dtype)


for _loss in (mse_loss, l1_loss, smooth_l1_loss, huber_loss):
    _loss.notice(_differing_sizes)


# --- likelihoods -------------------------------------------------------------------------


def _check_bce(input, target, weight):
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size (torch.Size({sizes(target.shape)})) that is different to the "
            f"input size (torch.Size({sizes(input.shape)})) is deprecated. Please ensure they have "
            "the same size."
        )
    if weight is not None:
        for i in range(1, weight.ndim + 1):
            if i > input.ndim or weight.shape[-i] not in (1, input.shape[-i]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {weight.shape[-i]} at -{i}! "
                    f"Mismatching argument at index 1 had torch.Size({sizes(weight.shape)}); but "
                    f"expected shape should be broadcastable to {sizes(input.shape)}"
                )
    if target.dtype != input.dtype:
        have, want = dtype_name(target.dtype), dtype_name(input.dtype)
        raise RuntimeError(f"Found dtype {have} but expected {want}")
    _check_regression("binary_cross_entropy", input)


@op(f"binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, {_LEGACY}) -> Tensor",
    **_PLACE)
def binary_cross_entropy(input, target, weight, size_average, reduce, reduction):
    """Cross entropy of probabilities of a binary outcome; logarithms are cut off at -100."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    _check_bce(input, target, weight)
    x, t = up(input), up(target)
    loss = (t - 1) * jnp.maximum(jnp.log1p(-x), -100) - t * jnp.maximum(jnp.log(x), -100)
    return reduce_loss(_times(loss, weight), reduction, input.dtype)


@binary_cross_entropy.check
def _(input):
    if not ((input >= 0) & (input <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")


@binary_cross_entropy.check
def _(target):
    if not ((target >= 0) & (target <= 1)).all():
        raise RuntimeError("all elements of target should be between 0 and 1")


def _times(loss, weight):
    return loss if weight is None else loss * weight.astype(loss.dtype)


def _spread(grad, shape, reduction):
    """The gradient of a reduction for each element that it reduced."""
    grad = up(grad)
    if reduction == "mean":
        grad = grad / np.asarray(max(int(np.prod(shape)), 1), grad.dtype)
    return jnp.broadcast_to(grad, shape)


@binary_cross_entropy.derivative
def _(grad, input, target, weight, size_average, reduce, reduction):
    reduction = legacy_reduction(reduction, size_average, reduce)
    x, t = up(input), up(target)
    grad = _times(_spread(grad, x.shape, reduction), weight)
    d_input = grad * (x - t) / jnp.maximum((1 - x) * x, 1e-12)
    d_target = grad * (jnp.log1p(-x) - jnp.log(x))
    return d_input, d_target, None


def _require_same_size(input, target):
    if input.shape != target.shape:
        raise ValueError(
            f"Target size (torch.Size({sizes(target.shape)})) must be the same as input size "
            f"(torch.Size({sizes(input.shape)}))"
        )


@op("binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, "
    f"{_LEGACY}, Tensor? pos_weight=None) -> Tensor", **_PLACE)
def binary_cross_entropy_with_logits(input, target, weight, size_average, reduce, reduction,
                                     pos_weight):
    """Cross entropy of a binary outcome whose log odds are given.

    The result has the dtype of ``target``, as PyTorch's has.
    """
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    _require_same_size(input, target)
    if not is_floating(input):
        raise NotImplementedError(
            f"\"log_sigmoid_cpu\" not implemented for '{dtype_name(input.dtype)}'"
        )
    refuse_bool_difference(target.dtype == np.bool_, target.dtype == np.bool_)
    if is_integral(target):
        refuse_cast(input.dtype, target.dtype)
    result = target.dtype if is_floating(target) else np.result_type(input.dtype, target.dtype)
    input, target = as_common(input, target)
    x, t = up(input), up(target)
    softplus = -jax.nn.log_sigmoid(x)
    if pos_weight is not None:
        _check_same_shape(pos_weight, target)
        softplus = softplus * ((pos_weight.astype(x.dtype) - 1) * t + 1)
    loss = (1 - t) * x + softplus
    if weight is not None:
        _check_same_shape(loss, weight)
    return reduce_loss(_times(loss, weight), reduction, result)


binary_cross_entropy_with_logits.notice(_require_same_size)  # before the operands are broadcast


def _xlogy(x, y):
    """``x log y``, 0 where ``x`` is 0, with a gradient that is finite there."""
    safe = jnp.where(x == 0, jnp.ones((), y.dtype), y)
    return jnp.where(x == 0, jnp.zeros((), x.dtype), x * jnp.log(safe))


@op(f"kl_div(Tensor input, Tensor target, {_LEGACY}, bool log_target=False) -> Tensor",
    promote="common", **_PLACE)
def kl_div(input, target, size_average, reduce, reduction, log_target):
    """Kullback-Leibler divergence of log probabilities ``input`` from ``target``, pointwise."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    batchmean = reduction == "batchmean"
    check_reduction("sum" if batchmean else reduction)
    if is_complex(input):
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if is_integral(input):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    x, t = up(input), up(target)
    loss = jnp.exp(t) * (t - x) if log_target else _xlogy(t, t) - t * x
    if batchmean:
        total = reduce_loss(loss, "sum")
        samples = input.shape[0] if input.ndim else 1
        return (total / np.asarray(samples, total.dtype)).astype(input.dtype)
    return reduce_loss(loss, reduction, input.dtype)


@kl_div.dtypes
def _(input, target):
    if not (input.is_complex or target.is_complex) and not (input.is_floating_point and target.is_floating_point):
        raise RuntimeError("kl_div: Integral inputs not supported.")


@kl_div.notice
def _(size_average, reduce, reduction):
    if legacy_reduction(reduction, size_average, reduce) != "mean":
        return None
    return (
        "reduction: 'mean' divides the total loss by both the batch size and the support size."
        "'batchmean' divides only by the batch size, and aligns with the KL div math definition.'mean' will be "
        "changed to behave the same as 'batchmean' in the next major release."
    )


@op("poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, "
    "bool? size_average=None, float eps=1e-08, bool? reduce=None, str reduction='mean') -> Tensor",
    promote="float", **_PLACE)
def poisson_nll_loss(input, target, log_input, full, size_average, eps, reduce, reduction):
    """Negative log likelihood of counts under a Poisson distribution."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    x, t = up(input), up(target)
    loss = jnp.exp(x) - t * x if log_input else x - t * jnp.log(x + eps)
    if full:  # Stirling's approximation of log(target!)
        positive = jnp.where(t > 1, t, jnp.ones((), t.dtype))
        stirling = positive * jnp.log(positive) - positive + 0.5 * jnp.log(2 * np.pi * positive)
        loss = loss + jnp.where(t > 1, stirling, jnp.zeros((), t.dtype))
    return reduce_loss(loss, reduction, input.dtype)


# --- margins -----------------------------------------------------------------------------


@op(f"hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, {_LEGACY}) -> Tensor", **_PLACE)
def hinge_embedding_loss(input, target, margin, size_average, reduce, reduction):
    """The distance for similar pairs (target 1), what it lacks to ``margin`` for others (-1)."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    refuse_bool_difference(input.dtype == np.bool_, input.dtype == np.bool_)
    x, t = up(input), target
    zero = jnp.zeros((), x.dtype)
    loss = jnp.where(t != 1, _positive_part(margin - x), zero) + jnp.where(t != -1, x, zero)
    if not is_integral(input):
        return reduce_loss(loss, reduction, input.dtype)
    return reduce_loss(loss.astype(input.dtype), reduction, jnp.int64 if reduction == "sum" else input.dtype)


@op("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, "
    f"{_LEGACY}) -> Tensor", **_PLACE)
def margin_ranking_loss(input1, input2, target, margin, size_average, reduce, reduction):
    """How far ``input1`` is from outranking ``input2`` (target 1; -1 the other way) by a margin."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: torch.Size({sizes(input1.shape)}), input2: torch.Size({sizes(input2.shape)}),"
            f" target: torch.Size({sizes(target.shape)}) "
        )
    ahead = difference(input1, input2)
    ahead, sign = as_common(ahead, neg(target))
    dtype = default_float() if is_integral(ahead) else ahead.dtype
    loss = (up(sign) * up(ahead)).astype(opmath(dtype)) + margin
    return reduce_loss(_positive_part(loss), reduction, dtype)


@op(f"soft_margin_loss(Tensor input, Tensor target, {_LEGACY}) -> Tensor", **_PLACE)
def soft_margin_loss(input, target, size_average, reduce, reduction):
    """``log(1 + exp(-target * input))``, of the dtype of ``input``."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    result = input.dtype
    input, target = as_common(neg(input), target)  # which does not negate booleans
    if is_complex(input) and not np.issubdtype(result, np.complexfloating):
        refuse_cast(input.dtype, result)
    if not is_complex(input) and not jnp.issubdtype(result, jnp.floating):
        refuse_cast(default_float() if is_integral(input) else input.dtype, result)
    loss = -jax.nn.log_sigmoid(-up(input) * up(target))
    return reduce_loss(loss, reduction, result)


def _check_vectors(x):
    """A loss over classes takes (C,) or (N, C); N may be 0."""
    if x.ndim > 2 or (x.ndim and x.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{sizes(x.shape)}"
        )


@op("multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, "
    f"Tensor? weight=None, {_LEGACY}) -> Tensor", **_PLACE)
def multi_margin_loss(input, target, p, margin, weight, size_average, reduce, reduction):
    """Hinge loss of every class against the target class."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    _check_multi_margin(input, target, weight)
    x = up(input).reshape(-1 if input.ndim < 2 else input.shape[0], max(input.shape[-1:] or (1,)))
    index = target.reshape(-1, 1)
    z = margin - jnp.take_along_axis(x, index, 1, mode="clip") + x
    z = jnp.where(z > 0, z, jnp.zeros((), z.dtype)) ** p
    if weight is not None:
        z = z * jnp.take(weight.astype(z.dtype), index, mode="clip")
    z = jnp.where(index == jnp.arange(x.shape[1]), jnp.zeros((), z.dtype), z)
    loss = z.sum(1, dtype=z.dtype) / np.asarray(x.shape[1], z.dtype)
    return reduce_loss(loss.reshape(target.shape), reduction, input.dtype)


def _check_multi_margin(input, target, weight):
    _check_vectors(input)
    samples = input.shape[0] if input.ndim == 2 else 1
    classes = input.shape[-1] if input.ndim else 1
    if target.ndim > 1 or target.size != samples:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{samples}], but got "
            f"{sizes(target.shape)}. Input has shape {sizes(input.shape)}."
        )
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {sizes(weight.shape)}"
        )
    _check_long(target)


def _check_long(target):
    if target.dtype != jnp.int64:
        raise RuntimeError(f"expected scalar type Long but found {dtype_name(target.dtype)}")


@multi_margin_loss.check
def _(input: Shape, target):
    classes = input.shape[-1] if input.ndim else 1
    if target.dtype == np.int64 and first_outside(target, 0, classes) is not None:
        raise RuntimeError("target out of range")


@op(f"multilabel_margin_loss(Tensor input, Tensor target, {_LEGACY}) -> Tensor",
    **_PLACE)
def multilabel_margin_loss(input, target, size_average, reduce, reduction):
    """Hinge loss of every class against all target classes, which end at the first -1."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    _check_vectors(input)
    if target.shape != input.shape and not (input.ndim < 2 and target.size == input.size):
        raise RuntimeError(
            f"inconsistent target size: {sizes(target.shape)} for input of size: "
            f"{sizes(input.shape)}"
        )
    _check_long(target)
    shape = input.shape[:-1] if input.ndim == 2 else ()
    classes = input.shape[-1] if input.ndim else 1
    x, t = up(input).reshape(-1, classes), target.reshape(-1, classes)
    given = jnp.cumprod((t >= 0).astype(jnp.int32), 1).astype(bool)
    hits = given[:, :, None] & (t[:, :, None] == jnp.arange(classes))
    is_target = hits.any(1)
    own = jnp.take_along_axis(x, t, 1, mode="clip")
    z = 1 - own[:, :, None] + x[:, None, :]
    z = jnp.where((z > 0) & given[:, :, None] & ~is_target[:, None, :], z, jnp.zeros((), z.dtype))
    loss = z.sum((1, 2), dtype=z.dtype) / np.asarray(classes, z.dtype)
    return reduce_loss(loss.reshape(shape), reduction, input.dtype)


@multilabel_margin_loss.check
def _(input: Shape, target):
    classes = input.shape[-1] if input.ndim else 1
    if target.dtype == np.int64 and first_outside(target, -1, classes) is not None:
        raise RuntimeError("argument #2 'target' is out of range")


@op("multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, "
    f"{_LEGACY}) -> Tensor", promote="common", promoting="input target", **_PLACE)
def multilabel_soft_margin_loss(input, target, weight, size_average, reduce, reduction):
    """Binary cross entropy with logits, averaged over the classes."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    x, t = up(input), up(target)
    loss = -(t * jax.nn.log_sigmoid(x) + (1 - t) * jax.nn.log_sigmoid(-x))
    if weight is not None:
        _check_same_shape(loss, weight)
    loss = _times(loss, weight)
    if loss.ndim:
        loss = loss.sum(-1, dtype=loss.dtype) / np.asarray(loss.shape[-1], loss.dtype)
    return reduce_loss(loss, reduction, input.dtype)


# --- pairs and triples of vectors --------------------------------------------------------


@op("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, "
    f"{_LEGACY}) -> Tensor", **_PLACE)
def cosine_embedding_loss(input1, input2, target, margin, size_average, reduce, reduction):
    """One minus the cosine for similar pairs (target 1), its excess over a margin for others."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    if target.ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    ndim = target.ndim + 1
    if input1.ndim != ndim or input2.ndim != ndim:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {ndim}D input tensors, but found inputs with "
            f"sizes {sizes(input1.shape)} and {sizes(input2.shape)}."
        )
    _check_same_shape(input1, input2)
    dtype = jnp.promote_types(input1.dtype, input2.dtype)
    a, b = (x.astype(dtype) if is_floating(x) else x.astype(jnp.float32) for x in (input1, input2))
    a, b = up(a), up(b)
    dot, norm1, norm2 = ((u * v).sum(-1, dtype=a.dtype) for u, v in ((a, b), (a, a), (b, b)))
    cosine = dot / jnp.sqrt((norm1 + 1e-12) * (norm2 + 1e-12))
    _check_same_shape(target, cosine)
    zero = jnp.zeros((), cosine.dtype)
    loss = jnp.where(target == 1, 1 - cosine, zero)
    loss = loss + jnp.where(target == -1, _positive_part(cosine - margin), zero)
    return reduce_loss(loss, reduction, dtype if jnp.issubdtype(dtype, jnp.floating) else None)


def _distance(a, b, p, eps):
    """The p-norm of ``a - b + eps`` over the last dimension."""
    difference = a - b
    if is_integral(difference):
        difference = difference.astype(default_float())
    difference = jnp.abs(difference + np.asarray(eps, difference.dtype))
    if p == np.inf:
        return difference.max(-1)
    if p == 0:
        return (difference != 0).sum(-1).astype(difference.dtype)
    if p == 1:
        return difference.sum(-1, dtype=difference.dtype)
    if p == 2:
        return jnp.sqrt(jnp.square(difference).sum(-1, dtype=difference.dtype))
    return (difference**p).sum(-1, dtype=difference.dtype) ** (1 / p)


@op("triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
    f"float p=2, float eps=1e-06, bool swap=False, {_LEGACY}) -> Tensor", **_PLACE)
def triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, size_average, reduce,
                        reduction):
    """How far the negative is from being ``margin`` farther away than the positive."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    _check_same_shape(anchor, positive)
    _check_same_shape(anchor, negative)
    dtype = jnp.result_type(anchor.dtype, positive.dtype, negative.dtype)
    whole = np.issubdtype(dtype, np.integer)  # differences of integers are integers
    a, q, n = (x.astype(dtype) if whole else up(x.astype(dtype)) for x in (anchor, positive, negative))
    if whole:
        dtype = default_float()
    far = _distance(a, n, p, eps)
    if swap:
        far = jnp.minimum(far, _distance(q, n, p, eps))
    loss = _positive_part(margin + _distance(a, q, p, eps) - far)
    return reduce_loss(loss, reduction, jnp.zeros((), dtype).real.dtype)


for _loss in (
    mse_loss, l1_loss, smooth_l1_loss, binary_cross_entropy, binary_cross_entropy_with_logits, kl_div, poisson_nll_loss,
    hinge_embedding_loss, margin_ranking_loss, soft_margin_loss, multi_margin_loss, multilabel_margin_loss,
    multilabel_soft_margin_loss, cosine_embedding_loss, triplet_margin_loss,
):
    _loss.notice(legacy_notice)
