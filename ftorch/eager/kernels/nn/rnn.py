"""Recurrent layers: one kernel for a whole layer in one direction, as a scan over time.

A layer also gives its gates and states of all times, which its gradient reads instead of running the
layer again. A packed batch (sequences of different lengths, one after the other for each time step) is laid out
in (time, batch) inside the kernel: a state stays as it is where a sequence has ended, so that nothing
depends on the lengths but values.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from ...core.registry import op
from .._common import product, up
from .._primitives import primitive


def _project(x, weight, bias):
    """``x @ weight.T + bias``, in the precision of intermediate results."""
    result = product(up(x), up(weight).T)
    return result if bias is None else result + up(bias)


def _plain(activation):
    def cell(gates_x, gates_h, state):
        return (activation(gates_x + gates_h),)

    return cell


def _gru(gates_x, gates_h, state):
    reset_x, update_x, new_x = jnp.split(gates_x, 3, axis=-1)
    reset_h, update_h, new_h = jnp.split(gates_h, 3, axis=-1)
    new = jnp.tanh(new_x + jax.nn.sigmoid(reset_x + reset_h) * new_h)
    return ((state[0] - new) * jax.nn.sigmoid(update_x + update_h) + new,)


def _lstm(gates_x, gates_h, state):
    i, f, g, o = jnp.split(gates_x + gates_h, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


_CELLS = {
    "tanh": _plain(jnp.tanh), "relu": _plain(lambda x: jnp.maximum(x, 0)), "gru": _gru,
    "lstm": _lstm,
}


def _packing(batch_sizes, rows, batch):
    """How a packed batch is laid out.

    Returns:
        for each (time, sequence) its row, for each (time, sequence, 1) whether it exists, and for each row its time
        and sequence.
    """
    ends = jnp.cumsum(batch_sizes)
    starts = ends - batch_sizes
    sequence = jnp.arange(batch)
    row = jnp.minimum(starts[:, None] + sequence, max(rows - 1, 0))
    exists = (sequence < batch_sizes[:, None])[..., None]
    index = jnp.arange(rows)
    time = jnp.searchsorted(ends, index, side="right")
    return row, exists, time, index - starts[time]


def _loop(mode, gates_x, state, w_hh, b_hh, w_hr, exists, reverse):
    """The last of each state; of all times the gates (of a GRU the state's) and each state."""
    cell, turned = _CELLS[mode], up(w_hh).T  # once for all steps

    def advance(state, now):
        gates_x, here = now
        gates_h = product(state[0], turned)
        gates_h = gates_h if b_hh is None else gates_h + up(b_hh)
        if here is not None:
            gates_h = jnp.where(here, gates_h, 0)  # the native loop multiplies only what exists
        new = cell(gates_x, gates_h, state)
        if w_hr is not None:
            new = (_project(new[0], w_hr, None), *new[1:])
        if here is not None:
            new = tuple(jnp.where(here, n, s) for n, s in zip(new, state, strict=True))
        return new, (gates_h if mode == "gru" else gates_x + gates_h, *new)

    last, (gates, *states) = lax.scan(
        advance, tuple(map(up, state)), (gates_x, exists), reverse=reverse
    )
    return last, gates, *states


def _loop_gradient(mode, d_last, gates_x, gates, before, d_gates, d_states, w_hh, w_hr, exists, reverse):
    """The gradients of the first states; of all times those of the gates, of a GRU's input's gates, and with
    ``w_hr`` the factors of its gradient."""
    cell = _CELLS[mode]

    def step(d, now):
        gates_x, gates, before, d_gates, d_states, here = now
        d = [a + b for a, b in zip(d, d_states, strict=True)]
        kept = d
        if here is not None:
            d = [jnp.where(here, x, 0) for x in d]
        if mode == "gru":
            new, pull = jax.vjp(lambda g, s: cell(gates_x, g, s), gates, before)
            _, pull_x = jax.vjp(lambda g: cell(g, gates, before), gates_x)
        else:
            new, pull = jax.vjp(lambda g, s: cell(g, jnp.zeros((), g.dtype), s), gates, before)
        projected = ()
        if w_hr is not None:
            projected = d[0], new[0]
            d[0] = product(d[0], up(w_hr))
        d_own, d_before = pull(tuple(d))
        d_x = pull_x(tuple(d))[0] if mode == "gru" else None
        d_own = d_own + d_gates
        d_before = [d_before[0] + product(d_own, w_hh), *d_before[1:]]
        if here is not None:
            d_before = [jnp.where(here, a, b) for a, b in zip(d_before, kept, strict=True)]
        return d_before, (d_own, d_x, projected)

    d_state, (d_gates, d_x, projected) = lax.scan(
        step, d_last, (gates_x, gates, before, d_gates, d_states, exists), reverse=not reverse
    )
    return d_state, d_gates, d_x, projected


def _lstm_loop(gates_x, h, c, w_hh, exists=None, *, reverse):
    return _loop("lstm", gates_x, (h, c), w_hh, None, None, exists, reverse)[1:]


def _lstm_loop_gradient(gates, cells, c, d_hidden, d_cells, d_gates, d_h, d_c, w_hh, exists=None, *, reverse):
    before = _before(cells, c, reverse)
    d_state, d_gates, _, _ = _loop_gradient(
        "lstm", [d_h, d_c], None, gates, (jnp.zeros_like(before), before), d_gates, [d_hidden, d_cells],
        w_hh, None, exists, reverse,
    )
    return d_gates, *d_state


def _of_sequences(which, weight):
    """A rule of `vmap` for a loop: with one weight (that operand) for all, what is mapped is more sequences."""

    def mapped(operands, axes, **how):
        if axes[weight] is not None:
            function = functools.partial(which().meaning, **how)
            results = jax.vmap(function, in_axes=axes)(*operands)
            return results, [0] * len(results)
        size = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
        flat = []
        for i, (x, axis) in enumerate(zip(operands, axes, strict=True)):
            if i == weight:
                flat.append(x)
                continue
            at = (x.ndim if axis is None else x.ndim - 1) - 2  # of the sequences
            shape = (*x.shape[:at], size, *x.shape[at:])
            x = jnp.broadcast_to(jnp.expand_dims(x, at), shape) if axis is None else jnp.moveaxis(x, axis, at)
            flat.append(x.reshape(*x.shape[:at], -1, x.shape[-1]))
        results = which().bind(*flat, **how)
        return [r.reshape(*r.shape[:-2], size, -1, r.shape[-1]) for r in results], [r.ndim - 2 for r in results]

    return mapped


def _like(*operands):
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]


