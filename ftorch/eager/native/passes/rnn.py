"""An LSTM layer's time loop (``rnn.cpp``)."""

from __future__ import annotations

import os

import jax
import numpy as np

from .. import call

# A step of so many multiplications for so few sequences of a thread is quicker in XLA's loop, whose products
# share the weight among the threads.
_LARGE, _FEW = 1 << 23, 4


LOOPS = ("ftorch_lstm", "ftorch_lstm_gradient")


def is_made(eqn):
    """Whether a time loop of `ftorch.eager.kernels.nn.rnn` is made here; XLA's loop of its steps is better else."""
    _, batch, width = eqn.outvars[0].aval.shape
    if any(v.aval.dtype not in (np.float32, np.bool_) or 0 in v.aval.shape for v in (*eqn.invars, *eqn.outvars)):
        return False
    return batch * width * width < 4 * _LARGE or batch >= _FEW * (os.cpu_count() or 1)


def loop(eqn, inputs, origins):
    """The call in the place of such a loop; gradients of all times that are zeros are not written to be read.

    What says which sequences of a packed batch exist is empty for others.
    """
    name = eqn.primitive.name
    results = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
    inputs = [
        np.zeros(0, x.dtype) if i in _GRADIENTS_OF_TIMES.get(name, ()) and origins.is_zeros(x) else x
        for i, x in enumerate(inputs)
    ]
    if inputs[-1].dtype != np.bool_:
        inputs.append(np.zeros(0, np.bool_))
    return call(name, results, *inputs, reverse=np.int64(eqn.params["reverse"]))


_GRADIENTS_OF_TIMES = {"ftorch_lstm_gradient": (3, 4, 5)}  # of the states' and the gates'

