"""What programs call of ``torch.nn``, written in TorchScript: over ATen's ops, as PyTorch has them.

Functions of Python's signature stand here for the public functions that are no ops themselves; a few
layers whose ``forward`` is no TorchScript have theirs here, too.
"""

from __future__ import annotations

import re

import ftorch

__all__ = ["CLASSES", "FUNCTIONS", "GUARDS", "needs"]

_NN = """
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
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.multilabel_margin_loss(input, target, __torch__.torch.nn.functional.reduction_number(reduction))
def multi_margin_loss(input: Tensor, target: Tensor, p: int=1, margin: float=1., weight: Optional[Tensor]=None, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.multi_margin_loss(input, target, p, margin, weight, __torch__.torch.nn.functional.reduction_number(reduction))
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
def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor]=None, max_norm: Optional[float]=None, norm_type: float=2., scale_grad_by_freq: bool=False, mode: str="mean", sparse: bool=False, per_sample_weights: Optional[Tensor]=None, include_last_offset: bool=False, padding_idx: Optional[int]=None) -> Tensor:
  indices = input
  starts = offsets
  factors = per_sample_weights
  if input.dim() == 2:
    starts = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
    indices = torch.reshape(input, [-1])
    if per_sample_weights is not None:
      factors = torch.reshape(per_sample_weights, [-1])
  kind = 1
  if mode == "sum":
    kind = 0
  elif mode == "max":
    kind = 2
  if max_norm is not None:
    torch.embedding_renorm_(weight, indices, max_norm, norm_type)
  result, _0, _1, _2 = torch.embedding_bag(weight, indices, torch._unwrap_optional(starts), scale_grad_by_freq, kind, sparse, factors, include_last_offset, padding_idx)
  return result
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int=0, reduction: str="mean", zero_infinity: bool=False) -> Tensor:
  return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, __torch__.torch.nn.functional.reduction_number(reduction), zero_infinity)
def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool]=None) -> Tensor:
  corners = False
  if align_corners is not None:
    corners = align_corners
  else:
    torch.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired. See the documentation of affine_grid for details.", 2)
  return torch.affine_grid_generator(theta, size, corners)
def grid_sample(input: Tensor, grid: Tensor, mode: str="bilinear", padding_mode: str="zeros", align_corners: Optional[bool]=None) -> Tensor:
  corners = False
  if align_corners is not None:
    corners = align_corners
  else:
    torch.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.", 2)
  modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}
  paddings = {"zeros": 0, "border": 1, "reflection": 2}
  return torch.grid_sampler(input, grid, modes[mode], paddings[padding_mode], corners)
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool=False, eps: float=1e-06, reduction: str="mean") -> Tensor:
  clamped = torch.clamp(var, eps)
  loss = 0.5 * (torch.log(clamped) + torch.pow(input - target, 2) / clamped)
  if full:
    loss = loss + 0.9189385332046727
  if reduction == "mean":
    return torch.mean(loss)
  if reduction == "sum":
    return torch.sum(loss)
  return loss
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Optional[Tensor]=None, size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  loss = torch.neg(target * torch.log_sigmoid(input) + (1 - target) * torch.log_sigmoid(torch.neg(input)))
  if weight is not None:
    loss = loss * weight
  loss = torch.sum(loss, [input.dim() - 1]) / input.size(input.dim() - 1)
  if reduction == "mean":
    return torch.mean(loss)
  if reduction == "sum":
    return torch.sum(loss)
  return loss
def gumbel_softmax(logits: Tensor, tau: float=1., hard: bool=False, eps: float=1e-10, dim: int=-1) -> Tensor:
  noise = torch.neg(torch.log(torch.exponential_(torch.empty_like(logits))))
  soft = torch.softmax((logits + noise) / tau, dim)
  if hard:
    index = torch.argmax(soft, dim, True)
    ones = torch.scatter(torch.zeros_like(logits), dim, index, 1.)
    return ones - soft.detach() + soft
  return soft
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, num_heads: int, in_proj_weight: Optional[Tensor], in_proj_bias: Optional[Tensor], out_weight: Tensor, out_bias: Optional[Tensor], dropout_p: float, training: bool, key_padding_mask: Optional[Tensor], need_weights: bool, attn_mask: Optional[Tensor], average_attn_weights: bool, is_causal: bool, q_weight: Optional[Tensor], k_weight: Optional[Tensor], v_weight: Optional[Tensor], bias_k: Optional[Tensor], bias_v: Optional[Tensor], add_zero_attn: bool) -> Tuple[Tensor, Optional[Tensor]]:
  tgt_len, bsz, embed_dim = query.size(0), query.size(1), query.size(2)
  head_dim = embed_dim // num_heads
  if in_proj_weight is not None:
    chunks = torch.chunk(in_proj_weight, 3)
    weights = [chunks[0], chunks[1], chunks[2]]
  else:
    weights = [torch._unwrap_optional(q_weight), torch._unwrap_optional(k_weight), torch._unwrap_optional(v_weight)]
  biases = annotate(List[Optional[Tensor]], [None, None, None])
  if in_proj_bias is not None:
    parts = torch.chunk(in_proj_bias, 3)
    biases = annotate(List[Optional[Tensor]], [parts[0], parts[1], parts[2]])
  src_len = key.size(0)
  q = torch.linear(query, weights[0], biases[0]).view([tgt_len, bsz * num_heads, head_dim]).transpose(0, 1)
  k = torch.linear(key, weights[1], biases[1])
  v = torch.linear(value, weights[2], biases[2])
  extra = 0
  if bias_k is not None:
    k = torch.cat([k, torch.repeat(bias_k, [1, bsz, 1])])
    v = torch.cat([v, torch.repeat(torch._unwrap_optional(bias_v), [1, bsz, 1])])
    extra = extra + 1
    src_len = src_len + 1
  k = k.reshape([src_len, bsz * num_heads, head_dim]).transpose(0, 1)
  v = v.reshape([src_len, bsz * num_heads, head_dim]).transpose(0, 1)
  if add_zero_attn:
    none = torch.zeros([bsz * num_heads, 1, head_dim], dtype=k.dtype, device=k.device)
    k = torch.cat([k, none], 1)
    v = torch.cat([v, none], 1)
    extra = extra + 1
    src_len = src_len + 1
  mask = annotate(Optional[Tensor], None)
  if attn_mask is not None:
    m = attn_mask
    if m.dtype == 11:
      m = torch.zeros_like(m, dtype=q.dtype).masked_fill(m, -inf)
    m = torch.constant_pad_nd(m, [0, extra])
    mask = m.unsqueeze(0) if m.dim() == 2 else m
  if key_padding_mask is not None:
    p = key_padding_mask
    if p.dtype == 11:
      p = torch.zeros_like(p, dtype=q.dtype).masked_fill(p, -inf)
    p = torch.constant_pad_nd(p, [0, extra])
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
"""

