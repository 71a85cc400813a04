"""Recurrent networks of several layers and directions (``torch.lstm`` and its relatives)."""

from __future__ import annotations

from ...core import api as torch
from ...core.composite import composite
from ...tensor import Tensor


def _weights(params, has_biases, has_projection):
    """The parameters of each layer and direction: ``(w_ih, w_hh, b_ih, b_hh, w_hr)``."""
    count = 2 + 2 * has_biases + has_projection
    for start in range(0, len(params), count):
        w_ih, w_hh, *rest = params[start : start + count]
        biases = rest[:2] if has_biases else (None, None)
        yield w_ih, w_hh, *biases, rest[-1] if has_projection else None


def _run(
    mode, input, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first,
):
    """All layers: gives the output and the last states, one tensor per kind of state."""
    is_lstm = mode == "lstm"
    states = hx if is_lstm else (hx,)
    has_projection = is_lstm and states[0].size(2) != states[1].size(2)
    weights = _weights(params, has_biases, has_projection)
    directions = (False, True) if bidirectional else (False,)
    if batch_first:
        input = input.transpose(0, 1)
    last = []
    for layer in range(num_layers):
        outputs = []
        for reverse in directions:
            state = [s[len(last)] for s in states]
            w_ih, w_hh, b_ih, b_hh, w_hr = next(weights)
            if is_lstm:
                output, *new = torch._lstm_layer(
                    input, *state, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, reverse
                )[:3]
            else:
                output, *new = torch._rnn_layer(
                    input, *state, w_ih, w_hh, b_ih, b_hh, batch_sizes, mode, reverse
                )[:2]
            outputs.append(output)
            last.append(new)
        input = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        if dropout != 0 and train and layer < num_layers - 1:
            input = torch.nn.functional.dropout(input, dropout, True)
    if batch_first:
        input = input.transpose(0, 1)
    return input, *(torch.stack(kind) for kind in zip(*last, strict=True))


def _network(name, mode):
    """The public function, in its two forms: of a padded and of a packed batch."""

    def run(*args, **kwargs):
        # The states of an LSTM are a list, so a tensor in their place is the batch sizes.
        place = 1 if mode == "lstm" else 2
        is_packed = "batch_sizes" in kwargs or (
            len(args) > place and isinstance(args[place], Tensor)
        )
        values = dict(zip(_PACKED if is_packed else _PADDED, args, strict=False), **kwargs)
        input = values.pop("data") if is_packed else values.pop("input")
        return _run(mode, input, **{"batch_sizes": None, "batch_first": False, **values})

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"""The network of ``nn.{_CLASSES[mode]}``, with its weights as one list.

    Called as ``{name}({", ".join(_PADDED)})`` or ``{name}({", ".join(_PACKED)})``.
    """
    return composite()(run)


_COMMON = ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
_PADDED = ("input", *_COMMON, "batch_first")
_PACKED = ("data", "batch_sizes", *_COMMON)
_CLASSES = {"lstm": "LSTM", "gru": "GRU", "tanh": "RNN", "relu": "RNN"}

lstm = _network("lstm", "lstm")
gru = _network("gru", "gru")
rnn_tanh = _network("rnn_tanh", "tanh")
rnn_relu = _network("rnn_relu", "relu")
