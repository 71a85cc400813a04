"""Recurrent cells whose weights are quantized and whose inputs are quantized as they come."""

from __future__ import annotations

from ..eager.core import api as torch
from ..eager.tensor import modes
from ._history import with_history
from ._layers import engine, linear_dynamic
from ._tensor import ScriptObject


class CellParamsBase(ScriptObject):
    """The two packed products of a recurrent cell."""

    _qualified = "__torch__.torch.classes.rnn.CellParamsBase"

    def __init__(self, w_ih, w_hh, b_ih=None, b_hh=None, reduce_range=False):
        self.w_ih, self.w_hh = w_ih, w_hh
        self.b_ih, self.b_hh, self.reduce_range = b_ih, b_hh, reduce_range

    def of_input(self, x):
        """The product with an input, and the bias."""
        return linear_dynamic(x, self.w_ih, self.reduce_range)

    def of_state(self, h):
        """The product with a state, and the bias."""
        return linear_dynamic(h, self.w_hh, self.reduce_range)

    def steps_in_one(self):
        """Whether all steps of an LSTM are one operation."""
        return getattr(self.w_hh, "_dynamic", None) is not None

    def __getstate__(self):
        return self.w_ih, self.w_hh, self.b_ih, self.b_hh, self.reduce_range

    def __setstate__(self, state):
        self.__init__(*state)


def make_cell(w_ih, w_hh, bias_ih=None, bias_hh=None, reduce_range=False):
    """The parameters of a cell, as `quantized_lstm` takes them."""
    return CellParamsBase(w_ih, w_hh, bias_ih, bias_hh, reduce_range)


def make_cell_fp16(w_ih, w_hh):
    """The same with weights of half precision."""
    return CellParamsBase(w_ih, w_hh)


def lstm_step(gates, c):
    """(h, c) after one step, from the sums of both products."""
    i, f, g, o = gates.chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_step(of_input, of_state, h):
    """h after one step, from both products."""
    ri, zi, ni = of_input.chunk(3, -1)
    rh, zh, nh = of_state.chunk(3, -1)
    r, z = torch.sigmoid(rh + ri), torch.sigmoid(zh + zi)
    n = torch.tanh(ni + nh * r)
    return (h - n) * z + n


def lstm_cell(input, hx, w_ih, w_hh, bias_ih=None, bias_hh=None):
    """One step of an LSTM."""
    h, c = hx
    return lstm_step(linear_dynamic(input, w_ih, True) + linear_dynamic(h, w_hh, True), c)


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU."""
    return gru_step(linear_dynamic(input, w_ih, True), linear_dynamic(hx, w_hh, True), hx)


def rnn_cell(activation):
    """One step of an Elman cell."""

    def run(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return getattr(torch, activation)(linear_dynamic(input, w_ih, True) + linear_dynamic(hx, w_hh, True))

    return run


def _layer(x, cell, state, step):
    """A layer over all steps (steps, batch, features); the product with the inputs is one."""
    projected = cell.of_input(x)
    recorded = modes.grad and any(s.requires_grad for s in state)  # by the steps' own operations
    if step is _steps_lstm and len(projected) and cell.steps_in_one() and not recorded:
        reduces = cell.reduce_range and engine() != "qnnpack"
        out, *state = torch._lstm_dynamic_int8(projected, *state, *cell.w_hh._dynamic, reduces)
        return out, state
    outputs = []
    for each in projected.unbind(0):
        state = step(each, cell, state)
        outputs.append(state[0])
    return torch.stack(outputs), state


def _steps_lstm(projected, cell, state):
    return lstm_step(cell.of_state(state[0]) + projected, state[1])


def _steps_gru(projected, cell, state):
    return (gru_step(projected, cell.of_state(state[0]), state[0]),)


def _stacked(x, states, params, num_layers, dropout, train, bidirectional, step):
    """All layers; ``states``: for each layer and direction a tuple of (batch, hidden)."""
    directions = 2 if bidirectional else 1
    finals = []
    for layer in range(num_layers):
        results = []
        for direction in range(directions):
            at = layer * directions + direction
            given = x.flip(0) if direction else x
            out, final = _layer(given, params[at], states[at], step)
            results.append(out.flip(0) if direction else out)
            finals.append(final)
        x = results[0] if directions == 1 else torch.cat(results, -1)
        if dropout and train and layer < num_layers - 1:
            x = torch.nn.functional.dropout(x, dropout, True)
    return x, finals


def _run(step, count, input, hx, params, num_layers, dropout, train, bidirectional, batch_first):
    x = input.transpose(0, 1) if batch_first else input
    states = list(zip(*(h.unbind(0) for h in hx)))
    out, finals = _stacked(x, states, params, num_layers, dropout, train, bidirectional, step)
    out = out.transpose(0, 1) if batch_first else out
    return (out, *(torch.stack([f[i] for f in finals]) for i in range(count)))


def _packed(step, count, input, batch_sizes, hx, params, num_layers, dropout, train, bidirectional):
    """A packed sequence: batches of each step one after the other, longest first."""
    sizes = batch_sizes.tolist()
    directions = 2 if bidirectional else 1
    x, finals = input, []
    states = list(zip(*(h.unbind(0) for h in hx)))
    for layer in range(num_layers):
        results = []
        for direction in range(directions):
            at = layer * directions + direction
            pieces = list(params[at].of_input(x).split(sizes))
            out, final = _ragged(pieces, sizes, params[at], states[at], step, bool(direction))
            results.append(out)
            finals.append(final)
        x = results[0] if directions == 1 else torch.cat(results, -1)
        if dropout and train and layer < num_layers - 1:
            x = torch.nn.functional.dropout(x, dropout, True)
    return (x, *(torch.stack([f[i] for f in finals]) for i in range(count)))


def _ragged(pieces, sizes, cell, state, step, backwards):
    order = range(len(sizes))
    outputs = [None] * len(sizes)
    for t in reversed(order) if backwards else order:
        n = sizes[t]
        part = step(pieces[t], cell, tuple(s[:n] for s in state))
        outputs[t] = part[0]
        state = tuple(torch.cat([p, s[n:]]) if n < s.shape[0] else p for p, s in zip(part, state))
    return torch.cat(outputs), state


def quantized_lstm(input, *args, dtype=None, use_dynamic=False):
    """An LSTM of `CellParamsBase` cells (``torch.quantized_lstm``).

    Args:
        args: hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first; for a packed
            sequence batch_sizes before them, and no batch_first.

    Returns:
        (output, h, c).
    """
    return with_history("aten::quantized_lstm", _lstm, (input, *args), {})


def _lstm(input, *args):
    if isinstance(args[0], (list, tuple)):
        hx, params, _, *rest = args
        return _run(_steps_lstm, 2, input, hx, params, *rest)
    sizes, hx, params, _, *rest = args
    return _packed(_steps_lstm, 2, input, sizes, hx, params, *rest)


def quantized_gru(input, *args):
    """A GRU of `CellParamsBase` cells (``torch.quantized_gru``): (output, h). See `quantized_lstm`."""
    return with_history("aten::quantized_gru", _gru, (input, *args), {})


def _gru(input, *args):
    if isinstance(args[1], (list, tuple)):
        hx, params, _, *rest = args
        return _run(_steps_gru, 1, input, (hx,), params, *rest)
    sizes, hx, params, _, *rest = args
    return _packed(_steps_gru, 1, input, sizes, (hx,), params, *rest)
