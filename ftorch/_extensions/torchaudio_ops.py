"""torchaudio's operators in JAX: recursive filters, the transducer's loss, and alignment of labels (with NumPy)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import ftorch as torch

from ._registering import define, kernel

_NOWHERE = -1e30  # a logarithm of zero whose derivative is a number


@kernel()
def _filtered(x, a_flipped, padded):
    order = a_flipped.shape[1]

    def step(window, sample):
        out = sample - jnp.einsum("bco,co->bc", window, a_flipped[:, :-1])
        return jnp.concatenate([window[..., 1:], out[..., None]], -1), out

    _, found = jax.lax.scan(step, padded[..., : order - 1], jnp.moveaxis(x, -1, 0))
    return jnp.concatenate([padded[..., : order - 1], jnp.moveaxis(found, 0, -1)], -1)


def lfilter_core_loop(input_signal_windows, a_coeffs_flipped, padded_output_waveform):
    """Writes what a recursive filter makes of a signal (batch, channel, time) behind its first results."""
    padded_output_waveform.copy_(_filtered(input_signal_windows, a_coeffs_flipped, padded_output_waveform))


@kernel()
def _overdriven(waveform, temp, last_in, last_out):
    def step(carry, pair):
        before, out = carry
        wave, now = pair
        out = now - before + 0.995 * out
        return (now, out), wave * 0.5 + out * 0.75

    _, found = jax.lax.scan(step, (last_in, last_out), (waveform.T, temp.T))
    return found.T


def overdrive_core_loop(waveform, temp, last_in, last_out, output_waveform):
    """Writes the waveform with its distortion, of which the mean is taken away, to the output."""
    output_waveform.copy_(_overdriven(waveform, temp, last_in, last_out))


# --- the transducer's loss --------------------------------------------------------------


def _transducer_cost(logits, targets, frames, labels, blank, fused):
    """Of one example: minus the logarithm of the probability of all ways through frames and labels (Graves, 2012).

    A way is at ``(t, u)`` when ``t`` frames are over and ``u`` labels are there. Those of one ``t + u`` are computed at
    once, from those of the one before.
    """
    logs = jax.nn.log_softmax(logits) if fused else logits
    steps, places = logs.shape[:2]
    empty = logs[..., blank]
    label = jnp.take_along_axis(logs[:, :-1], targets[None, :, None], -1)[..., 0]
    label = jnp.pad(label, ((0, 0), (0, 1)), constant_values=_NOWHERE)
    u = jnp.arange(places)
    t = jnp.arange(steps + places - 1)[:, None] - u  # of each diagonal
    exists = (t >= 0) & (t < frames) & (u <= labels)

    def diagonals(x, exists):
        found = jnp.take_along_axis(x, jnp.clip(t, 0, steps - 1), 0)
        return jnp.where(exists, found, _NOWHERE)

    empties, emitted = diagonals(empty, exists), diagonals(label, exists & (u < labels))

    def advance(ways, logs):
        empty, label = ways + logs[0], jnp.roll(ways + logs[1], 1).at[0].set(_NOWHERE)
        return jnp.logaddexp(empty, label), ways

    start = jnp.where(u == 0, 0.0, _NOWHERE).astype(logs.dtype)
    _, ways = jax.lax.scan(advance, start, (empties, emitted))
    last = frames - 1 + labels
    return -(ways[last, labels] + empties[last, labels])


@kernel("blank", "clamp", "fused")
def _transducer(logits, targets, frames, labels, *, blank, clamp, fused):
    def cost(logits, *given):
        return _transducer_cost(logits, *given, blank, fused)

    wide = logits.astype(jnp.float32)
    costs, gradients = jax.vmap(jax.value_and_grad(cost))(wide, targets, frames, labels)
    if clamp > 0:
        gradients = jnp.clip(gradients, -clamp, clamp)
    return costs.astype(logits.dtype), gradients.astype(logits.dtype)


def _require(holds, text):
    if not holds:
        raise RuntimeError(text)


def rnnt_loss_forward(logits, targets, logit_lengths, target_lengths, blank, clamp, fused_log_softmax):
    """The costs (batch) of a transducer's logits (batch, time, target, class), and what they change by with the logits.

    Raises:
        RuntimeError: dtypes, shapes or lengths that do not fit (torchaudio's words).
    """
    _require(logits.dtype in (torch.float32, torch.float16), "logits must be float32 or float16 (half) type")
    integers = {"targets": targets, "logit_lengths": logit_lengths, "target_lengths": target_lengths}
    for name, x in integers.items():
        _require(x.dtype is torch.int32, f"{name} must be int32 type")
    for name, x in {"logits": logits, **integers}.items():
        _require(x.is_contiguous(), f"{name} must be contiguous")
    _require(logits.dim() == 4, "logits must be 4-D (batch, time, target, class)")
    _require(targets.dim() == 2, "targets must be 2-D (batch, max target length)")
    for name, x in (("logit_lengths", logit_lengths), ("target_lengths", target_lengths)):
        _require(x.dim() == 1, f"{name} must be 1-D")
    for name, x in integers.items():
        _require(x.size(0) == logits.size(0), f"batch dimension mismatch between logits and {name}")
    _require(0 <= blank < logits.size(-1), "blank must be within [0, logits.shape[-1])")
    _require(logits.size(1) == int(logit_lengths.max()), "input length mismatch")
    _require(logits.size(2) == int(target_lengths.max()) + 1, "output length mismatch")
    _require(targets.size(1) == int(target_lengths.max()), "target length mismatch")
    return _transducer(
        logits, targets, logit_lengths, target_lengths, blank=blank, clamp=float(clamp), fused=bool(fused_log_softmax)
    )


# --- alignment --------------------------------------------------------------------------


def forced_align(log_probs, targets, input_lengths, target_lengths, blank):
    """The most likely label or blank at each time of a CTC emission (1, time, class) that spells the targets (1, length).

    Returns:
        The labels (1, time), and the emission.

    Raises:
        RuntimeError: dtypes, shapes or lengths that do not fit (torchaudio's words).
    """
    _require(log_probs.is_contiguous(), "log_probs must be contiguous")
    _require(targets.is_contiguous(), "targets must be contiguous")
    floats = (torch.float64, torch.float32, torch.float16)
    _require(log_probs.dtype in floats, "log_probs must be float64, float32 or float16 (half) type")
    _require(targets.dtype in (torch.int32, torch.int64), "targets must be int32 or int64 type")
    _require(log_probs.dim() == 3, "log_probs must be 3-D (batch_size, input length, num classes)")
    _require(targets.dim() == 2, "targets must be 2-D (batch_size, target length,)")
    _require(input_lengths.dim() == 1, "input_lengths must be 1-D (batch_size,)")
    _require(target_lengths.dim() == 1, "target_lengths must be 1-D (batch_size,)")
    for name, x in (("log_probs", log_probs), ("targets", targets)):
        _require(x.size(0) == 1, f"The batch dimension for {name} must be 1 at the current version.")
    _require(0 <= blank < log_probs.size(2), "blank must be within [0, num classes)")
    _require(int(input_lengths.max()) == log_probs.size(1), "input length mismatch")
    _require(int(target_lengths.max()) == targets.size(1), "target length mismatch")
    labels = targets[0].cpu().numpy()
    repeats = int((labels[1:] == labels[:-1]).sum())
    _require(
        log_probs.size(1) >= len(labels) + repeats,
        f"targets length is too long for CTC. Found log_probs length: {log_probs.size(1)}, targets length: {len(labels)}, "
        f"and number of repeats: {repeats}",
    )
    path = _best_path(log_probs[0].detach().cpu().numpy(), labels, blank)
    return torch.from_numpy(path.astype(labels.dtype))[None].to(log_probs.device), log_probs


def _best_path(logs, labels, blank):
    """Viterbi's algorithm over the labels with blanks around each."""
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    can_skip = np.zeros(len(states), bool)  # the blank between two labels that differ
    can_skip[3::2] = labels[1:] != labels[:-1]
    emitted, least = logs[:, states], np.array(-np.inf, logs.dtype)
    best = np.where(np.arange(len(states)) < 2, emitted[0], least)
    back = np.zeros((len(logs), len(states)), np.int8)
    for t in range(1, len(logs)):
        stay, step, skip = best, np.append(least, best[:-1]), np.append([least, least], best[:-2])[: len(states)]
        skip = np.where(can_skip, skip, least)
        back[t] = np.where((skip > step) & (skip > stay), 2, np.where((step > stay) & (step > skip), 1, 0))
        best = np.choose(back[t], (stay, step, skip)) + emitted[t]
    at = len(states) - 1 if len(states) == 1 or best[-1] > best[-2] else len(states) - 2
    path = np.empty(len(logs), np.int64)
    for t in range(len(logs) - 1, -1, -1):
        path[t] = states[at]
        at -= back[t, at]
    return path


define("torchaudio::_lfilter_core_loop(Tensor input, Tensor a_coeffs, Tensor(a!) output) -> ()", lfilter_core_loop)
define(
    "torchaudio::_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, "
    "Tensor(a!) output) -> ()", overdrive_core_loop,
)
define(
    "torchaudio::rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, "
    "float clamp, bool fused_log_softmax) -> (Tensor, Tensor)", rnnt_loss_forward,
)
define(
    "torchaudio::forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) "
    "-> (Tensor, Tensor)", forced_align,
)
define("_torchaudio::is_align_available() -> bool", lambda: True)
define("_torchaudio::cuda_version() -> int?", lambda: None)
