"""``forward`` of layers whose Python is no TorchScript, written in TorchScript."""

from __future__ import annotations

import ftorch

from .prelude import FUNCTIONS
from .quantized_layers import forward_of_quantized

__all__ = ["forward_of"]



def _recurrent(module) -> str | None:
    import ftorch.nn as nn

    if type(module) not in (nn.LSTM, nn.GRU, nn.RNN):
        return None
    kind = type(module)
    directions = 2 if module.bidirectional else 1
    weights = ", ".join(f"self.{n}" for n in module._parameters if not n.startswith("_"))
    op = {nn.LSTM: "lstm", nn.GRU: "gru"}.get(kind) or module.mode.lower()
    batch = 0 if module.batch_first else 1
    count = module.num_layers * directions
    sizes = [module.hidden_size]
    if kind is nn.LSTM:
        sizes = [module.proj_size or module.hidden_size, module.hidden_size]
    state = "Tuple[Tensor, Tensor]" if kind is nn.LSTM else "Tensor"
    options = (f"{bool(module.bias)}, {module.num_layers}, {float(module.dropout)!r}, self.training, "
               f"{module.bidirectional}, {module.batch_first}")
    zeros = [
        f"torch.zeros([{count}, batched.size({batch}), {n}], dtype=batched.dtype, "
        "device=batched.device)" for n in sizes
    ]
    lines = [
        f"def forward(self, input: Tensor, hx: Optional[{state}]=None) -> Tuple[Tensor, {state}]:",
        f"  batched = input if input.dim() == 3 else input.unsqueeze({batch})",
    ]
    if kind is nn.LSTM:
        lines += [
            "  if hx is None:", f"    h, c = {zeros[0]}, {zeros[1]}", "  else:", "    h, c = hx",
            "    if h.dim() == 2:", "      h, c = h.unsqueeze(1), c.unsqueeze(1)",
            f"  output, h1, c1 = torch.lstm(batched, [h, c], [{weights}], {options})",
            "  if input.dim() == 3:", "    return (output, (h1, c1))",
            f"  return (output.squeeze({batch}), (h1.squeeze(1), c1.squeeze(1)))",
        ]
    else:
        lines += [
            "  if hx is None:", f"    h = {zeros[0]}", "  else:",
            "    h = hx.unsqueeze(1) if hx.dim() == 2 else hx",
            f"  output, h1 = torch.{op}(batched, h, [{weights}], {options})",
            "  if input.dim() == 3:", "    return (output, h1)",
            f"  return (output.squeeze({batch}), h1.squeeze(1))",
        ]
    return "\n".join(lines) + "\n"


def _cell(module) -> str | None:
    import ftorch.nn as nn

    if type(module) not in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
        return None
    weights = "self.weight_ih, self.weight_hh" + (
        ", self.bias_ih, self.bias_hh" if module.bias_ih is not None else ""
    )
    zero = f"torch.zeros([x.size(0), {module.hidden_size}], dtype=x.dtype, device=x.device)"
    first = "  x = input if input.dim() == 2 else input.unsqueeze(0)"
    if isinstance(module, nn.LSTMCell):
        return "\n".join([
            "def forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]]=None) -> "
            "Tuple[Tensor, Tensor]:", first, "  if hx is None:", f"    h, c = {zero}, {zero}",
            "  else:", "    h, c = hx", "    if h.dim() == 1:",
            "      h, c = h.unsqueeze(0), c.unsqueeze(0)",
            f"  h1, c1 = torch.lstm_cell(x, [h, c], {weights})", "  if input.dim() == 2:",
            "    return (h1, c1)", "  return (h1.squeeze(0), c1.squeeze(0))", "",
        ])
    op = "gru_cell" if isinstance(module, nn.GRUCell) else f"rnn_{module.nonlinearity}_cell"
    return "\n".join([
        "def forward(self, input: Tensor, hx: Optional[Tensor]=None) -> Tensor:", first,
        "  if hx is None:", f"    h = {zero}", "  else:",
        "    h = hx.unsqueeze(0) if hx.dim() == 1 else hx",
        f"  out = torch.{op}(x, h, {weights})",
        "  return out if input.dim() == 2 else out.squeeze(0)", "",
    ])


