"""What programs call of ``torch.nn``, written in TorchScript: over ATen's ops, as PyTorch has them.

Functions of Python's signature stand here for the public functions that are no ops themselves; a few
layers whose ``forward`` is no TorchScript have theirs here, too.
"""

from __future__ import annotations

import re

import ftorch

__all__ = ["CLASSES", "FUNCTIONS", "GUARDS", "forward_of", "needs"]

_NN = '''
def relu(input: Tensor, inplace: bool=False) -> Tensor:
  return torch.relu_(input) if inplace else torch.relu(input)
def relu6(input: Tensor, inplace: bool=False) -> Tensor:
  return torch.relu6_(input) if inplace else torch.relu6(input)
def elu(input: Tensor, alpha: float=1., inplace: bool=False) -> Tensor:
  return torch.elu_(input, alpha) if inplace else torch.elu(input, alpha)
def selu(input: Tensor, inplace: bool=False) -> Tensor:
  return torch.selu_(input) if inplace else torch.selu(input)
def celu(input: Tensor, alpha: float=1., inplace: bool=False) -> Tensor:
  return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)
def silu(input: Tensor, inplace: bool=False) -> Tensor:
  return torch.silu_(input) if inplace else torch.silu(input)
def mish(input: Tensor, inplace: bool=False) -> Tensor:
  return torch.mish_(input) if inplace else torch.mish(input)
def hardswish(input: Tensor, inplace: bool=False) -> Tensor:
  return torch.hardswish_(input) if inplace else torch.hardswish(input)
def hardsigmoid(input: Tensor, inplace: bool=False) -> Tensor:
  return torch.hardsigmoid_(input) if inplace else torch.hardsigmoid(input)
def leaky_relu(input: Tensor, negative_slope: float=0.01, inplace: bool=False) -> Tensor:
  return torch.leaky_relu_(input, negative_slope) if inplace else torch.leaky_relu(input, negative_slope)
def hardtanh(input: Tensor, min_val: float=-1., max_val: float=1., inplace: bool=False) -> Tensor:
  return torch.hardtanh_(input, min_val, max_val) if inplace else torch.hardtanh(input, min_val, max_val)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool=False) -> Tensor:
  return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)
def logsigmoid(input: Tensor) -> Tensor:
  return torch.log_sigmoid(input)
def softsign(input: Tensor) -> Tensor:
  return torch.div(input, torch.add(torch.abs(input), 1))
def tanhshrink(input: Tensor) -> Tensor:
  return torch.sub(input, torch.tanh(input))
def softmax(input: Tensor, dim: Optional[int]=None, _stacklevel: int=3, dtype: Optional[int]=None) -> Tensor:
  return torch.softmax(input, torch._unwrap_optional(dim), dtype)
def log_softmax(input: Tensor, dim: Optional[int]=None, _stacklevel: int=3, dtype: Optional[int]=None) -> Tensor:
  return torch.log_softmax(input, torch._unwrap_optional(dim), dtype)
def softmin(input: Tensor, dim: Optional[int]=None, _stacklevel: int=3, dtype: Optional[int]=None) -> Tensor:
  return torch.softmax(torch.neg(input), torch._unwrap_optional(dim), dtype)
def dropout(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)
def alpha_dropout(input: Tensor, p: float=0.5, training: bool=False, inplace: bool=False) -> Tensor:
  return torch.alpha_dropout_(input, p, training) if inplace else torch.alpha_dropout(input, p, training)
def dropout1d(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)
def dropout2d(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)
def dropout3d(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)
def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor], weight: Optional[Tensor]=None, bias: Optional[Tensor]=None, training: bool=False, momentum: float=0.1, eps: float=1e-05) -> Tensor:
  return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)
def instance_norm(input: Tensor, running_mean: Optional[Tensor]=None, running_var: Optional[Tensor]=None, weight: Optional[Tensor]=None, bias: Optional[Tensor]=None, use_input_stats: bool=True, momentum: float=0.1, eps: float=1e-05) -> Tensor:
  return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)
def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor]=None, bias: Optional[Tensor]=None, eps: float=1e-05) -> Tensor:
  return torch.layer_norm(input, normalized_shape, weight, bias, eps)
def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor]=None, eps: Optional[float]=None) -> Tensor:
  return torch.rms_norm(input, normalized_shape, weight, eps)
def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor]=None, bias: Optional[Tensor]=None, eps: float=1e-05) -> Tensor:
  return torch.group_norm(input, num_groups, weight, bias, eps)
def normalize(input: Tensor, p: float=2., dim: int=1, eps: float=1e-12) -> Tensor:
  denom = torch.norm(input, p, [dim], True).clamp_min(eps).expand_as(input)
  return torch.div(input, denom)
def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int]=None, max_norm: Optional[float]=None, norm_type: float=2., scale_grad_by_freq: bool=False, sparse: bool=False) -> Tensor:
  index = -1
  if padding_idx is not None:
    index = padding_idx if padding_idx >= 0 else weight.size(0) + padding_idx
  if max_norm is not None:
    torch.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
  return torch.embedding(weight, input, index, scale_grad_by_freq, sparse)
def pad(input: Tensor, pad: List[int], mode: str="constant", value: Optional[float]=None) -> Tensor:
  return torch.pad(input, pad, mode, value)
def _check_dims(input: Tensor, allowed: List[int], expected: str) -> NoneType:
  if input.dim() in allowed:
    pass
  else:
    ops.prim.RaiseException("expected {} input (got {}D input)".format(expected, input.dim()), "builtins.ValueError")
  return None
def reduction_number(reduction: str) -> int:
  result = -1
  if reduction == "none":
    result = 0
  elif reduction == "mean":
    result = 1
  elif reduction == "sum":
    result = 2
  else:
    ops.prim.RaiseException("{} is not a valid value for reduction".format(reduction), "builtins.ValueError")
  return result
def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor]=None, size_average: Optional[bool]=None, ignore_index: int=-100, reduce: Optional[bool]=None, reduction: str="mean", label_smoothing: float=0.) -> Tensor:
  return torch.cross_entropy_loss(input, target, weight, __torch__.torch.nn.functional.reduction_number(reduction), ignore_index, label_smoothing)
def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor]=None, size_average: Optional[bool]=None, ignore_index: int=-100, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.nll_loss_nd(input, target, weight, __torch__.torch.nn.functional.reduction_number(reduction), ignore_index)
def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.mse_loss(input, target, __torch__.torch.nn.functional.reduction_number(reduction))
def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.l1_loss(input, target, __torch__.torch.nn.functional.reduction_number(reduction))
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean", beta: float=1.) -> Tensor:
  return torch.smooth_l1_loss(input, target, __torch__.torch.nn.functional.reduction_number(reduction), beta)
def huber_loss(input: Tensor, target: Tensor, reduction: str="mean", delta: float=1.) -> Tensor:
  return torch.huber_loss(input, target, __torch__.torch.nn.functional.reduction_number(reduction), delta)
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor]=None, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.binary_cross_entropy(input, target, weight, __torch__.torch.nn.functional.reduction_number(reduction))
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor]=None, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean", pos_weight: Optional[Tensor]=None) -> Tensor:
  return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, __torch__.torch.nn.functional.reduction_number(reduction))
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.soft_margin_loss(input, target, __torch__.torch.nn.functional.reduction_number(reduction))
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool=True, full: bool=False, size_average: Optional[bool]=None, eps: float=1e-08, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.poisson_nll_loss(input, target, log_input, full, eps, __torch__.torch.nn.functional.reduction_number(reduction))
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float=1., size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.hinge_embedding_loss(input, target, margin, __torch__.torch.nn.functional.reduction_number(reduction))
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float=0., size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.margin_ranking_loss(input1, input2, target, margin, __torch__.torch.nn.functional.reduction_number(reduction))
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float=0., size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.cosine_embedding_loss(input1, input2, target, margin, __torch__.torch.nn.functional.reduction_number(reduction))
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float=1., p: float=2., eps: float=1e-06, swap: bool=False, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, __torch__.torch.nn.functional.reduction_number(reduction))
def local_response_norm(input: Tensor, size: int, alpha: float=0.0001, beta: float=0.75, k: float=1.) -> Tensor:
  squared = torch.mul(input, input).unsqueeze(1)
  flat = torch.reshape(squared, [input.size(0), 1, input.size(1), -1])
  padded = torch.pad(flat, [0, 0, size // 2, (size - 1) // 2])
  mean = torch.reshape(torch.avg_pool2d(padded, [size, 1], [1, 1]), input.size())
  return torch.div(input, torch.pow(torch.add(torch.mul(mean, alpha), k), beta))
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
  return torch.pixel_shuffle(input, upscale_factor)
def rrelu(input: Tensor, lower: float=0.125, upper: float=0.3333333333333333, training: bool=False, inplace: bool=False) -> Tensor:
  return torch.rrelu_(input, lower, upper, training) if inplace else torch.rrelu(input, lower, upper, training)
def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean", log_target: bool=False) -> Tensor:
  if reduction == "batchmean":
    return torch.div(torch.kl_div(input, target, 2, log_target=log_target), input.size(0))
  return torch.kl_div(input, target, __torch__.torch.nn.functional.reduction_number(reduction), log_target=log_target)
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, num_heads: int, in_proj_weight: Tensor, in_proj_bias: Optional[Tensor], out_weight: Tensor, out_bias: Optional[Tensor], dropout_p: float, training: bool, key_padding_mask: Optional[Tensor], need_weights: bool, attn_mask: Optional[Tensor], average_attn_weights: bool, is_causal: bool) -> Tuple[Tensor, Optional[Tensor]]:
  tgt_len, bsz, embed_dim = query.size(0), query.size(1), query.size(2)
  head_dim = embed_dim // num_heads
  weights = torch.chunk(in_proj_weight, 3)
  biases = annotate(List[Optional[Tensor]], [None, None, None])
  if in_proj_bias is not None:
    parts = torch.chunk(in_proj_bias, 3)
    biases = annotate(List[Optional[Tensor]], [parts[0], parts[1], parts[2]])
  src_len = key.size(0)
  q = torch.linear(query, weights[0], biases[0]).view([tgt_len, bsz * num_heads, head_dim]).transpose(0, 1)
  k = torch.linear(key, weights[1], biases[1]).view([src_len, bsz * num_heads, head_dim]).transpose(0, 1)
  v = torch.linear(value, weights[2], biases[2]).view([src_len, bsz * num_heads, head_dim]).transpose(0, 1)
  mask = annotate(Optional[Tensor], None)
  if attn_mask is not None:
    m = attn_mask
    if m.dtype == 11:
      m = torch.zeros_like(m, dtype=q.dtype).masked_fill(m, -inf)
    mask = m.unsqueeze(0) if m.dim() == 2 else m
  if key_padding_mask is not None:
    p = key_padding_mask
    if p.dtype == 11:
      p = torch.zeros_like(p, dtype=q.dtype).masked_fill(p, -inf)
    p = p.view([bsz, 1, 1, src_len]).expand([-1, num_heads, -1, -1]).reshape([bsz * num_heads, 1, src_len])
    mask = p if mask is None else torch._unwrap_optional(mask) + p
  if is_causal and mask is None and not need_weights:
    n = torch.ones([tgt_len, src_len], dtype=11, device=q.device).triu(1)
    mask = torch.zeros_like(n, dtype=q.dtype).masked_fill(n, -inf).unsqueeze(0)
  scores = torch.bmm(q * (1. / float(head_dim)) ** 0.5, k.transpose(1, 2))
  if mask is not None:
    scores = scores + mask
  attention = torch.softmax(scores, -1)
  if dropout_p > 0.:
    attention = torch.dropout(attention, dropout_p, training)
  out = torch.bmm(attention, v).transpose(0, 1).contiguous().view([tgt_len * bsz, embed_dim])
  out = torch.linear(out, out_weight, out_bias).view([tgt_len, bsz, embed_dim])
  if need_weights:
    shown = attention.view([bsz, num_heads, tgt_len, src_len])
    if average_attn_weights:
      shown = torch.mean(shown, [1])
    return (out, annotate(Optional[Tensor], shown))
  return (out, annotate(Optional[Tensor], None))
'''

