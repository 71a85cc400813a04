"""Recurrent layers that quantize their inputs by the inputs' range (``torch.ao.nn.quantized.dynamic.modules.rnn``)."""

from __future__ import annotations

import numbers
import warnings

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn.quantized.modules.utils import _quantize_weight
from ftorch.nn.utils import rnn as _sequences
from ftorch.nn.utils.rnn import PackedSequence

__all__ = [
    "GRU", "GRUCell", "LSTM", "LSTMCell", "PackedParameter", "RNNBase", "RNNCell", "RNNCellBase", "apply_permutation",
    "pack_weight_bias",
]

ops = torch.ops.quantized


def apply_permutation(tensor, permutation, dim=1):
    """Elements of a dimension in another order."""
    warnings.warn("apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead",
                  FutureWarning, stacklevel=2)
    return tensor.index_select(dim, permutation)


def pack_weight_bias(qweight, bias, dtype):
    """The packed weights of a product."""
    if dtype is torch.qint8:
        return ops.linear_prepack(qweight, bias)
    return ops.linear_prepack_fp16(qweight, bias)


class PackedParameter(torch.nn.Module):
    """A cell's packed weights as a module."""

    def __init__(self, param):
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )


def _random_weight(rows, columns, dtype):
    weight = torch.randn(rows, columns)
    return torch.quantize_per_tensor(weight, 1, 0, torch.qint8) if dtype is torch.qint8 else weight


def _cell(w_ih, w_hh, b_ih, b_hh, dtype):
    if dtype is torch.qint8:
        return ops.make_quantized_cell_params_dynamic(w_ih, w_hh, b_ih, b_hh, True)
    return ops.make_quantized_cell_params_fp16(w_ih, w_hh)


def _packable(weight):
    """Weights of half precision are packed from float32."""
    return weight.float() if weight.dtype is torch.float16 else weight


def _observer_of(mod):
    qconfig = getattr(mod, "qconfig", None)
    if qconfig is not None and qconfig.weight is not None:
        return qconfig.weight
    return torch.ao.quantization.default_dynamic_qconfig.weight


def _quantized_product(make_observer, weight, bias, dtype):
    weight = weight.detach().float()
    if dtype is torch.qint8:
        observer = make_observer()
        observer(weight)
        weight = _quantize_weight(weight, observer)
    return pack_weight_bias(weight, bias, dtype)