def _batch_norm(module) -> str | None:
    from ....nn.modules.batchnorm import _NormBase

    if not isinstance(module, _NormBase) or not hasattr(module, "_ftorch_dimensions"):
        return None
    allowed = sorted(module._ftorch_dimensions)
    expected = " or ".join(f"{n}D" for n in allowed)
    weight, bias = ("None" if t is None else f"self.{n}" for n, t in
                    (("weight", module.weight), ("bias", module.bias)))
    tracked = module.running_mean is not None
    lines = [
        "def forward(self, input: Tensor) -> Tensor:",
        f"  __torch__.torch.nn.functional._check_dims(input, {allowed}, \"{expected}\")",
    ]
    if "InstanceNorm" in type(module).__name__:
        stats = "self.running_mean, self.running_var" if tracked else "None, None"
        use = "self.training" if tracked else "True"
        lines.append(
            f"  return torch.instance_norm(input, {weight}, {bias}, {stats}, {use}, "
            f"{float(module.momentum or 0.0)!r}, {module.eps!r}, True)"
        )
        return "\n".join(lines) + "\n"
    momentum = repr(float(module.momentum)) if module.momentum is not None else "factor"
    if tracked:
        lines += ["  factor = 0.", "  if self.training:",
                  "    self.num_batches_tracked = torch.add_(self.num_batches_tracked, 1)"]
        if module.momentum is None:
            lines.append("    factor = 1. / float(self.num_batches_tracked)")
    stats = "self.running_mean, self.running_var" if tracked else "None, None"
    training = "self.training" if tracked else "True"
    momentum = momentum if tracked or module.momentum is not None else "0."
    lines.append(
        f"  return torch.batch_norm(input, {weight}, {bias}, {stats}, {training}, {momentum}, "
        f"{module.eps!r}, True)"
    )
    return "\n".join(lines) + "\n"


