"""torchaudio's operators of recursive filters, in JAX. Its transducer loss and alignment are not there yet."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ._registering import define, kernel


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


define("torchaudio::_lfilter_core_loop(Tensor input, Tensor a_coeffs, Tensor(a!) output) -> ()", lfilter_core_loop)
define(
    "torchaudio::_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, "
    "Tensor(a!) output) -> ()", overdrive_core_loop,
)
define("_torchaudio::is_align_available() -> bool", lambda: False)
define("_torchaudio::cuda_version() -> int?", lambda: None)
