"""An LSTM layer's time loop (``rnn.cpp``)."""

from __future__ import annotations

import os

import jax
import numpy as np

# A step of so many multiplications for so few sequences of a thread is quicker in XLA's loop, whose products
# share the weight among the threads.
_LARGE, _FEW = 1 << 23, 4


def loop(eqn, inputs):
    """A call of `ftorch.eager.ops.rnn`'s time loops; None if XLA is to run it.

    Transforms keep a function's name: what they made of it has other shapes, or other operands.
    """
    name, _, reverse = eqn.params.get("name", "").partition(":")
    expected = {"ftorch_lstm": _forward, "ftorch_lstm_gradient": _backward}.get(name)
    if expected is None or len(eqn.outvars) != 3:
        return None
    sequence = eqn.outvars[0].aval.shape
    if len(sequence) != 3 or 0 in sequence or sequence[2] % 4:
        return None
    time, batch, hidden = *sequence[:2], sequence[2] // 4
    shapes = expected((time, batch, 4 * hidden), (time, batch, hidden), (batch, hidden), (4 * hidden, hidden))
    avals = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    if [a.shape for a in avals] != shapes or any(a.dtype != np.float32 for a in avals):
        return None
    if 4 * batch * hidden * hidden >= _LARGE and batch < _FEW * (os.cpu_count() or 1):
        return None
    results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals[len(inputs) :]]
    return jax.ffi.ffi_call(name, results)(*inputs, reverse=np.int64(reverse == "reverse"))


def _forward(gates, states, state, weight):
    return [gates, state, state, weight, gates, states, states]


def _backward(gates, states, state, weight):
    return [gates, states, state, states, states, gates, state, state, weight, gates, state, state]