def _attention(module) -> str | None:
    import ftorch.nn as nn

    if type(module) is not nn.MultiheadAttention:
        return None

    def given(name):
        return "None" if getattr(module, name) is None else f"self.{name}"

    swap = [f"    {n} = {n}.transpose(0, 1)" for n in ("q", "k", "v")] if module.batch_first else []
    bias = "self.in_proj_bias" if module.in_proj_bias is not None else "None"
    out_bias = "self.out_proj.bias" if module.out_proj.bias is not None else "None"
    lines = [
        "def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: "
        "Optional[Tensor]=None, need_weights: bool=True, attn_mask: Optional[Tensor]=None, "
        "average_attn_weights: bool=True, is_causal: bool=False) -> Tuple[Tensor, Optional[Tensor]]:",
        "  batched = query.dim() == 3", "  q, k, v = query, key, value",
        "  padding = key_padding_mask",
        "  if not batched:", "    q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)",
        "    if padding is not None:", "      padding = padding.unsqueeze(0)",
        *(["  else:", *swap] if swap else []),
        "  out, weights = __torch__.torch.nn.functional.multi_head_attention_forward(q, k, v, "
        f"{module.num_heads}, {given('in_proj_weight')}, {bias}, self.out_proj.weight, {out_bias}, "
        f"{float(module.dropout)!r}, self.training, padding, need_weights, attn_mask, "
        "average_attn_weights, is_causal, "
        + ", ".join([given(name) for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight", "bias_k", "bias_v")])
        + f", {bool(module.add_zero_attn)})",
        "  if not batched:",
        "    if weights is not None:",
        "      weights = weights.squeeze(0)",
        "    return (out.squeeze(1), weights)",
        f"  return ({'out.transpose(0, 1)' if module.batch_first else 'out'}, weights)", "",
    ]
    return "\n".join(lines)


_MASKS = "src_mask: Optional[Tensor]=None, src_key_padding_mask: Optional[Tensor]=None"


def _activation(module, text):
    import ftorch.nn.functional as F

    function = module.activation
    name = getattr(function, "__name__", type(function).__name__).lower()
    return f"torch.{'gelu' if function is F.gelu or name == 'gelu' else 'relu'}({text})"


def _encoder_layer(module) -> str | None:
    import ftorch.nn as nn
    import ftorch.nn.functional as F

    layer, decoder = type(module) is nn.TransformerEncoderLayer, type(module) is nn.TransformerDecoderLayer
    if not (layer or decoder) or not (
        module.activation in (F.relu, F.gelu) or isinstance(module.activation, (nn.ReLU, nn.GELU))
    ):
        return None
    last = "dropout2" if layer else "dropout3"
    attend = (
        "self.dropout1.forward(self.self_attn.forward(Y, Y, Y, {0}_key_padding_mask, False, {0}_mask, "
        "True, {0}_is_causal)[0])"
    ).format("src" if layer else "tgt").replace("src_is_causal", "is_causal")
    cross = ("self.dropout2.forward(self.multihead_attn.forward(Y, memory, memory, "
             "memory_key_padding_mask, False, memory_mask, True, memory_is_causal)[0])")
    feed = (f"self.{last}.forward(self.linear2.forward(self.dropout.forward("
            f"{_activation(module, 'self.linear1.forward(Y)')})))")
    blocks = [attend, feed] if layer else [attend, cross, feed]
    lines = []
    for i, block in enumerate(blocks, 1):
        if module.norm_first:
            lines.append(f"  x = x + {block.replace('Y', 'y')}")
            lines.insert(-1, f"  y = self.norm{i}.forward(x)")
        else:
            lines.append(f"  x = self.norm{i}.forward(x + {block.replace('Y', 'x')})")
    if layer:
        head = f"def forward(self, src: Tensor, {_MASKS}, is_causal: bool=False) -> Tensor:"
        return "\n".join([head, "  x = src", *lines, "  return x", ""])
    head = (
        "def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor]=None, memory_mask: "
        "Optional[Tensor]=None, tgt_key_padding_mask: Optional[Tensor]=None, memory_key_padding_mask: "
        "Optional[Tensor]=None, tgt_is_causal: bool=False, memory_is_causal: bool=False) -> Tensor:"
    )
    return "\n".join([head, "  x = tgt", *lines, "  return x", ""])


def _stack(module) -> str | None:
    import ftorch.nn as nn

    if type(module) not in (nn.TransformerEncoder, nn.TransformerDecoder):
        return None
    norm = ["  x = self.norm.forward(x)"] if module.norm is not None else []
    layers = [f'getattr(self.layers, "{i}")' for i in range(len(module.layers))]
    if type(module) is nn.TransformerEncoder:
        head = (
            "def forward(self, src: Tensor, mask: Optional[Tensor]=None, src_key_padding_mask: "
            "Optional[Tensor]=None, is_causal: Optional[bool]=None) -> Tensor:"
        )
        body = [f"  x = {m}.forward(x, mask, src_key_padding_mask, False)" for m in layers]
        return "\n".join([head, "  x = src", *body, *norm, "  return x", ""])
    head = (
        "def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor]=None, memory_mask: "
        "Optional[Tensor]=None, tgt_key_padding_mask: Optional[Tensor]=None, memory_key_padding_mask: "
        "Optional[Tensor]=None, tgt_is_causal: Optional[bool]=None, memory_is_causal: bool=False) -> "
        "Tensor:"
    )
    body = [f"  x = {m}.forward(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, "
            "memory_key_padding_mask, False, memory_is_causal)" for m in layers]
    return "\n".join([head, "  x = tgt", *body, *norm, "  return x", ""])


def _transformer(module) -> str | None:
    import ftorch.nn as nn

    if type(module) is not nn.Transformer:
        return None
    return "\n".join([
        "def forward(self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor]=None, tgt_mask: "
        "Optional[Tensor]=None, memory_mask: Optional[Tensor]=None, src_key_padding_mask: "
        "Optional[Tensor]=None, tgt_key_padding_mask: Optional[Tensor]=None, "
        "memory_key_padding_mask: Optional[Tensor]=None, src_is_causal: Optional[bool]=None, "
        "tgt_is_causal: Optional[bool]=None, memory_is_causal: bool=False) -> Tensor:",
        "  memory = self.encoder.forward(src, src_mask, src_key_padding_mask, src_is_causal)",
        "  return self.decoder.forward(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, "
        "memory_key_padding_mask, tgt_is_causal, memory_is_causal)", "",
    ])


def forward_of(module) -> str | None:
    """The ``forward`` of a layer that has one here, or None."""
    for maker in _MAKERS:
        text = maker(module)
        if text is not None:
            return text
    return None


def _convolution(module) -> str | None:
    import ftorch.nn as nn

    plain = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}
    across = {nn.ConvTranspose1d: 1, nn.ConvTranspose2d: 2, nn.ConvTranspose3d: 3}
    bias = "None" if module_bias(module) is None else "self.bias"
    if type(module) in plain:
        n, source, lines = plain[type(module)], "input", []
        padding = module.padding if isinstance(module.padding, str) else list(module.padding)
        if module.padding_mode != "zeros":
            if isinstance(padding, str):
                total = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size)]
                sides = [x for t in total[::-1] for x in (t // 2, t - t // 2)]
                sides = sides if padding == "same" else [0] * (2 * n)
            else:
                sides = [p for p in padding[::-1] for _ in range(2)]
            lines.append(f'  padded = torch.pad(input, {sides}, "{module.padding_mode}")')
            source, padding = "padded", [0] * n
        shown = f'"{padding}"' if isinstance(padding, str) else padding
        call = (f"torch.conv{n}d({source}, self.weight, {bias}, {list(module.stride)}, {shown}, "
                f"{list(module.dilation)}, {module.groups})")
        return "\n".join(["def forward(self, input: Tensor) -> Tensor:", *lines,
                          f"  return {call}", ""])
    if type(module) in across:
        n = across[type(module)]
        call = (f"torch.conv_transpose{n}d(input, self.weight, {bias}, {list(module.stride)}, "
                f"{list(module.padding)}, {list(module.output_padding)}, {module.groups}, "
                f"{list(module.dilation)})")
        return f"def forward(self, input: Tensor) -> Tensor:\n  return {call}\n"
    return None


def module_bias(module):
    """A layer's bias, or None."""
    return module._parameters.get("bias")


def _loss(module) -> str | None:
    import inspect

    from ....nn.modules.loss import _Loss

    name = getattr(type(module), "_ftorch_function", None)
    if not isinstance(module, _Loss) or ("nn.functional", name) not in FUNCTIONS:
        return None
    from .emit import literal

    tensors = list(inspect.signature(type(module).forward).parameters)[1:]
    given = [*tensors]
    for option in (*type(module)._ftorch_options, "reduction"):
        value = getattr(module, option)
        text = f"self.{option}" if isinstance(value, ftorch.Tensor) else literal(value)
        given.append(f"{option}={text}")
    parameters = ", ".join(f"{t}: Tensor" for t in tensors)
    call = f"__torch__.torch.nn.functional.{name}({', '.join(given)})"
    return f"def forward(self, {parameters}) -> Tensor:\n  return {call}\n"


_MAKERS = (forward_of_quantized, _convolution, _loss, _recurrent, _cell, _batch_norm, _attention, _encoder_layer, _stack,
           _transformer)
