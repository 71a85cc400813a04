"""Negative log likelihood and cross entropy, for class indices and class probabilities."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ...core.registry import Shape, op
from .._common import dtype_name, is_floating, up
from ..indexing.scatter import first_outside
from . import _rowwise
from ._windows import check_reduction, legacy_notice, legacy_reduction, sizes

_INDEX_DTYPES = (np.dtype(np.int64), np.dtype(np.uint8))


# --- argument checks ---------------------------------------------------------------------


def _classes_last(x):
    """``(C,)``, ``(N, C)`` or ``(N, C, d1, ...)`` as ``(*target shape, C)``."""
    return x if x.ndim == 1 else jnp.moveaxis(x, 1, -1)


def _check_indices(input, target, weight, spatial_words=True):
    """PyTorch's checks of class indices against scores."""
    if input.ndim < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {input.ndim})")
    if input.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
        )
    if input.ndim != 1 and (target.ndim == 0 or input.shape[0] != target.shape[0]):
        found = target.shape[0] if target.ndim else 0
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({found})."
        )
    _check_index_shape(input, target)
    if target.dtype not in _INDEX_DTYPES:
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {dtype_name(target.dtype)}"
        )
    classes = input.shape[min(1, input.ndim - 1)]
    if weight is not None and weight.shape != (classes,):
        if input.ndim == 4:
            raise RuntimeError("weight tensor should be defined either for all or no classes")
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {sizes(weight.shape)}"
        )
    if weight is not None and weight.dtype != input.dtype:
        want, have = dtype_name(input.dtype), dtype_name(weight.dtype)
        raise RuntimeError(f"expected scalar type {want} but found {have}")


def _check_index_shape(input, target):
    if input.ndim <= 2 and target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input.ndim == 4:
        if target.ndim != 3:
            raise RuntimeError(
                "only batches of spatial targets supported (3D tensors) but got targets of "
                f"dimension: {target.ndim}"
            )
        if (input.shape[0], *input.shape[2:]) != target.shape:
            raise RuntimeError(
                f"size mismatch (got input: {sizes(input.shape)} , target: {sizes(target.shape)}"
            )
    elif input.ndim > 2:
        wanted = (input.shape[0], *input.shape[2:])
        if target.shape != wanted:
            raise RuntimeError(
                f"Expected target size {sizes(wanted)}, got {sizes(target.shape)}"
            )


def _check_targets(input_shape, target, ignore_index):
    """Raises PyTorch's IndexError for a class that does not exist."""
    if target.dtype.kind not in "iu" or not input_shape:
        return
    classes = input_shape[min(1, len(input_shape) - 1)]
    if first_outside(target, 0, classes) is None:
        return
    wrong = first_outside(target[target != ignore_index], 0, classes)
    if wrong is not None:
        raise IndexError(f"Target {wrong} is out of bounds.")


# --- the computation ---------------------------------------------------------------------


def _picked(scores, target, weight, ignore_index):
    """Score and weight of the target class of every sample; ignored ones weigh 0."""
    classes = scores.shape[-1]
    counted = target != ignore_index
    index = jnp.clip(target, 0, max(classes - 1, 0)).astype(jnp.int32)
    score = jnp.take_along_axis(scores, index[..., None], -1)[..., 0]
    factor = counted.astype(scores.dtype)
    if weight is not None:
        factor = factor * jnp.take(weight.astype(scores.dtype), index, axis=0)
    # Selected, not multiplied: an ignored sample may have an infinite score. Minus zero, as its loss is 0.
    return jnp.where(counted, score, jnp.full((), -0.0, score.dtype)), factor


def _reduce_weighted(loss, factor, reduction):
    if reduction == "none":
        return loss
    total = loss.sum(dtype=loss.dtype)
    return total if reduction == "sum" else total / factor.sum(dtype=loss.dtype)


def _target_like(input, target):
    """The target in the shape that the scores have without their class dimension."""
    return target.reshape(()) if input.ndim == 1 else target


@op("nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
    "int ignore_index=-100, bool? reduce=None, str reduction='mean') -> Tensor",
    public="nn.functional")
def nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction):
    """Minus the log probability of the target class."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    _check_indices(input, target, weight)
    if not is_floating(input):
        raise NotImplementedError(
            f"\"nll_loss_out_frame\" not implemented for '{dtype_name(input.dtype)}'"
        )
    scores = up(_classes_last(input))
    flat = _target_like(input, target)
    score, factor = _picked(scores, flat, weight, ignore_index)
    loss = _reduce_weighted(-score * factor, factor, reduction).astype(input.dtype)
    return loss.reshape(target.shape) if reduction == "none" else loss


@nll_loss.check
def _(input: Shape, target, ignore_index):
    _check_targets(input.shape, target, ignore_index)


def _per_sample_gradient(grad, factor, reduction):
    """What each sample's unweighted loss contributes to the gradient."""
    if reduction == "none":
        return grad * factor
    return grad * factor if reduction == "sum" else grad * factor / factor.sum(dtype=factor.dtype)


