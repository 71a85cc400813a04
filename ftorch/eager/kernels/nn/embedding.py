"""Embedding tables: rows by index, and bags of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.dtype import float64
from ...core.registry import Shape, op
from .._common import dtype_name, up
from .._primitives import primitive
from ..indexing.scatter import first_outside

_INDEX_DTYPES = (np.dtype(np.int64), np.dtype(np.int32))


_NAMED_TENSORS = ("Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long")


def _check_index_dtype(name, indices):
    if indices.dtype not in _INDEX_DTYPES:
        name_of = dtype_name(indices.dtype)
        kind = f"torch.{name_of}Tensor" if name_of in _NAMED_TENSORS else f"CPU{name_of}Type"
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {kind} instead (while checking "
            f"arguments for {name})"
        )


def _scatter_rows(rows, indices, shape):
    """Sums rows (..., D) into a zero table of ``shape`` at the rows that ``indices`` name."""
    table = jnp.zeros(shape, rows.dtype)
    return table.at[indices.reshape(-1)].add(rows.reshape(indices.size, shape[1]), mode="drop")


@op("embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor")
def embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    """Rows of ``weight``. Gradients are dense whatever ``sparse`` says."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_index_dtype("embedding", indices)
    return jnp.take(weight, indices, axis=0, mode="clip")


@embedding.check(passes=lambda weight, indices: [("indices", 0, weight.shape[0])])
def _(weight: Shape, indices):
    _check_rows(weight, indices)


def _check_rows(weight, indices):
    if first_outside(indices, 0, weight.shape[0]) is not None:
        raise IndexError("index out of range in self")


def _counts(indices, rows):
    return jnp.zeros(rows, jnp.int32).at[indices.reshape(-1)].add(1, mode="drop")


@embedding.derivative
def _(grad, weight, indices, padding_idx, scale_grad_by_freq):
    grad = up(grad)
    if padding_idx >= 0:
        grad = jnp.where((indices == padding_idx)[..., None], jnp.zeros((), grad.dtype), grad)
    if scale_grad_by_freq:
        count = jnp.take(_counts(indices, weight.shape[0]), indices, mode="clip")
        grad = grad / count[..., None].astype(grad.dtype)
    return _scatter_rows(grad, indices, weight.shape).astype(weight.dtype), None


# --- bags --------------------------------------------------------------------------------


def _bag_count(indices, offsets, include_last_offset, length):
    return indices.shape[0] // length if length else offsets.shape[0] - include_last_offset


def _bag_numbers(indices, offsets, bags, length):
    """For each index the bag it belongs to (past the last one: none)."""
    positions = jnp.arange(indices.shape[0], dtype=indices.dtype)
    if length:
        return (positions // length).astype(jnp.int32)
    return jnp.searchsorted(offsets[:bags], positions.astype(offsets.dtype), side="right").astype(jnp.int32) - 1


@op("_embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, str mode, "
    "bool scale_grad_by_freq, Tensor? per_sample_weights, bool include_last_offset, "
    "int? padding_idx, int? length=None) -> Tensor")
def embedding_bag(weight, indices, offsets, mode, scale_grad_by_freq, per_sample_weights,
                  include_last_offset, padding_idx, length):
    """Sums, means or maxima of the rows that each bag lists.

    Args:
        indices: one behind the other; may be (bags, length) where ``length`` is given.
        offsets: where bags begin; may be None with ``length``.
        length: of every bag, if they are all of one length.
    """
    _check_index_dtype("embedding_bag", indices)
    if offsets is not None:
        _check_index_dtype("embedding_bag", offsets)
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        have, want = dtype_name(per_sample_weights.dtype), dtype_name(weight.dtype)
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type torch.{want}Tensor does not equal torch.{have}"
            "Tensor (while checking arguments for embedding_bag)"
        )
    _normalized_padding(padding_idx, weight)
    return _bags(
        weight, indices.reshape(-1), offsets, mode, per_sample_weights, include_last_offset, padding_idx, length
    )


def _normalized_padding(padding_idx, weight):
    rows = weight.shape[0]
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
            f"got {padding_idx}"
        )
    return padding_idx % rows


def _bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx,
          length):
    bags = _bag_count(indices, offsets, include_last_offset, length)
    padding_idx = _normalized_padding(padding_idx, weight)
    if length:
        indices, samples = (
            None if x is None else x.reshape(bags, length) for x in (indices, per_sample_weights)
        )
        if mode != "max" and samples is None and padding_idx is None and weight.dtype == np.float32:
            return _PLAIN_BAGS.bind(weight[None], indices[None], mode=mode)[0][0]
        return _even_bags(weight, indices, mode, samples, padding_idx).astype(weight.dtype)
    rows = jnp.take(up(weight), indices, axis=0, mode="clip")
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.astype(rows.dtype)[:, None]
    number = _bag_numbers(indices, offsets, bags, None)
    if padding_idx is not None:
        number = jnp.where(indices == padding_idx, bags, number)
    count = jnp.zeros(bags, jnp.int32).at[number].add(1, mode="drop")[:, None]
    if mode == "max":
        best = jax.ops.segment_max(rows, number, bags)
        return jnp.where(count > 0, best, jnp.zeros((), best.dtype)).astype(weight.dtype)
    total = jax.ops.segment_sum(rows, number, bags)
    if mode == "mean":
        total = total / jnp.maximum(count, 1).astype(total.dtype)
    return total.astype(weight.dtype)


