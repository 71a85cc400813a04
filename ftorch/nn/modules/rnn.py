"""Recurrent networks and their cells."""

from __future__ import annotations

import math
import numbers
import warnings

from ...eager.core import api as torch
from ...eager.tensor import Tensor as Tensor
from .. import init
from ..parameter import Parameter as Parameter
from ..utils import rnn as _sequences
from ..utils.rnn import PackedSequence
from .module import Module
from .utils import new_parameter

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _check_type(name, value, kind):
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def apply_permutation(tensor, permutation, dim: int = 1):
    """A tensor with a dimension in another order. Deprecated."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead", FutureWarning,
        stacklevel=2,
    )
    return tensor.index_select(dim, permutation)


def _draw_uniform(module):
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` share.

    Args:
        mode: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``.
        input_size, hidden_size: features of the input and of the state.
        num_layers: layers, each of which gets the outputs of the one before.
        bias: whether there are biases.
        batch_first: tensors are (N, L, H) instead of (L, N, H).
        dropout: of the outputs of every layer but the last.
        bidirectional: also run from the end to the beginning; outputs are put side by side.
        proj_size: features to which an LSTM's output is projected (0: none).

    Raises:
        TypeError, ValueError: an argument of another type or out of range.
    """

    _ftorch_state_names = ("hx",)

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None,
    ):
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._ftorch_check_arguments(dropout)
        self._all_weights = []
        gates = _GATES[mode] * hidden_size
        outputs = proj_size or hidden_size
        for layer in range(num_layers):
            inputs = outputs * (1 + bidirectional) if layer else input_size
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes = {"weight_ih": (gates, inputs), "weight_hh": (gates, outputs)}
                if bias:
                    shapes.update(bias_ih=(gates,), bias_hh=(gates,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for kind, shape in shapes.items():
                    names.append(f"{kind}_l{layer}{suffix}")
                    setattr(self, names[-1], new_parameter(*shape, device=device, dtype=dtype))
                self._all_weights.append(names)
        self.reset_parameters()

    def _ftorch_check_arguments(self, dropout):
        is_number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
        if not is_number or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        _check_type("bias", self.bias, bool)
        _check_type("batch_first", self.batch_first, bool)
        for name in ("input_size", "hidden_size"):
            _check_type(name, getattr(self, name), int)
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def reset_parameters(self) -> None:
        """Draws new values, uniform in +-1/sqrt(hidden_size)."""
        _draw_uniform(self)

    def flatten_parameters(self) -> None:
        """Does nothing: there is no library that wants its weights in one piece."""

    @property
    def all_weights(self):
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        given = self.__dict__.get("_ftorch_given_weights")
        return [getattr(self, name) for name in self._flat_weights_names] if given is None else given

    @_flat_weights.setter
    def _flat_weights(self, weights):
        # Whoever computes the weights puts them here; they last until the next call after a parameter was replaced.
        self.__dict__["_ftorch_given_weights"] = weights
        self.__dict__["_ftorch_replaced_weight"] = False

    def __setattr__(self, name, value):
        given = self.__dict__.get("_ftorch_given_weights")
        if given is not None and name in self._flat_weights_names:
            given[self._flat_weights_names.index(name)] = value
            self.__dict__["_ftorch_replaced_weight"] = True
        super().__setattr__(name, value)

    def _apply(self, fn, recurse=True):
        self.__dict__.pop("_ftorch_given_weights", None)
        return super()._apply(fn, recurse)

    # checks

    def check_input(self, input, batch_sizes) -> None:
        """Raises for an input of another dtype (ValueError) or shape (RuntimeError)."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype and not _is_autocasting():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.size(-1)}"
            )

    def _ftorch_state_size(self, input, batch_sizes, features):
        if batch_sizes is not None:
            batch = _sequences.batch_of(batch_sizes)
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * (1 + self.bidirectional), batch, features

    def get_expected_hidden_size(self, input, batch_sizes) -> tuple[int, int, int]:
        """The shape of the state: (layers * directions, N, features)."""
        return self._ftorch_state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """Raises RuntimeError for a state of another shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes) -> None:
        """Raises for an input or a state that does not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The state with its sequences in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # what `LSTM`, whose state is a pair, does in another way

    def _ftorch_map_state(self, function, hx):
        return function(hx)

    def _ftorch_initial_state(self, input, batch_sizes):
        size = self.get_expected_hidden_size(input, batch_sizes)
        return torch.zeros(size, dtype=input.dtype, device=input.device)

    def _ftorch_check_state_dims(self, hx, is_batched):
        wanted, name = (3, "batched") if is_batched else (2, "unbatched")
        if hx.dim() != wanted:
            raise RuntimeError(
                f"For {name} {wanted}-D input, hx should also be {wanted}-D but got {hx.dim()}-D "
                "tensor"
            )

    _ftorch_dims_suffix = ""

    def forward(self, input, hx=None):
        """Runs over sequences.

        Args:
            input: (L, N, input_size), or (N, L, input_size) with ``batch_first``, or
                (L, input_size), or a `PackedSequence`.
            hx: the initial state, (layers * directions, N, hidden_size); zeros by default. Of an
                LSTM a pair: the output's state, and the cell's.

        Returns:
            the outputs of the last layer, and the last states of all layers.
        """
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, inverse = input
            if hx is None:
                hx = self._ftorch_initial_state(data, batch_sizes)
            else:
                hx = self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, batch_sizes)
            output, hidden = self._ftorch_call_network(data, batch_sizes, hx)
            output = PackedSequence(output, batch_sizes, order, inverse)
            return output, self.permute_hidden(hidden, inverse)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D"
                f"{self._ftorch_dims_suffix} instead"
            )
        is_batched, batch_dim = input.dim() == 3, 0 if self.batch_first else 1
        if hx is not None:
            self._ftorch_check_state_dims(hx, is_batched)
        if not is_batched:
            input = input.unsqueeze(batch_dim)
            if hx is not None:
                hx = self._ftorch_map_state(lambda state: state.unsqueeze(1), hx)
        if hx is None:
            hx = self._ftorch_initial_state(input, None)
        self.check_forward_args(input, hx, None)
        if not input.size(1 - batch_dim):
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        output, hidden = self._ftorch_call_network(input, None, hx)
        if not is_batched:
            output = output.squeeze(batch_dim)
            hidden = self._ftorch_map_state(lambda state: state.squeeze(1), hidden)
        return output, hidden

    def _ftorch_used_weights(self):
        """What the network computes with; a place for weights that are rounded."""
        if self.__dict__.get("_ftorch_replaced_weight"):
            self.__dict__.pop("_ftorch_given_weights", None)
        return self._flat_weights

    def _ftorch_call_network(self, input, batch_sizes, hx):
        network = getattr(torch, self.mode.lower())
        settings = (
            self._ftorch_used_weights(), self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional,
        )
        if batch_sizes is None:
            output, *hidden = network(input, hx, *settings, self.batch_first)
        else:
            output, *hidden = network(input, batch_sizes, hx, *settings)
        return output, hidden[0] if len(hidden) == 1 else tuple(hidden)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        shown = (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
            ("dropout", 0), ("bidirectional", False),
        )
        for name, usual in shown:
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def __setstate__(self, state):
        super().__setstate__(state)
        # What PyTorch's own modules keep beside the parameters is derived here.
        for derived in ("_flat_weights", "_flat_weights_names", "_flat_weight_refs"):
            self.__dict__.pop(derived, None)
        self.__dict__.setdefault("proj_size", 0)


def _is_autocasting():
    is_enabled = getattr(torch, "is_autocast_enabled", None)
    return is_enabled is not None and is_enabled()


def _check_no_projection(kwargs):
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` over the time steps.

    Args:
        input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout,
            bidirectional: those of `RNNBase`; the nonlinearity is ``"tanh"`` or ``"relu"``.

    >>> import ftorch as torch
    >>> output, h = torch.nn.RNN(3, 4)(torch.randn(5, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    _ftorch_dims_suffix = " tensor"

    def __init__(self, *args, **kwargs):
        _check_no_projection(kwargs)
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Gated recurrent units. The arguments are those of `RNNBase` without ``mode``.

    >>> import ftorch as torch
    >>> output, h = torch.nn.GRU(3, 4, bidirectional=True)(torch.randn(5, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args, **kwargs):
        _check_no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory. The arguments are those of `RNNBase` without ``mode``.

    >>> import ftorch as torch
    >>> output, (h, c) = torch.nn.LSTM(3, 4)(torch.randn(5, 2, 3))
    >>> output.shape, c.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes) -> tuple[int, int, int]:
        """The shape of the cell's state."""
        return self._ftorch_state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes) -> None:
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for i, size in enumerate(sizes):
            self.check_hidden_size(hidden[i], size, f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx, permutation):
        if permutation is None:
            return hx
        return self._ftorch_map_state(lambda state: state.index_select(1, permutation), hx)

    def _ftorch_map_state(self, function, hx):
        return function(hx[0]), function(hx[1])

    def _ftorch_initial_state(self, input, batch_sizes):
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        factory = {"dtype": input.dtype, "device": input.device}
        return tuple(torch.zeros(size, **factory) for size in sizes)

    def _ftorch_check_state_dims(self, hx, is_batched):
        wanted, name = (3, "batched") if is_batched else (2, "unbatched")
        if hx[0].dim() != wanted or hx[1].dim() != wanted:
            raise RuntimeError(
                f"For {name} {wanted}-D input, hx and cx should also be {wanted}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )


class RNNCellBase(Module):
    """What the cells share: one time step, with the weights of ``num_chunks`` gates."""

    _ftorch_function: str

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates, factory = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = new_parameter(gates, input_size, **factory)
        self.weight_hh = new_parameter(gates, hidden_size, **factory)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter(gates, **factory) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new values, uniform in +-1/sqrt(hidden_size)."""
        _draw_uniform(self)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _ftorch_check_dims(self, value, what):
        if value.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {value.dim()}D "
                "instead"
            )

    def _ftorch_zeros(self, input):
        return torch.zeros(
            input.size(0), self.hidden_size, dtype=input.dtype, device=input.device
        )

    def _ftorch_call_cell(self, input, hx):
        weights = self._ftorch_used_weights()
        return getattr(torch, self._ftorch_function)(input, hx, *weights, self.bias_ih, self.bias_hh)

    def _ftorch_used_weights(self):
        """What the cell computes with; a place for weights that are rounded."""
        return self.weight_ih, self.weight_hh

    def forward(self, input, hx=None):
        """One time step.

        Args:
            input: (N, input_size) or (input_size).
            hx: the state, (N, hidden_size) or (hidden_size); zeros by default.

        Returns:
            the new state.

        Raises:
            ValueError: another number of dimensions.
        """
        self._ftorch_check_dims(input, "input")
        if hx is not None:
            self._ftorch_check_dims(hx, "hidden")
        if input.dim() == 2:
            return self._ftorch_call_cell(input, self._ftorch_zeros(input) if hx is None else hx)
        input = input.unsqueeze(0)
        hx = self._ftorch_zeros(input) if hx is None else hx.unsqueeze(0)
        return self._ftorch_call_cell(input, hx).squeeze(0)


class RNNCell(RNNCellBase):
    """One time step of an `RNN`; the nonlinearity is ``"tanh"`` or ``"relu"``."""

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _ftorch_call_cell(self, input, hx):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        self._ftorch_function = f"rnn_{self.nonlinearity}_cell"
        return super()._ftorch_call_cell(input, hx)


class GRUCell(RNNCellBase):
    """One time step of a `GRU`."""

    _ftorch_function = "gru_cell"

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)


class LSTMCell(RNNCellBase):
    """One time step of an `LSTM`; the state is a pair."""

    _ftorch_function = "lstm_cell"

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        """One time step; see `RNNCellBase.forward`."""
        self._ftorch_check_dims(input, "input")
        if isinstance(hx, torch.Tensor):
            raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor")
        for i, state in enumerate(hx or ()):
            self._ftorch_check_dims(state, f"hx[{i}]")
        is_batched = input.dim() == 2
        if not is_batched:
            input = input.unsqueeze(0)
            if hx is not None:
                hx = tuple(state.unsqueeze(0) for state in hx)
        if hx is None:
            hx = (self._ftorch_zeros(input),) * 2
        new = self._ftorch_call_cell(input, hx)
        return tuple(new) if is_batched else tuple(state.squeeze(0) for state in new)
