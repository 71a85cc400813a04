"""Samples of recurrent layers and cells."""

from tests.samples import S, T, register

_SIZES = T(4, values=[3, 2, 2, 1], dtype="int64", grad=False)


def _weights(gates, inputs=2, hidden=3):
    return T(gates * hidden, inputs), T(gates * hidden, hidden)


def _biases(gates, hidden=3):
    return T(gates * hidden), T(gates * hidden)


for _mode, _gates in (("tanh", 1), ("relu", 1), ("gru", 3)):
    register(
        "_rnn_layer",
        S(T(4, 3, 2), T(3, 3), *_weights(_gates), *_biases(_gates), None, _mode, False),
        S(T(4, 3, 2), T(3, 3), *_weights(_gates), None, None, None, _mode, True),
        S(T(8, 2), T(3, 3), *_weights(_gates), *_biases(_gates), _SIZES, _mode, True),
    )
    register(
        "gru_cell" if _mode == "gru" else f"rnn_{_mode}_cell",
        S(T(2, 2), T(2, 3), *_weights(_gates), *_biases(_gates)),
        S(T(2, 2), T(2, 3), *_weights(_gates)),
    )

register(
    "_lstm_layer",
    S(T(4, 3, 2), T(3, 3), T(3, 3), *_weights(4), *_biases(4), None, None, False),
    S(T(4, 3, 2), T(3, 2), T(3, 3), T(12, 2), T(12, 2), *_biases(4), T(2, 3), None, True),
    S(T(8, 2), T(3, 3), T(3, 3), *_weights(4), None, None, None, _SIZES, False),
)
register("lstm_cell", S(T(2, 2), [T(2, 3), T(2, 3)], *_weights(4), *_biases(4)))
