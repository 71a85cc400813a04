"""An LSTM layer's time loop (``rnn.cpp``)."""

from __future__ import annotations

import os

import jax
import numpy as np

from .. import call

# A step of so many multiplications for so few sequences of a thread is quicker in XLA's loop, whose products
# share the weight among the threads.
_LARGE, _FEW = 1 << 23, 4


def is_loop(eqn):
    """Whether it is a call of `ftorch.eager.kernels.nn.rnn`'s time loops that is made here.

    Transforms keep a function's name: what they made of it has other shapes, or other operands.
    """
    expected = _SHAPES.get(str(eqn.params.get("name")).partition(":")[0])
    if expected is None or len(eqn.outvars) != 3:
        return False
    sequence = eqn.outvars[0].aval.shape
    if len(sequence) != 3 or 0 in sequence or sequence[2] % 4:
        return False
    time, batch, hidden = *sequence[:2], sequence[2] // 4
    shapes = expected((time, batch, 4 * hidden), (time, batch, hidden), (batch, hidden), (4 * hidden, hidden))
    avals = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    if [a.shape for a in avals] != shapes or any(a.dtype != np.float32 for a in avals):
        return False
    return 4 * batch * hidden * hidden < _LARGE or batch >= _FEW * (os.cpu_count() or 1)


def loop(eqn, inputs, origins):
    """The call in the place of such a loop; gradients of all times that are zeros are not written to be read."""
    name, _, reverse = eqn.params["name"].partition(":")
    results = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
    inputs = [
        np.zeros(0, x.dtype) if i in _GRADIENTS_OF_TIMES.get(name, ()) and origins.is_zeros(x) else x
        for i, x in enumerate(inputs)
    ]
    return call(name, results, *inputs, reverse=np.int64(reverse == "reverse"))


_GRADIENTS_OF_TIMES = {"ftorch_lstm_gradient": (3, 4, 5)}  # of the states' and the gates'


def _forward(gates, states, state, weight):
    return [gates, state, state, weight, gates, states, states]


def _backward(gates, states, state, weight):
    return [gates, states, state, states, states, gates, state, state, weight, gates, state, state]


_SHAPES = {"ftorch_lstm": _forward, "ftorch_lstm_gradient": _backward}
