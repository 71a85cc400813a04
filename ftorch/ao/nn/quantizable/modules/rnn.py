"""An LSTM made of linear layers and functionals, which can be observed (``torch.ao.nn.quantizable.modules.rnn``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn

__all__ = ["LSTM", "LSTMCell"]


class LSTMCell(torch.nn.Module):
    """An LSTM's cell whose sums and products are modules."""

    _FLOAT_MODULE = nn.LSTMCell

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False) -> None:
        super().__init__()
        FloatFunctional = torch.ao.nn.quantized.FloatFunctional
        factory = {"device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.bias, self.split_gates = input_dim, hidden_dim, bias, split_gates
        if split_gates:
            names = ("input_gate", "forget_gate", "cell_gate", "output_gate")
            self.igates = nn.ModuleDict({n: nn.Linear(input_dim, hidden_dim, bias=bias, **factory) for n in names})
            self.hgates = nn.ModuleDict({n: nn.Linear(hidden_dim, hidden_dim, bias=bias, **factory) for n in names})
            self.gates = nn.ModuleDict({n: FloatFunctional() for n in names})
        else:
            self.igates = nn.Linear(input_dim, 4 * hidden_dim, bias=bias, **factory)
            self.hgates = nn.Linear(hidden_dim, 4 * hidden_dim, bias=bias, **factory)
            self.gates = FloatFunctional()
        self.input_gate, self.forget_gate, self.cell_gate, self.output_gate = (
            nn.Sigmoid(), nn.Sigmoid(), nn.Tanh(), nn.Sigmoid(),
        )
        self.fgate_cx, self.igate_cgate, self.fgate_cx_igate_cgate, self.ogate_cy = (
            FloatFunctional() for _ in range(4)
        )
        self.initial_hidden_state_qparams = (1.0, 0)
        self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = torch.quint8
        self.cell_state_dtype = torch.quint8

    def forward(self, x, hidden=None):
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        if self.split_gates:
            parts = [self.gates[n].add(self.igates[n](x), self.hgates[n](hx)) for n in self.gates]
        else:
            parts = self.gates.add(self.igates(x), self.hgates(hx)).chunk(4, 1)
        i, f, g, o = (
            m(p) for m, p in zip((self.input_gate, self.forget_gate, self.cell_gate, self.output_gate), parts)
        )
        cy = self.fgate_cx_igate_cgate.add(self.fgate_cx.mul(f, cx), self.igate_cgate.mul(i, g))
        return self.ogate_cy.mul(o, torch.tanh(cy)), cy

    def initialize_hidden(self, batch_size, is_quantized=False):
        """Zeros, quantized where the inputs are."""
        h, c = (torch.zeros((batch_size, self.hidden_size)) for _ in range(2))
        if is_quantized:
            h = torch.quantize_per_tensor(h, *self.initial_hidden_state_qparams, self.hidden_state_dtype)
            c = torch.quantize_per_tensor(c, *self.initial_cell_state_qparams, self.cell_state_dtype)
        return h, c

    def _get_name(self):
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(cls, wi, wh, bi=None, bh=None, split_gates=False):
        """The cell of given weights and biases."""
        cell = cls(wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates)
        for gates, weight, bias in ((cell.igates, wi, bi), (cell.hgates, wh, bh)):
            layers = list(gates.values()) if split_gates else [gates]
            for layer, w in zip(layers, weight.chunk(len(layers))):
                layer.weight = nn.Parameter(w)
            if bias is not None:
                for layer, b in zip(layers, bias.chunk(len(layers))):
                    layer.bias = nn.Parameter(b)
        return cell

    @classmethod
    def from_float(cls, other, use_precomputed_fake_quant=False, split_gates=False):
        """The cell of one in floating point that has a QConfig."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        made = cls.from_params(other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh, split_gates)
        made.qconfig = made.igates.qconfig = made.hgates.qconfig = other.qconfig
        return made


class _LSTMSingleLayer(torch.nn.Module):
    """A cell over all steps."""

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False) -> None:
        super().__init__()
        self.cell = LSTMCell(input_dim, hidden_dim, bias, device, dtype, split_gates=split_gates)

    def forward(self, x, hidden=None):
        outputs = []
        for step in x:
            hidden = self.cell(step, hidden)
            outputs.append(hidden[0])
        return torch.stack(outputs, 0), hidden


class _LSTMLayer(torch.nn.Module):
    """A layer of one direction or two."""

    def __init__(self, input_dim, hidden_dim, bias=True, batch_first=False, bidirectional=False, device=None,
                 dtype=None, *, split_gates=False) -> None:
        super().__init__()
        self.batch_first, self.bidirectional = batch_first, bidirectional
        options = {"bias": bias, "device": device, "dtype": dtype, "split_gates": split_gates}
        self.layer_fw = _LSTMSingleLayer(input_dim, hidden_dim, **options)
        if bidirectional:
            self.layer_bw = _LSTMSingleLayer(input_dim, hidden_dim, **options)

    def forward(self, x, hidden=None):
        if self.batch_first:
            x = x.transpose(0, 1)
        hx, cx = (None, None) if hidden is None else hidden
        pick = (lambda i: None if hx is None else (hx[i], cx[i])) if self.bidirectional else (
            lambda i: None if hx is None else (hx, cx))
        out, (h, c) = self.layer_fw(x, pick(0))
        if self.bidirectional:
            back, (h_back, c_back) = self.layer_bw(x.flip(0), pick(1))
            out = torch.cat([out, back.flip(0)], out.dim() - 1)
            h, c = torch.stack([h, h_back], 0), torch.stack([c, c_back], 0)
        return (out.transpose(0, 1) if self.batch_first else out), (h, c)

    @classmethod
    def from_float(cls, other, layer_idx=0, qconfig=None, split_gates=False):
        """The layer of one of an LSTM's."""
        qconfig = getattr(other, "qconfig", qconfig)
        size = other.input_size if not layer_idx else other.hidden_size * (2 if other.bidirectional else 1)
        made = cls(size, other.hidden_size, other.bias, other.batch_first, other.bidirectional,
                   split_gates=split_gates)
        made.qconfig = qconfig
        for name, suffix in (("layer_fw", ""), ("layer_bw", "_reverse"))[: 1 + bool(other.bidirectional)]:
            part = lambda kind: getattr(other, f"{kind}_l{layer_idx}{suffix}", None)  # noqa: B023, E731
            layer = getattr(made, name)
            layer.qconfig = qconfig
            layer.cell = LSTMCell.from_params(part("weight_ih"), part("weight_hh"), part("bias_ih"), part("bias_hh"),
                                              split_gates=split_gates)
            layer.cell.qconfig = qconfig
        return made


class LSTM(torch.nn.Module):
    """An LSTM that can be observed and quantized."""

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None, *, split_gates=False) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.training = False
        width = hidden_size * (2 if bidirectional else 1)
        self.layers = torch.nn.ModuleList(
            _LSTMLayer(width if i else input_size, hidden_size, bias, False, bidirectional, device, dtype,
                       split_gates=split_gates) for i in range(num_layers))

    def forward(self, x, hidden=None):
        if self.batch_first:
            x = x.transpose(0, 1)
        directions = 2 if self.bidirectional else 1
        states = [None] * self.num_layers
        if hidden is not None:
            groups = [h.reshape(self.num_layers, directions, *h.shape[-2:]) for h in hidden]
            states = [
                tuple(g[i] if directions == 2 else g[i].squeeze(0) for g in groups) for i in range(self.num_layers)
            ]
        hs, cs = [], []
        for layer, state in zip(self.layers, states):
            x, (h, c) = layer(x, state)
            hs.append(h)
            cs.append(c)
        h, c = (torch.stack(s).reshape(-1, *s[0].shape[-2:]) for s in (hs, cs))
        return (x.transpose(0, 1) if self.batch_first else x), (h, c)

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other, qconfig=None, split_gates=False):
        """The layer of `torch.nn.LSTM` with a QConfig, observed."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig") and not qconfig:
            raise AssertionError("The float module must have 'qconfig'")
        made = cls(other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first,
                   other.dropout, other.bidirectional, split_gates=split_gates)
        made.qconfig = getattr(other, "qconfig", qconfig)
        for i in range(other.num_layers):
            made.layers[i] = _LSTMLayer.from_float(other, i, qconfig, split_gates=split_gates)
            made.layers[i].batch_first = False
        quantization = torch.ao.quantization
        if other.training:
            made.train()
            return quantization.prepare_qat(made, inplace=True)
        made.eval()
        return quantization.prepare(made, inplace=True)

    @classmethod
    def from_observed(cls, other):
        """Raises NotImplementedError: `torch.ao.nn.quantized.LSTM` comes from observed layers."""
        raise NotImplementedError("It looks like you are trying to convert a non-quantizable LSTM module. Please, see "
                                  "the examples on quantizable LSTMs.")