class RNNBase(torch.nn.Module):
    """The common part of the recurrent layers."""

    _FLOAT_MODULE = nn.RNNBase
    _version = 2

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, dtype=torch.qint8):
        super().__init__()
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.dtype, self.version = bidirectional, dtype, 2
        self.training = False
        gates = {"LSTM": 4, "GRU": 3}.get(mode)
        if gates is None:
            raise ValueError("Unrecognized RNN mode: " + mode)
        cells = []
        for layer in range(num_layers):
            given = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            for _ in range(2 if bidirectional else 1):
                weights = [_random_weight(gates * hidden_size, n, dtype) for n in (given, hidden_size)]
                biases = [torch.randn(gates * hidden_size) for _ in weights]
                parts = [pack_weight_bias(w, b, dtype) for w, b in zip(weights, biases)]
                cells.append(PackedParameter(_cell(*parts, *biases, dtype)))
        self._all_weight_values = torch.nn.ModuleList(cells)

    def _get_name(self):
        return "DynamicQuantizedRNN"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                              ("bidirectional", False)):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"  # without the packed weights

    def _params(self):
        return [m.param for m in self._all_weight_values]

    def _settings(self):
        return True, self.num_layers, float(self.dropout), self.training, self.bidirectional

    def check_input(self, input, batch_sizes) -> None:
        """Raises RuntimeError for inputs of another shape."""
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input, batch_sizes):
        """The sizes of a state for an input, or for packed data whose batch sizes are given."""
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else _sequences.batch_of(batch_sizes)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size

    check_hidden_size, check_forward_args = nn.RNNBase.check_hidden_size, nn.RNNBase.check_forward_args
    permute_hidden = nn.RNNBase.permute_hidden

    def _initial(self, batch, input):
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return torch.zeros(layers, batch, self.hidden_size, dtype=input.dtype, device=input.device)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of an LSTM or GRU in floating point that has a QConfig.

        Raises:
            AssertionError: for other modules.
        """
        if type(mod) not in (nn.LSTM, nn.GRU):
            raise AssertionError("nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input RNNBase module must have qconfig attribute")
        make_observer = _observer_of(mod)
        dtype = make_observer().dtype
        if dtype not in (torch.qint8, torch.float16):
            raise RuntimeError(f"Unsupported dtype {dtype} for dynamic quantized RNN")
        kind = LSTM if mod.mode == "LSTM" else GRU
        made = kind(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
                    mod.bidirectional, dtype)
        if not mod.bias:
            raise AssertionError("mod.bias must be True")

        def product(weight, bias):
            return _quantized_product(make_observer, getattr(mod, weight), getattr(mod, bias), dtype)

        return made._with_products(mod, product)

    def _with_products(self, mod, product):
        """The layer with other weights.

        Args:
            product: packs the weight and the bias of two names.
        """
        cells = []
        for layer in range(mod.num_layers):
            for suffix in ("", "_reverse") if mod.bidirectional else ("",):
                names = [(f"weight_{part}_l{layer}{suffix}", f"bias_{part}_l{layer}{suffix}") for part in ("ih", "hh")]
                packed = [product(weight, bias) for weight, bias in names]
                biases = [getattr(mod, bias) for _, bias in names]
                cells.append(PackedParameter(_cell(*packed, *biases, self.dtype)))
        self._all_weight_values = torch.nn.ModuleList(cells)
        return self

    @classmethod
    def from_reference(cls, ref_mod):
        """The layer of one that computes with rounded numbers."""
        weights, dtype = ref_mod.get_quantized_weight_bias_dict(), ref_mod.weight_ih_l0_dtype
        made = cls(ref_mod.input_size, ref_mod.hidden_size, ref_mod.num_layers, ref_mod.bias, ref_mod.batch_first,
                   ref_mod.dropout, ref_mod.bidirectional, dtype)

        def product(weight, bias):
            return pack_weight_bias(_packable(weights[weight]), weights[bias].detach(), dtype)

        return made._with_products(ref_mod, product)

    def set_weight_bias(self, weight_bias_dict) -> None:
        """Packs other weights, by the names of `get_weight` and `get_bias`; those of another dtype change the layer's kind.

        Raises:
            KeyError: a name that is missing.
        """
        cells = []
        for weight_ih, bias_ih, weight_hh, bias_hh in self._names():
            weights = [weight_bias_dict[name] for name in (weight_ih, weight_hh)]
            biases = [weight_bias_dict[name] for name in (bias_ih, bias_hh)]
            dtype = torch.qint8 if weights[0].dtype is torch.qint8 else torch.float16
            packed = [pack_weight_bias(w, b, dtype) for w, b in zip(weights, biases)]
            cells.append(PackedParameter(_cell(*packed, *biases, dtype)))
        self._all_weight_values = torch.nn.ModuleList(cells)

    def _names(self):
        """The names of weights and biases, for each cell."""
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        return [
            tuple(f"{kind}_{part}_l{layer}{suffix}" for part in ("ih", "hh") for kind in ("weight", "bias"))
            for layer in range(self.num_layers) for suffix in suffixes
        ]

    def _weight_bias(self):
        return {"weight": self.get_weight(), "bias": self.get_bias()}

    def get_weight(self):
        """{name: weight}, quantized."""
        return {k: v[0] for k, v in self._products().items()}

    def get_bias(self):
        """{name: bias}."""
        return {k.replace("weight", "bias"): v[1] for k, v in self._products().items()}

    def _products(self):
        found = {}
        for (weight_ih, _, weight_hh, _), packed in zip(self._names(), self._all_weight_values):
            found[weight_ih], found[weight_hh] = packed.param.w_ih.unpack(), packed.param.w_hh.unpack()
        return found


class LSTM(RNNBase):
    """An LSTM of quantized weights; its inputs are quantized by their range.

    >>> import ftorch as torch
    >>> out, (h, c) = torch.ao.nn.quantized.dynamic.LSTM(3, 4)(torch.ones(5, 2, 3))
    >>> out.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTM"

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            data, sizes, sorted_indices, unsorted_indices = input
            out, hidden = self._run(data, hx, sizes, _sequences.batch_of(sizes), sorted_indices)
            packed = PackedSequence(out, sizes, sorted_indices, unsorted_indices)
            return packed, self.permute_hidden(hidden, unsorted_indices)
        return self._run(input, hx, None, input.size(0 if self.batch_first else 1), None)

    def permute_hidden(self, hx, permutation):
        """Both states in the order that sequences are packed in."""
        return hx if permutation is None else tuple(h.index_select(1, permutation) for h in hx)

    def check_forward_args(self, input, hidden, batch_sizes) -> None:
        """Raises RuntimeError for inputs and states that do not fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        for i in (0, 1):
            self.check_hidden_size(hidden[i], expected, f"Expected hidden[{i}] size {{}}, got {{}}")

    def _run(self, input, hx, sizes, batch, order):
        hx = (self._initial(batch, input),) * 2 if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(input, hx, sizes)
        if sizes is None:
            result = torch.quantized_lstm(input, hx, self._params(), *self._settings(), self.batch_first,
                                          dtype=self.dtype, use_dynamic=True)
        else:
            result = torch.quantized_lstm(input, sizes, hx, self._params(), *self._settings(), dtype=self.dtype,
                                          use_dynamic=True)
        return result[0], result[1:]

class GRU(RNNBase):
    """A GRU of quantized weights; its inputs are quantized by their range."""

    _FLOAT_MODULE = nn.GRU

    def __init__(self, *args, **kwargs):
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedGRU"

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            data, sizes, sorted_indices, unsorted_indices = input
            out, hidden = self._run(data, hx, sizes, _sequences.batch_of(sizes), sorted_indices)
            hidden = self.permute_hidden(hidden, unsorted_indices)
            return PackedSequence(out, sizes, sorted_indices, unsorted_indices), hidden
        return self._run(input, hx, None, input.size(0 if self.batch_first else 1), None)

    def _run(self, input, hx, sizes, batch, order):
        hx = self._initial(batch, input) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(input, hx, sizes)
        if sizes is None:
            return torch.quantized_gru(input, hx, self._params(), *self._settings(), self.batch_first)
        return torch.quantized_gru(input, sizes, hx, self._params(), *self._settings())

class RNNCellBase(torch.nn.Module):
    """The common part of the cells."""

    def __init__(self, input_size, hidden_size, bias=True, num_chunks=4, dtype=torch.qint8):
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        self.bias_ih = torch.randn(num_chunks * hidden_size) if bias else None
        self.bias_hh = torch.randn(num_chunks * hidden_size) if bias else None
        rows = num_chunks * hidden_size
        weight = _random_weight(rows, input_size, dtype)
        self._packed_weight_ih = pack_weight_bias(weight, self.bias_ih, dtype)
        weight = _random_weight(rows, hidden_size, dtype)
        self._packed_weight_hh = pack_weight_bias(weight, self.bias_hh, dtype)

    def _get_name(self):
        return "DynamicQuantizedRNNBase"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else text + f", nonlinearity={nonlinearity}"

    def check_forward_input(self, input):
        """Raises RuntimeError for inputs of another size."""
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}")

    def check_forward_hidden(self, input, hx, hidden_label="") -> None:
        """Raises RuntimeError for a state that does not fit an input."""
        if input.size(0) != hx.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} batch size {hx.size(0)}"
            )
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, expected {self.hidden_size}"
            )

    def _begin(self, input, hx):
        self.check_forward_input(input)
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        self.check_forward_hidden(input, hx)
        return hx

    def _operands(self):
        return self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The cell of one in floating point that has a QConfig.

        Raises:
            AssertionError: for other modules.
        """
        if type(mod) not in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
            raise AssertionError(
                "nn.quantized.dynamic.RNNCellBase.from_float                                  "
                "only works for nn.LSTMCell, nn.GRUCell and nn.RNNCell"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input RNNCellBase module must have qconfig attribute")
        make_observer = _observer_of(mod)
        dtype = make_observer().dtype
        arguments = {"bias": mod.bias, "dtype": dtype}
        if isinstance(mod, nn.RNNCell):
            arguments["nonlinearity"] = mod.nonlinearity
        kind = {nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell, nn.RNNCell: RNNCell}[type(mod)]
        made = kind(mod.input_size, mod.hidden_size, **arguments)
        if not mod.bias:
            raise AssertionError("mod.bias must be True")
        made._packed_weight_ih = _quantized_product(make_observer, mod.weight_ih, mod.bias_ih, dtype)
        made._packed_weight_hh = _quantized_product(make_observer, mod.weight_hh, mod.bias_hh, dtype)
        made.bias_ih, made.bias_hh = (None if b is None else b.detach() for b in (mod.bias_ih, mod.bias_hh))
        return made

    @classmethod
    def from_reference(cls, ref_mod):
        """The cell of one that computes with rounded numbers."""
        dtype = ref_mod.weight_ih_dtype
        options = {"nonlinearity": ref_mod.nonlinearity} if isinstance(ref_mod, nn.RNNCell) else {}
        made = cls(ref_mod.input_size, ref_mod.hidden_size, ref_mod.bias, dtype=dtype, **options)
        made.bias_ih, made.bias_hh = (None if b is None else b.detach() for b in (ref_mod.bias_ih, ref_mod.bias_hh))
        made._packed_weight_ih = pack_weight_bias(_packable(ref_mod.get_quantized_weight_ih()), made.bias_ih, dtype)
        made._packed_weight_hh = pack_weight_bias(_packable(ref_mod.get_quantized_weight_hh()), made.bias_hh, dtype)
        return made

    def set_weight_bias(self, weight_bias_dict) -> None:
        """Packs other weights: ``{"weight": {"weight_ih": ..., "weight_hh": ...}, "bias": {"bias_ih": ..., "bias_hh": ...}}``.

        Raises:
            KeyError: a name that is missing.
        """
        for part in ("ih", "hh"):
            weight, bias = weight_bias_dict["weight"][f"weight_{part}"], weight_bias_dict["bias"][f"bias_{part}"]
            setattr(self, f"_packed_weight_{part}", pack_weight_bias(weight, bias, self.weight_dtype))

    def _weight_bias(self):
        return {"weight": self.get_weight(), "bias": self.get_bias()}

    def get_weight(self):
        """{name: weight}, quantized."""
        return {"weight_ih": self._packed_weight_ih.unpack()[0], "weight_hh": self._packed_weight_hh.unpack()[0]}

    def get_bias(self):
        """{name: bias}."""
        return {"bias_ih": self._packed_weight_ih.unpack()[1], "bias_hh": self._packed_weight_hh.unpack()[1]}

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = self._packed_weight_ih
        destination[prefix + "_packed_weight_hh"] = self._packed_weight_hh

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )


class RNNCell(RNNCellBase):
    """An Elman cell of quantized weights."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=torch.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self):
        return "DynamicQuantizedRNNCell"

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = getattr(ops, f"quantized_rnn_{self.nonlinearity}_cell_dynamic")
        return function(input, self._begin(input, hx), *self._operands())


class LSTMCell(RNNCellBase):
    """An LSTM's cell of quantized weights."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, num_chunks=4, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTMCell"

    def forward(self, input, hx=None):
        if hx is None:
            hx = (self._begin(input, None),) * 2
        self.check_forward_input(input)
        self.check_forward_hidden(input, hx[0], "[0]")
        self.check_forward_hidden(input, hx[1], "[1]")
        return ops.quantized_lstm_cell_dynamic(input, hx, *self._operands())


class GRUCell(RNNCellBase):
    """A GRU's cell of quantized weights."""

    def __init__(self, input_size, hidden_size, bias=True, dtype=torch.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self):
        return "DynamicQuantizedGRUCell"

    def forward(self, input, hx=None):
        return ops.quantized_gru_cell_dynamic(input, self._begin(input, hx), *self._operands())