def _even_bags(weight, indices, mode, samples, padding_idx):
    """Bags of one length, (bags, length)."""
    weight, neutral = up(weight), -jnp.inf if mode == "max" else 0

    def picked(indices, samples):
        rows = jnp.take(weight, indices, axis=0, mode="clip")
        if samples is not None:
            rows = rows * samples.astype(rows.dtype)[..., None]
        if padding_idx is not None:
            rows = jnp.where((indices == padding_idx)[..., None], jnp.asarray(neutral, rows.dtype), rows)
        return rows

    bags, length = indices.shape
    count = length if padding_idx is None else (indices != padding_idx).sum(1)[:, None]
    join, reduce = (jnp.maximum, jnp.max) if mode == "max" else (jnp.add, jnp.sum)
    if bags < length:
        total = reduce(picked(indices, samples), 1)
    else:  # without all of the rows in memory
        indices, samples = indices.T, None if samples is None else samples.T
        at = lambda k: picked(indices[k], None if samples is None else samples[k])  # noqa: E731
        total = lax.fori_loop(1, length, lambda k, total: join(total, at(k)), at(0))
    if mode == "max":
        return jnp.where(count > 0, total, jnp.zeros((), total.dtype))
    return total / jnp.maximum(count, 1).astype(total.dtype) if mode == "mean" else total


def _plain_bags(weight, indices, *, mode):
    """Sums or means of the rows of tables (tables, rows, width) that bags (tables, bags, length) list."""
    return jax.vmap(lambda own, bags: _even_bags(own, bags, mode, None, None))(weight, indices)


def _more_bags(operands, axes, *, mode):
    """A table that is not mapped is not repeated: there are more bags of it."""
    weight, indices = operands
    if axes[0] is not None:
        return None
    indices = jnp.moveaxis(indices, axes[1], 1)
    (results,) = _PLAIN_BAGS.bind(weight, lax.collapse(indices, 1, 3), mode=mode)
    return [results.reshape(*indices.shape[:3], -1)], [1]


_PLAIN_BAGS = primitive(
    "bags", _plain_bags, lambda weight, indices: [(*indices.shape[:2], weight.shape[2])], _more_bags
)


@embedding_bag.check
def _(weight: Shape, indices, offsets, mode, include_last_offset, padding_idx):
    if offsets is not None and offsets.size and offsets[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {offsets[0]}\n[ torch.{dtype_name(offsets.dtype)}Tensor{{}} ]"
        )
    if offsets is not None and offsets.size and offsets[-1] > indices.shape[0]:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {indices.shape[0]} but got "
            f"offsets[-1] of {offsets[-1]}"
        )
    if first_outside(indices, 0, weight.shape[0]) is not None:
        wrong = (indices < 0) | (indices >= weight.shape[0])
        at = int(np.argmax(wrong))
        if mode == "max" or padding_idx is not None or weight.dtype == float64:  # PyTorch's other kernel
            raise RuntimeError(
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
                f"{indices.reshape(-1)[at]}"
            )
        raise RuntimeError(
            f"Index {at} of input takes value {indices.reshape(-1)[at]} which is not in the valid range [0, "
            f"{weight.shape[0]})"
        )


def _bag_frequency(indices, table):
    """What PyTorch's CPU kernel divides by: the count of the i-th of the sorted indices, for the
    i-th distinct index. (Its own count, if all indices before it occur once.)"""
    count = _counts(indices, table)
    ordinal = jnp.cumsum(count > 0) - 1
    return jnp.take(count, jnp.take(jnp.sort(indices), jnp.take(ordinal, indices)))


@embedding_bag.derivative
def _(grad, weight, indices, offsets, mode, scale_grad_by_freq, per_sample_weights,
      include_last_offset, padding_idx, length):
    indices = indices.reshape(-1)
    bags = _bag_count(indices, offsets, include_last_offset, length)
    number = _bag_numbers(indices, offsets, bags, length)
    padding_idx = _normalized_padding(padding_idx, weight)
    if padding_idx is not None:
        number = jnp.where(indices == padding_idx, bags, number)
    g = up(grad)
    rows = jnp.take(g, number, axis=0, mode="fill", fill_value=0)
    d_samples = None
    if mode == "max":
        d_weight = _max_bag_gradient(g, weight, indices, number, bags)
        return d_weight.astype(weight.dtype), None, None, None
    if mode == "mean":
        count = jnp.zeros(bags, jnp.int32).at[number].add(1, mode="drop")
        own = jnp.take(count, number, mode="fill", fill_value=1)
        rows = rows / jnp.maximum(own, 1)[:, None].astype(rows.dtype)
    if per_sample_weights is not None:
        picked = jnp.take(up(weight), indices, axis=0, mode="clip")
        d_samples = (rows * picked).sum(-1, dtype=rows.dtype).astype(per_sample_weights.dtype)
        rows = rows * per_sample_weights.astype(rows.dtype)[:, None]
    if scale_grad_by_freq:
        rows = rows / _bag_frequency(indices, weight.shape[0])[:, None].astype(rows.dtype)
    return _scatter_rows(rows, indices, weight.shape).astype(weight.dtype), None, None, d_samples


def _max_bag_gradient(grad, weight, indices, number, bags):
    """The first row of a bag that attains a maximum gets that column's gradient."""
    rows = jnp.take(up(weight), indices, axis=0, mode="clip")
    best = jax.ops.segment_max(rows, number, bags)
    hit = rows == jnp.take(best, number, axis=0, mode="fill", fill_value=0)
    position = jnp.arange(rows.shape[0], dtype=jnp.int32)[:, None]
    first = jax.ops.segment_min(jnp.where(hit, position, rows.shape[0]), number, bags)
    chosen = position == jnp.take(first, number, axis=0, mode="fill", fill_value=-1)
    spread = jnp.take(grad, number, axis=0, mode="fill", fill_value=0)
    spread = jnp.where(chosen, spread, jnp.zeros((), spread.dtype))
    return _scatter_rows(spread, indices, weight.shape)