@nll_loss.derivative
def _(grad, input, target, weight, size_average, ignore_index, reduce, reduction):
    reduction = legacy_reduction(reduction, size_average, reduce)
    scores = up(_classes_last(input))
    target = _target_like(input, target)
    _, factor = _picked(scores, target, weight, ignore_index)
    grad = up(grad).reshape(target.shape) if reduction == "none" else up(grad)
    share = _per_sample_gradient(grad, factor, reduction)
    hit = target[..., None] == jnp.arange(scores.shape[-1], dtype=target.dtype)
    d_scores = jnp.where(hit, -share[..., None], jnp.zeros((), scores.dtype))
    return _classes_back(d_scores, input)


def _classes_back(d_scores, input):
    moved = d_scores if input.ndim == 1 else jnp.moveaxis(d_scores, -1, 1)
    return moved.astype(input.dtype), None, None


def _softmax(scores, logarithm):
    """Along the classes, which are the last dimension."""
    if _rowwise.is_plain(scores):
        return _rowwise.softmax(scores, logarithm=logarithm)
    return (jax.nn.log_softmax if logarithm else jax.nn.softmax)(scores, axis=-1)


@op("cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
    "int ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0)"
    " -> Tensor", public="nn.functional")
def cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction,
                  label_smoothing):
    """Cross entropy between scores and class indices or class probabilities."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}"
        )
    if input.shape == target.shape:
        return _from_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if not is_floating(input):
        raise NotImplementedError(
            "\"log_softmax_lastdim_kernel_impl\" not implemented for "
            f"'{dtype_name(input.dtype)}'"
        )
    _check_indices(input, target, weight)
    logp = _softmax(up(_classes_last(input)), logarithm=True)
    flat = _target_like(input, target)
    score, factor = _picked(logp, flat, weight, ignore_index)
    loss = -score * factor
    if label_smoothing:
        smooth = _smooth_loss(logp, weight, flat != ignore_index)
        loss = _reduce_weighted(loss, factor, reduction)
        smooth = _reduce_weighted(smooth, factor, reduction)
        classes = logp.shape[-1]
        loss = (1 - label_smoothing) * loss + smooth * (label_smoothing / classes)
    else:
        loss = _reduce_weighted(loss, factor, reduction)
    loss = loss.astype(input.dtype)
    return loss.reshape(target.shape) if reduction == "none" else loss


def _smooth_loss(logp, weight, counted):
    terms = logp if weight is None else logp * weight.astype(logp.dtype)
    total = -terms.sum(-1, dtype=logp.dtype)
    return jnp.where(counted, total, jnp.zeros((), logp.dtype))


def _from_probabilities(input, target, weight, ignore_index, reduction, label_smoothing):
    if not is_floating(target):
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{dtype_name(target.dtype)}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    classes = input.shape[min(1, input.ndim - 1)]
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or "
            f"no classes but got weight tensor of shape: {sizes(weight.shape)}"
        )
    dtype = jnp.promote_types(input.dtype, target.dtype)
    logp = _softmax(up(_classes_last(input)), logarithm=True)
    probabilities = up(_classes_last(target))
    if label_smoothing:
        probabilities = probabilities * (1 - label_smoothing) + label_smoothing / max(classes, 1)
    terms = logp * probabilities
    if weight is not None:
        terms = terms * weight.astype(terms.dtype)
    loss = -terms.sum(-1, dtype=terms.dtype)
    if reduction == "mean":
        samples = input.size // max(classes, 1) if input.ndim > 1 else 1
        loss = loss.sum(dtype=loss.dtype) / np.asarray(samples, loss.dtype)
    elif reduction == "sum":
        loss = loss.sum(dtype=loss.dtype)
    return loss.astype(dtype)


@cross_entropy.check
def _(input: Shape, target, ignore_index):
    if input.shape != target.shape:
        _check_targets(input.shape, target, ignore_index)


@cross_entropy.derivative
def _(grad, input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing):
    reduction = legacy_reduction(reduction, size_average, reduce)
    if input.shape == target.shape:

        def loss(*tensors):
            return _from_probabilities(*tensors, ignore_index, reduction, label_smoothing)

        return jax.vjp(loss, input, target, weight)[1](grad)
    return _index_gradient(
        grad, input, target, weight, ignore_index, reduction, label_smoothing
    )


def _index_gradient(grad, input, target, weight, ignore_index, reduction, label_smoothing):
    """Softmax minus the (smoothed) one-hot target, without a scatter."""
    scores = up(_classes_last(input))
    classes = scores.shape[-1]
    probabilities = _softmax(scores, logarithm=False)
    target = _target_like(input, target)
    _, factor = _picked(scores, target, weight, ignore_index)
    grad = up(grad).reshape(target.shape) if reduction == "none" else up(grad)
    share = _per_sample_gradient(grad, factor, reduction)[..., None] * (1 - label_smoothing)
    hit = target[..., None] == jnp.arange(classes, dtype=target.dtype)
    d_scores = share * (probabilities - hit.astype(scores.dtype))
    if label_smoothing:
        counted = (target != ignore_index).astype(scores.dtype)
        if reduction == "mean":
            counted = counted / factor.sum(dtype=factor.dtype)
        share = (grad * counted)[..., None] * (label_smoothing / classes)
        weights = jnp.ones(classes, scores.dtype) if weight is None else weight.astype(scores.dtype)
        d_scores = d_scores + share * (weights.sum(dtype=weights.dtype) * probabilities - weights)
    return _classes_back(d_scores, input)


for _loss in (nll_loss, cross_entropy):
    _loss.notice(legacy_notice)