def _lstm_shapes(gates, h, c, w_hh, exists=None):
    state = jax.ShapeDtypeStruct((*gates.shape[:2], h.shape[-1]), gates.dtype)
    return [*_like(gates), state, state]


def _lstm_gradient_shapes(gates, cells, c, d_hidden, d_cells, d_gates, d_h, d_c, w_hh, exists=None):
    return _like(gates, d_h, d_c)


# Each gives of all times the gates, hidden states and cells; its gradient those of the gates and of the first states.
# Of packed sequences the last operand says which exist, (time, sequence, 1).
_LSTM = primitive("lstm", _lstm_loop, _lstm_shapes, _of_sequences(lambda: _LSTM, 3))
_LSTM_GRADIENT = primitive(
    "lstm_gradient", _lstm_loop_gradient, _lstm_gradient_shapes, _of_sequences(lambda: _LSTM_GRADIENT, 8)
)


def _if_any(exists):
    return () if exists is None else (exists,)


def _before(states, first, reverse):
    """For each time the state before it."""
    first = up(first)[None]
    return jnp.concatenate([states[1:], first] if reverse else [first, states[:-1]])


def _layer(mode, input, state, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, reverse):
    """Runs a cell over time.

    Returns:
        the outputs; the last of each state; of all times, in (time, batch): the input's gates, the
        gates (of a GRU the state's), and each state.
    """
    gates_x = _project(input, w_ih, b_ih)  # of all time steps in one product
    exists = None
    if batch_sizes is not None:
        row, exists, time, sequence = _packing(batch_sizes, input.shape[0], state[0].shape[0])
        gates_x = gates_x[row]
    if mode == "lstm" and w_hr is None:
        biased = gates_x if b_hh is None else gates_x + up(b_hh)
        gates, *states = _LSTM.bind(biased, *map(up, state), up(w_hh), *_if_any(exists), reverse=reverse)
        last = [s[0 if reverse else -1] for s in states]
    else:
        last, gates, *states = _loop(mode, gates_x, state, w_hh, b_hh, w_hr, exists, reverse)
    output = states[0] if batch_sizes is None else states[0][time, sequence]
    last = tuple(new.astype(s.dtype) for new, s in zip(last, state, strict=True))
    return output.astype(input.dtype), *last, gates_x, gates, *states