def _split(namespace, text):
    found = {}
    for part in re.split(r"^(?=def )", text.strip("\n"), flags=re.MULTILINE):
        if part.strip():
            name = re.match(r"def (\w+)", part)[1]  # type: ignore[index]
            found[namespace, name] = part
    return found


FUNCTIONS: dict[tuple[str, str], str] = _split("nn.functional", _NN)


def needs(text: str) -> list[tuple[str, str]]:
    """The functions of the prelude that a text calls."""
    found = re.findall(r"__torch__\.torch\.nn\.functional\.(\w+)", text)
    return [("nn.functional", n) for n in dict.fromkeys(found) if ("nn.functional", n) in FUNCTIONS]


def _guard(enter, leave):
    return f'''class {{name}}:
  prev : bool
  def __init__(self: {{path}}) -> NoneType:
    self.prev = False
    return None
  def __enter__(self: {{path}}) -> NoneType:
    {enter}
    return None
  def __exit__(self: {{path}}, exc_type: Any, exc_value: Any, traceback: Any) -> NoneType:
    {leave}
    return None
'''


_MODES = "__torch__.torch.autograd.grad_mode."
CLASSES = {
    _MODES + name: _guard(
        f"self.prev = torch.is_grad_enabled()\n    torch.set_grad_enabled({value})",
        "torch.set_grad_enabled(self.prev)",
    ).format(name=name, path=_MODES + name)
    for name, value in (("no_grad", False), ("enable_grad", True))
}  # fmt: skip
GUARDS = {ftorch.no_grad: _MODES + "no_grad", ftorch.enable_grad: _MODES + "enable_grad"}