_RNN = """
def pad_sequence(sequences: List[Tensor], batch_first: bool=False, padding_value: float=0., padding_side: str="right") -> Tensor:
  return torch.pad_sequence(sequences, batch_first, padding_value, padding_side)
"""

_BASIC = """
def _assert(condition: bool, message: str) -> NoneType:
  assert condition, message
  return None
"""

_SPARSE = """
def sum(input: Tensor, dim: Optional[Tuple[int]]=None, dtype: Optional[int]=None) -> Tensor:
  if dtype is None:
    return torch._sparse_sum(input) if dim is None else torch._sparse_sum(input, torch._unwrap_optional(dim))
  if dim is None:
    return torch._sparse_sum(input, dtype=torch._unwrap_optional(dtype))
  return torch._sparse_sum(input, torch._unwrap_optional(dim), dtype=torch._unwrap_optional(dtype))
"""

# Which of these a call means is decided by its constants (`calls.py`).
_FUNCTIONAL = """
def _unique_impl(input: Tensor, sorted: bool=True, return_inverse: bool=False, return_counts: bool=False, dim: Optional[int]=None) -> Tuple[Tensor, Tensor, Tensor]:
  if dim is not None:
    return torch.unique_dim(input, torch._unwrap_optional(dim), sorted, return_inverse, return_counts)
  return torch._unique2(input, sorted, return_inverse, return_counts)
def _unique_consecutive_impl(input: Tensor, return_inverse: bool=False, return_counts: bool=False, dim: Optional[int]=None) -> Tuple[Tensor, Tensor, Tensor]:
  return torch.unique_consecutive(input, return_inverse, return_counts, dim)
def stft(input: Tensor, n_fft: int, hop_length: Optional[int]=None, win_length: Optional[int]=None, window: Optional[Tensor]=None, center: bool=True, pad_mode: str="reflect", normalized: bool=False, onesided: Optional[bool]=None, return_complex: Optional[bool]=None, align_to_window: Optional[bool]=None) -> Tensor:
  return torch.stft(input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window)
"""
_CHOSEN = {
    "output": ("Tensor", "output"), "counts": ("Tuple[Tensor, Tensor]", "(output, counts)"),
    "inverse": ("Tuple[Tensor, Tensor]", "(output, inverse)"),
    "inverse_and_counts": ("Tuple[Tensor, Tensor, Tensor]", "(output, inverse, counts)"),
}
_FUNCTIONAL += "".join(
    f"""
def {prefix}_return_{name}(input: Tensor, {sorting}return_inverse: bool=False, return_counts: bool=False, dim: Optional[int]=None) -> {kind}:
  output, inverse, counts = __torch__.torch.functional.{impl}(input, {given}return_inverse, return_counts, dim)
  return {result}
"""
    for prefix, impl, sorting, given in (
        ("", "_unique_impl", "sorted: bool=True, ", "sorted, "), ("_consecutive", "_unique_consecutive_impl", "", ""))
    for name, (kind, result) in _CHOSEN.items()
)