def _layer_gradient(mode, grad, result, input, state, w_ih, w_hh, w_hr, batch_sizes, reverse):
    """The gradients of `_layer`'s input, states, and weights and biases in its order.

    The loop gives the gradients of the gates; those of the weights are then one product each.
    """
    count = len(state)
    d_output, *d_last = map(up, grad[: 1 + count])
    d_gates_x, d_gates, *d_states = grad[1 + count :]
    gates_x, gates, *states = result[1 + count :]
    input, w_ih, w_hh = up(input), up(w_ih), up(w_hh)
    exists = None
    if batch_sizes is not None:
        _, exists, time, sequence = _packing(batch_sizes, input.shape[0], state[0].shape[0])
        d_output = jnp.zeros(states[0].shape, d_output.dtype).at[time, sequence].set(d_output)
    before = [_before(s, s0, reverse) for s, s0 in zip(states, state, strict=True)]
    d_states[0] = d_states[0] + d_output

    d_x, projected = None, ()
    if mode == "lstm" and w_hr is None:
        d_gates, *d_state = _LSTM_GRADIENT.bind(
            gates, states[1], up(state[1]), *d_states, d_gates, *d_last, w_hh, *_if_any(exists), reverse=reverse
        )
    else:
        d_state, d_gates, d_x, projected = _loop_gradient(
            mode, d_last, gates_x, gates, tuple(before), d_gates, d_states, w_hh, w_hr, exists, reverse
        )
    d_b_hh, d_b_ih = d_gates.sum((0, 1)), None
    if d_x is None and batch_sizes is None:  # the sums are the same but for what the gates got from outside
        d_b_ih = d_b_hh + d_gates_x.sum((0, 1))
    d_x = d_gates_x + (d_gates if d_x is None else d_x)
    if batch_sizes is not None:
        d_x = d_x[time, sequence]
    everything = tuple(range(d_x.ndim - 1))
    if d_b_ih is None:
        d_b_ih = d_x.sum(everything)
    d_w_ih = jnp.tensordot(d_x, input, axes=(everything, everything))
    d_w_hh, d_w_hr = _over_time(d_gates, before[0]), None
    if w_hr is not None:
        d_w_hr = _over_time(*projected)
    return (
        product(d_x, w_ih), *d_state, d_w_ih, d_w_hh, d_b_ih, d_b_hh, d_w_hr,
    )


def _over_time(grad, x):
    return jnp.tensordot(grad, x, axes=((0, 1), (0, 1)))


@op(
    "_rnn_layer(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, "
    "Tensor? batch_sizes, str mode, bool reverse) -> "
    "(Tensor output, Tensor hy, Tensor gates_x, Tensor gates, Tensor hidden)"
)
def _rnn_layer(input, hx, w_ih, w_hh, b_ih, b_hh, batch_sizes, mode, reverse):
    return _layer(mode, input, (hx,), w_ih, w_hh, b_ih, b_hh, None, batch_sizes, reverse)


_rnn_layer.of_any_device("batch_sizes")


@_rnn_layer.derivative
def _(grad, result, input, hx, w_ih, w_hh, b_ih, b_hh, batch_sizes, mode, reverse):
    *found, d_b_ih, d_b_hh, _ = _layer_gradient(
        mode, grad, result, input, (hx,), w_ih, w_hh, None, batch_sizes, reverse
    )
    return *found, _if_there(b_ih, d_b_ih), _if_there(b_hh, d_b_hh), None


@op(
    "_lstm_layer(Tensor input, Tensor hx, Tensor cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, "
    "Tensor? b_hh, Tensor? w_hr, Tensor? batch_sizes, bool reverse) -> "
    "(Tensor output, Tensor hy, Tensor cy, Tensor gates_x, Tensor gates, Tensor hidden, Tensor cell)"
)
def _lstm_layer(input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, reverse):
    return _layer("lstm", input, (hx, cx), w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, reverse)


_lstm_layer.of_any_device("batch_sizes")


@_lstm_layer.derivative
def _(grad, result, input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, reverse):
    *found, d_b_ih, d_b_hh, d_w_hr = _layer_gradient(
        "lstm", grad, result, input, (hx, cx), w_ih, w_hh, w_hr, batch_sizes, reverse
    )
    return *found, _if_there(b_ih, d_b_ih), _if_there(b_hh, d_b_hh), d_w_hr, None


def _if_there(bias, gradient):
    return None if bias is None else gradient


def _check_cell(input, state, w_ih, w_hh, gates):
    """Raises PyTorch's errors for sizes that do not fit."""
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}"
        )
    hidden = w_hh.shape[0] // gates
    for i, hx in enumerate(state):
        if input.shape[0] != hx.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {hx.shape[0]}"
            )
        if hx.shape[1] != hidden:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {hx.shape[1]}, expected {hidden}"
            )


def _cell(mode, input, state, w_ih, w_hh, b_ih, b_hh):
    _check_cell(input, state, w_ih, w_hh, {"gru": 3, "lstm": 4}.get(mode, 1))
    gates_x, gates_h = _project(input, w_ih, b_ih), _project(state[0], w_hh, b_hh)
    new = _CELLS[mode](gates_x, gates_h, tuple(map(up, state)))
    return tuple(n.astype(s.dtype) for n, s in zip(new, state, strict=True))


_CELL_ARGUMENTS = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"


@op(f"rnn_tanh_cell(Tensor input, Tensor hx, {_CELL_ARGUMENTS}) -> Tensor")
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    return _cell("tanh", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@op(f"rnn_relu_cell(Tensor input, Tensor hx, {_CELL_ARGUMENTS}) -> Tensor")
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    return _cell("relu", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@op(f"gru_cell(Tensor input, Tensor hx, {_CELL_ARGUMENTS}) -> Tensor")
def gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    return _cell("gru", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@op(f"lstm_cell(Tensor input, Tensor[] hx, {_CELL_ARGUMENTS}) -> (Tensor, Tensor)")
def lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    return _cell("lstm", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
