"""Connectionist temporal classification."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ...core.registry import Shape, op
from .._common import dtype_name, is_integral
from ._windows import reduce_loss

# The logarithm of an impossible alignment: finite, so that gradients through it are not nan.
_IMPOSSIBLE = -1e30


def _log_sum(*terms):
    stacked = jnp.stack(terms)
    top = lax.stop_gradient(stacked.max(0))
    return top + jnp.log(jnp.exp(stacked - top).sum(0, dtype=stacked.dtype))


def _label_rows(targets, target_lengths):
    """Labels as (N, S): given so, or all of them one after the other."""
    if targets.ndim == 2:
        return targets
    if not targets.shape[0]:
        return jnp.zeros((target_lengths.shape[0], 0), targets.dtype)
    starts = jnp.cumsum(target_lengths) - target_lengths
    places = starts[:, None] + jnp.arange(targets.shape[0], dtype=starts.dtype)
    return jnp.take(targets, places, mode="clip")


def _losses(log_probs, labels, input_lengths, target_lengths, blank):
    """Minus the log probability of the labels, by sample; `-_IMPOSSIBLE` or more where it is 0."""
    steps, samples, classes = log_probs.shape
    states = 2 * labels.shape[1] + 1
    index = jnp.full((samples, states), blank, jnp.int32)
    index = index.at[:, 1::2].set(jnp.clip(labels, 0, classes - 1).astype(jnp.int32))
    scores = jnp.maximum(log_probs, _IMPOSSIBLE)
    impossible = jnp.asarray(_IMPOSSIBLE, log_probs.dtype)
    # A label may follow the one before without a blank between, unless it repeats it.
    skips = jnp.zeros((samples, states), bool)
    if states > 2:
        skips = skips.at[:, 2:].set((index[:, 2:] != blank) & (index[:, 2:] != index[:, :-2]))

    def shifted(alpha, by):
        return jnp.pad(alpha, ((0, 0), (by, 0)), constant_values=_IMPOSSIBLE)[:, :states]

    def step(alpha, inputs):
        time, score = inputs
        emitted = jnp.take_along_axis(score, index, 1)
        reached = _log_sum(
            alpha, shifted(alpha, 1), jnp.where(skips, shifted(alpha, 2), impossible)
        )
        new = jnp.maximum(reached + emitted, _IMPOSSIBLE)
        return jnp.where((time < input_lengths)[:, None], new, alpha), None

    # Before the first step only the state left of the first blank is possible, as if it stood
    # at -1: the first two states can be entered.
    state = jnp.arange(states)
    entry = jnp.where(state == 0, 0.0, _IMPOSSIBLE).astype(log_probs.dtype)
    first = jnp.take_along_axis(scores[0], index, 1) if steps else entry
    opened = jnp.where(
        (state == 0) | ((state == 1) & (target_lengths > 0)[:, None]),
        first, impossible,
    )
    start = jnp.where((input_lengths > 0)[:, None], opened, entry)
    alpha, _ = lax.scan(step, start, (jnp.arange(1, steps), scores[1:]))
    last = (2 * target_lengths)[:, None]
    ends = [jnp.take_along_axis(alpha, jnp.maximum(last - k, 0), 1)[:, 0] for k in (0, 1)]
    label_end = jnp.where((target_lengths > 0) & (input_lengths > 0), ends[1], impossible)
    return -_log_sum(ends[0], label_end)


def _batched(log_probs, targets, input_lengths, target_lengths):
    if log_probs.ndim == 2:
        log_probs, targets = log_probs[:, None], targets[None] if targets.ndim == 1 else targets
    lengths = (x.reshape(-1).astype(jnp.int32) for x in (input_lengths, target_lengths))
    return log_probs, targets, *lengths


def _check(log_probs, targets, input_lengths, target_lengths, blank):
    if log_probs.dtype not in (jnp.float32, jnp.float64):
        raise NotImplementedError(
            f"\"ctc_loss_cpu\" not implemented for '{dtype_name(log_probs.dtype)}'"
        )
    for name, lengths in (("input", input_lengths), ("target", target_lengths)):
        if not is_integral(lengths):
            raise RuntimeError(f"{name}_lengths must be integral")
    if not 0 <= blank < log_probs.shape[-1]:
        raise RuntimeError("blank must be in label range")
    samples = log_probs.shape[1] if log_probs.ndim == 3 else 1
    for name, lengths in (("input", input_lengths), ("target", target_lengths)):
        if lengths.size != samples:
            raise RuntimeError(f"{name}_lengths must be of size batch_size")
    if targets.ndim not in (1, 2):
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 'targets' "
            "(while checking arguments for ctc_loss_allocate_outputs)"
        )
    if targets.ndim == 2 and targets.shape[0] != samples:
        raise RuntimeError(
            f"Expected tensor to have size {samples} at dimension 0, but got size {targets.shape[0]} "
            "for argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
        )


@op("_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank, str reduction, bool zero_infinity) -> Tensor")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    """Minus the log probability of the target labels under all alignments."""
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    scores, targets, inputs, lengths = _batched(
        log_probs, targets, input_lengths, target_lengths
    )
    losses = _losses(scores, _label_rows(targets, lengths), inputs, lengths, blank)
    losses = _finished(losses, zero_infinity)
    out = _reduced(losses, lengths, reduction)
    return out.reshape(()) if log_probs.ndim == 2 else out


ctc_loss.of_any_device("targets input_lengths target_lengths")


def _finished(losses, zero_infinity):
    return jnp.where(losses > -_IMPOSSIBLE / 2, 0.0 if zero_infinity else jnp.inf, losses)


def _reduced(losses, lengths, reduction):
    if reduction == "mean":
        losses = losses / jnp.maximum(lengths, 1).astype(losses.dtype)
    return reduce_loss(losses, reduction)


@ctc_loss.check
def _(log_probs: Shape, targets, input_lengths, target_lengths):
    context = "(while checking arguments for ctc_loss_allocate_outputs)"
    for name, lengths, most in (
        ("input", input_lengths, log_probs.shape[0]), ("target", target_lengths, None)
    ):
        if lengths.size and lengths.min() < 0:
            raise RuntimeError(
                f"Expected {name}_lengths to have value at least 0, but got value "
                f"{lengths[lengths < 0].flat[0]} {context}"
            )
        if most is not None and lengths.size and lengths.max() > most:
            raise RuntimeError(
                f"Expected {name}_lengths to have value at most {most}, but got value "
                f"{lengths[lengths > most].flat[0]} {context}"
            )
    wanted = int(target_lengths.max(initial=0))
    if targets.ndim == 2 and targets.shape[1] < wanted:
        raise RuntimeError(
            f"Expected tensor to have size at least {wanted} at dimension 1, but got size "
            f"{targets.shape[1]} for argument #2 'targets' {context}"
        )
    total = int(target_lengths.sum())
    if targets.ndim == 1 and targets.shape[0] != total:
        raise RuntimeError(
            f"Expected tensor to have size {total} at dimension 0, but got size "
            f"{targets.shape[0]} for argument #2 'targets' {context}"
        )


@ctc_loss.derivative
def _(grad, log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    scores, targets, inputs, lengths = _batched(
        log_probs, targets, input_lengths, target_lengths
    )
    rows = _label_rows(targets, lengths)
    losses, pull = jax.vjp(lambda s: _losses(s, rows, inputs, lengths, blank), scores)
    _, spread = jax.vjp(lambda x: _reduced(x, lengths, reduction), losses)
    share = spread(jnp.reshape(grad, losses.shape if reduction == "none" else ()))[0]
    impossible = losses > -_IMPOSSIBLE / 2
    share = jnp.where(impossible, 0.0 if zero_infinity else jnp.nan, share)
    # PyTorch's gradient takes the log probabilities to come from a log softmax over the classes.
    running = jnp.arange(scores.shape[0])[:, None] < inputs
    d_scores = pull(share)[0] + jnp.exp(scores) * (running * share)[..., None]
    if zero_infinity:
        d_scores = jnp.where(impossible[:, None], 0.0, d_scores)
    return d_scores.reshape(log_probs.shape).astype(log_probs.dtype), None, None, None