# --- layers --------------------------------------------------------------------------


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
               f"{module.bidirectional}, {module.batch_first}")  # fmt: skip
    zeros = [
        f"torch.zeros([{count}, batched.size({batch}), {n}], dtype=batched.dtype, "
        "device=batched.device)" for n in sizes
    ]  # fmt: skip
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
        ]  # fmt: skip
    else:
        lines += [
            "  if hx is None:", f"    h = {zeros[0]}", "  else:",
            "    h = hx.unsqueeze(1) if hx.dim() == 2 else hx",
            f"  output, h1 = torch.{op}(batched, h, [{weights}], {options})",
            "  if input.dim() == 3:", "    return (output, h1)",
            f"  return (output.squeeze({batch}), h1.squeeze(1))",
        ]  # fmt: skip
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
        ])  # fmt: skip
    op = "gru_cell" if isinstance(module, nn.GRUCell) else f"rnn_{module.nonlinearity}_cell"
    return "\n".join([
        "def forward(self, input: Tensor, hx: Optional[Tensor]=None) -> Tensor:", first,
        "  if hx is None:", f"    h = {zero}", "  else:",
        "    h = hx.unsqueeze(0) if hx.dim() == 1 else hx",
        f"  out = torch.{op}(x, h, {weights})",
        "  return out if input.dim() == 2 else out.squeeze(0)", "",
    ])  # fmt: skip