def _split(namespace, text):
    found = {}
    for part in re.split(r"^(?=def )", text.strip("\n"), flags=re.MULTILINE):
        if part.strip():
            name = re.match(r"def (\w+)", part)[1]  # type: ignore[index]
            found[namespace, name] = part
    return found


FUNCTIONS: dict[tuple[str, str], str] = (
    _split("nn.functional", _NN) | _split("", _BASIC) | _split("sparse", _SPARSE) | _split("functional", _FUNCTIONAL)
    | _split("nn.utils.rnn", _RNN)
)


def needs(text: str) -> list[tuple[str, str]]:
    """The functions of the prelude that a text calls."""
    found = re.findall(r"__torch__\.torch\.(nn\.functional|nn\.utils\.rnn|sparse|functional)\.(\w+)", text)
    return [key for key in dict.fromkeys(found) if key in FUNCTIONS]


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
}


def _autocast(path, parameters, device, dtype, body=""):
    return f'''class autocast:
  fast_dtype : int
  _enabled : bool
  device : str
  def __call__(self: {path}, func: Tensor) -> Tensor:
    return func
  def __enter__(self: {path}) -> {path}:
    return self
  def __exit__(self: {path}, exc_type: Any, exc_val: Any, exc_tb: Any) -> NoneType:
    return None
  def __init__(self: {path}, {parameters}) -> NoneType:
{body}    self.fast_dtype = {dtype}
    self._enabled = enabled
    self.device = {device}
    return None
'''


# What a block of it does is the executor's, by the names of these classes.
_AUTOCAST = "__torch__.torch.{}amp.autocast_mode.autocast"
CLASSES[_AUTOCAST.format("")] = _autocast(
    _AUTOCAST.format(""),
    "device_type: str, dtype: Optional[int]=None, enabled: bool=True, cache_enabled: Optional[bool]=None",
    "device_type", "_0",
    '''    if torch.__is__(dtype, None):
      _1 = torch.get_autocast_dtype(device_type)
      _0 = _1
    else:
      _0 = unchecked_cast(int, dtype)
''')
for _room, _dtype in (("cpu", 15), ("cuda", 5)):
    CLASSES[_AUTOCAST.format(_room + ".")] = _autocast(
        _AUTOCAST.format(_room + "."), f"enabled: bool=True, dtype: int={_dtype}, cache_enabled: bool=True", f'"{_room}"', "dtype")
GUARDS = {ftorch.no_grad: _MODES + "no_grad", ftorch.enable_grad: _MODES + "enable_grad",
          ftorch.amp.autocast: _AUTOCAST.format(""), ftorch.cpu.amp.autocast: _AUTOCAST.format("cpu."),
          ftorch.cuda.amp.autocast: _AUTOCAST.format("cuda.")}
