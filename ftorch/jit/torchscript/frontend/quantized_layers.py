"""``forward`` of layers of integers whose Python chooses operators by names, written in TorchScript."""

from __future__ import annotations

import ftorch

from ...._alias import is_own

_HEAD = "def forward(self, {}: Tensor) -> Tensor:"


def forward_of_quantized(module) -> str | None:
    """The ``forward`` of a layer of ``torch.ao.nn`` that has one here, or None."""
    if not is_own(type(module).__module__, "ao.nn"):
        return None
    for maker in (_linear, _convolution, _embedding, _normalization, _recurrent, _cell):
        lines = maker(module)
        if lines is not None:
            return "\n".join([*lines, ""])
    return None


def _linear(module):
    from ....ao.nn.quantized import dynamic as nnqd

    if not isinstance(module, nnqd.Linear):
        return None
    half = module._packed_params.dtype is ftorch.float16
    reduce_range = "" if half else f", {module.version is not None and module.version >= 4}"
    call = (f"ops.quantized.linear{module._relu}_dynamic{'_fp16' if half else ''}(x, "
            f"self._packed_params._packed_params{reduce_range})")
    return [_HEAD.format("x"), f"  return torch.to({call}, ops.prim.dtype(x))"]


def _convolution(module):
    from ...._quantized._layers import ConvPackedParamsBase
    from ....ao.nn.quantized.dynamic.modules.conv import _Dynamic

    if not isinstance(getattr(module, "_packed_params", None), ConvPackedParamsBase) or not hasattr(module, "_operator"):
        return None
    head, lines, source = _HEAD.format("input"), [], "input"
    if module.padding_mode != "zeros":
        sides = [p for n in reversed(module.padding) for p in (n, n)]
        lines, source = [f'  padded = torch.pad(input, {sides}, "{module.padding_mode}")'], "padded"
    call = f"ops.quantized.{module._operator}({source}, self._packed_params, self.scale, self.zero_point)"
    if isinstance(module, _Dynamic):
        head = "def forward(self, input: Tensor, reduce_range: bool=True) -> Tensor:"
        call = f"ops.quantized.{module._operator}_dynamic({source}, self._packed_params, reduce_range)"
    return [head, *lines, f"  return {call}"]


def _embedding(module):
    from ....ao.nn import quantized as nnq

    if type(module) not in (nnq.Embedding, nnq.EmbeddingBag):
        return None
    bits = "4bit" if module.dtype is ftorch.quint4x2 else "byte"
    if type(module) is nnq.Embedding:
        return [_HEAD.format("indices"),
                f"  return ops.quantized.embedding_{bits}(self._packed_params._packed_weight, indices)"]
    return [
        "def forward(self, indices: Tensor, offsets: Optional[Tensor]=None, per_sample_weights: Optional[Tensor]="
        "None, compressed_indices_mapping: Optional[Tensor]=None) -> Tensor:",
        f"  return ops.quantized.embedding_bag_{bits}(self._packed_params._packed_weight, indices, offsets, False, "
        f"0, {module.pruned_weights}, per_sample_weights, compressed_indices_mapping, {module.include_last_offset})",
    ]


def _normalization(module):
    from ....ao.nn.quantized.modules import batchnorm, normalization

    def given(name):
        return "None" if getattr(module, name) is None else f"self.{name}"

    quantizer = "float(self.scale), int(self.zero_point)"
    if isinstance(module, batchnorm._BatchNorm):
        call = (f"{module._operator}(input, {given('weight')}, {given('bias')}, self.running_mean, self.running_var, "
                f"{module.eps!r}, {quantizer})")
    elif isinstance(module, normalization._InstanceNorm):
        call = f"instance_norm(input, {given('weight')}, {given('bias')}, {module.eps!r}, {quantizer})"
    else:
        return None
    return [_HEAD.format("input"), f"  return ops.quantized.{call}"]


def _recurrent(module):
    from ....ao.nn.quantized import dynamic as nnqd

    if type(module) not in (nnqd.LSTM, nnqd.GRU):
        return None
    long = type(module) is nnqd.LSTM
    state = "Tuple[Tensor, Tensor]" if long else "Tensor"
    count = module.num_layers * (2 if module.bidirectional else 1)
    zeros = (f"torch.zeros([{count}, input.size({0 if module.batch_first else 1}), {module.hidden_size}], "
             "dtype=input.dtype, device=input.device)")
    cells = ", ".join(f'getattr(self._all_weight_values, "{i}").param' for i in range(count))
    options = (f"[{cells}], True, {module.num_layers}, {module.dropout!r}, self.training, {module.bidirectional}, "
               f"{module.batch_first}")
    lines = [
        f"def forward(self, input: Tensor, hx: Optional[{state}]=None) -> Tuple[Tensor, {state}]:",
        "  if input.dim() != 3:",
        '    ops.prim.RaiseException("input must have 3 dimensions, got {}".format(input.dim()))',
        f"  if input.size(-1) != {module.input_size}:",
        f'    ops.prim.RaiseException("input.size(-1) must be equal to input_size. Expected {module.input_size}, got '
        '{}".format(input.size(-1)))',
        "  if hx is None:",
    ]
    if long:
        dtype = 12 if module.dtype is ftorch.qint8 else 5  # codes of qint8 and float16
        return [
            *lines, f"    h, c = {zeros}, {zeros}", "  else:", "    h, c = hx",
            f"  output, h1, c1 = torch.quantized_lstm(input, [h, c], {options}, dtype={dtype}, use_dynamic=True)",
            "  return (output, (h1, c1))",
        ]
    return [*lines, f"    h = {zeros}", "  else:", "    h = hx",
            f"  output, h1 = torch.quantized_gru(input, h, {options})", "  return (output, h1)"]


def _cell(module):
    from ....ao.nn.quantized import dynamic as nnqd

    if type(module) not in (nnqd.LSTMCell, nnqd.GRUCell, nnqd.RNNCell):
        return None
    zeros = f"torch.zeros([input.size(0), {module.hidden_size}], dtype=input.dtype, device=input.device)"
    packed = ("self._packed_weight_ih, self._packed_weight_hh, "
              + ", ".join("None" if getattr(module, n) is None else f"self.{n}" for n in ("bias_ih", "bias_hh")))
    check = [
        f"  if input.size(1) != {module.input_size}:",
        f'    ops.prim.RaiseException("input has inconsistent input_size: got {{}}, expected {module.input_size}"'
        ".format(input.size(1)))",
    ]
    if type(module) is nnqd.LSTMCell:
        return [
            "def forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]]=None) -> Tuple[Tensor, Tensor]:",
            *check, "  if hx is None:", f"    h, c = {zeros}, {zeros}", "  else:", "    h, c = hx",
            f"  return ops.quantized.quantized_lstm_cell_dynamic(input, [h, c], {packed})",
        ]
    op = "gru_cell" if type(module) is nnqd.GRUCell else f"rnn_{module.nonlinearity}_cell"
    return ["def forward(self, input: Tensor, hx: Optional[Tensor]=None) -> Tensor:", *check,
            "  if hx is None:", f"    h = {zeros}", "  else:", "    h = hx",
            f"  return ops.quantized.quantized_{op}_dynamic(input, h, {packed})"]