def _batch_norm(module) -> str | None:
    from ..nn.modules.batchnorm import _NormBase

    if not isinstance(module, _NormBase) or not hasattr(module, "dimensions"):
        return None
    allowed = sorted(module.dimensions)
    expected = " or ".join(f"{n}D" for n in allowed)
    weight, bias = ("None" if t is None else f"self.{n}" for n, t in
                    (("weight", module.weight), ("bias", module.bias)))  # fmt: skip
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
                  "    self.num_batches_tracked = torch.add_(self.num_batches_tracked, 1)"]  # fmt: skip
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

    if type(module) is not nn.MultiheadAttention or not module._qkv_same_embed_dim or (
        module.bias_k is not None or module.add_zero_attn
    ):
        return None
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
        f"{module.num_heads}, self.in_proj_weight, {bias}, self.out_proj.weight, {out_bias}, "
        f"{float(module.dropout)!r}, self.training, padding, need_weights, attn_mask, "
        "average_attn_weights, is_causal)",
        "  if not batched:",
        "    if weights is not None:",
        "      weights = weights.squeeze(0)",
        "    return (out.squeeze(1), weights)",
        f"  return ({'out.transpose(0, 1)' if module.batch_first else 'out'}, weights)", "",
    ]  # fmt: skip
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
             "memory_key_padding_mask, False, memory_mask, True, memory_is_causal)[0])")  # fmt: skip
    feed = (f"self.{last}.forward(self.linear2.forward(self.dropout.forward("
            f"{_activation(module, 'self.linear1.forward(Y)')})))")  # fmt: skip
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
            "memory_key_padding_mask, False, memory_is_causal)" for m in layers]  # fmt: skip
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
    ])  # fmt: skip


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
                f"{list(module.dilation)}, {module.groups})")  # fmt: skip
        return "\n".join(["def forward(self, input: Tensor) -> Tensor:", *lines,
                          f"  return {call}", ""])  # fmt: skip
    if type(module) in across:
        n = across[type(module)]
        call = (f"torch.conv_transpose{n}d(input, self.weight, {bias}, {list(module.stride)}, "
                f"{list(module.padding)}, {list(module.output_padding)}, {module.groups}, "
                f"{list(module.dilation)})")  # fmt: skip
        return f"def forward(self, input: Tensor) -> Tensor:\n  return {call}\n"
    return None


def module_bias(module):
    """A layer's bias, or None."""
    return module._parameters.get("bias")


def _loss(module) -> str | None:
    import inspect

    from ..nn.modules.loss import _Loss

    name = getattr(type(module), "function", None)
    if not isinstance(module, _Loss) or ("nn.functional", name) not in FUNCTIONS:
        return None
    from ._emit import literal

    tensors = list(inspect.signature(type(module).forward).parameters)[1:]
    given = [*tensors]
    for option in (*type(module).options, "reduction"):
        value = getattr(module, option)
        text = f"self.{option}" if isinstance(value, ftorch.Tensor) else literal(value)
        given.append(f"{option}={text}")
    parameters = ", ".join(f"{t}: Tensor" for t in tensors)
    call = f"__torch__.torch.nn.functional.{name}({', '.join(given)})"
    return f"def forward(self, {parameters}) -> Tensor:\n  return {call}\n"


_MAKERS = (_convolution, _loss, _recurrent, _cell, _batch_norm, _attention, _encoder_layer, _stack, _transformer)
