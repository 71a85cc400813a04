"""Operators of ONNX that compute here: each is one node of a model whose operators are new enough."""

from __future__ import annotations

import math

import ftorch as torch

from ..._toplevel.basics import _check
from ...nn import functional as F
from ._dtype_mappings import ONNX_DTYPE_TO_TORCH_DTYPE

ONNX_ATEN_DECOMP_TABLE: dict = {}  # {operator: the function that computes it}
_PRECISIONS = frozenset((1, 10, 11, 16))  # of ONNX's dtypes: what a softmax can be in


def _onnx_op(kind, opset):
    """Makes a function the operator ``onnx::kind.opsetN``, with itself for tensors without elements."""

    def register(function):
        made = torch.library.custom_op(f"onnx::{kind}.opset{opset}", mutates_args=())(function)
        made.register_fake(function)
        ONNX_ATEN_DECOMP_TABLE[getattr(getattr(torch.ops.onnx, kind), f"opset{opset}")] = function
        return made

    return register


def _check_positions(x, cos_cache, sin_cache, position_ids):
    caches = f"Received cos_cache shape {cos_cache.shape}, sin_cache shape {sin_cache.shape}"
    dims = 3 if position_ids is None else 2
    said = "not provided" if position_ids is None else "provided"
    if position_ids is not None:
        ids, batch, length = position_ids.shape, x.shape[0], x.shape[-2]
        _check(len(ids) == 2, lambda: f"position_ids must be 2D when provided. Received shape {ids}")
        _check(
            ids[0] == batch,
            lambda: f"position_ids first dim (batch) must match x.shape[0] ({batch}). Received {ids[0]}",
        )
        _check(
            ids[1] == length,
            lambda: f"position_ids second dim (sequence) must match x.shape[-2] ({length}). Received {ids[1]}",
        )
    _check(
        cos_cache.dim() == dims and sin_cache.dim() == dims,
        lambda: f"cos_cache/sin_cache must be {dims}D when position_ids is {said}. {caches}",
    )


@_onnx_op("RotaryEmbedding", 23)
def rotary_embedding_23(
    x: torch.Tensor, cos_cache: torch.Tensor, sin_cache: torch.Tensor, position_ids: torch.Tensor | None = None, *,
    interleaved: bool = False, num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> torch.Tensor:
    """Version 23 of ONNX's ``RotaryEmbedding``."""
    _check_positions(x, cos_cache, sin_cache, position_ids)
    shape = x.shape
    batch, length = shape[0], shape[-2]
    if len(shape) == 4:
        x = x.permute(0, 2, 1, 3)
    elif len(shape) == 3:
        _check(
            num_heads != 0, lambda: f"num_heads must be provided for 3D inputs. Received input tensor with shape {shape}"
        )
        x = x.reshape(batch, length, num_heads, shape[2] // num_heads)
    _check(x.dim() == 4, lambda: "x should be a 4D tensor by now")
    rotated = rotary_embedding_dim or x.shape[3]
    half = rotated // 2
    tables = {"cos": cos_cache, "sin": sin_cache}
    if position_ids is not None:
        tables = {name: table[position_ids] for name, table in tables.items()}
    for name, table in tables.items():
        _check(
            table.shape[0] == batch and table.shape[1] == length,
            lambda name=name, table=table: f"{name} has shape {table.shape} but expected "
            f"(batch={batch}, seq={length}, ...)",
        )
    for name, table in tables.items():
        _check(
            table.shape[-1] == half,
            lambda name=name, table=table: f"Last dimension of {name} cache ({table.shape[-1]}) should match "
            f"rotary_embedding_dim/2 ({half}).",
        )
    cos, sin = (table.unsqueeze(2) for table in tables.values())
    turned, kept = x[..., :rotated], x[..., rotated:]
    one, two = (turned[..., 0::2], turned[..., 1::2]) if interleaved else torch.chunk(turned, 2, dim=-1)
    real, imaginary = cos * one - sin * two, sin * one + cos * two
    if interleaved:
        turned = torch.stack((real, imaginary), dim=-1).reshape(turned.shape)
    else:
        turned = torch.cat((real, imaginary), dim=-1)
    out = torch.cat((turned, kept), dim=-1)
    return out.reshape(shape) if len(shape) == 3 else out.permute(0, 2, 1, 3)


def _scores(q, k, scale):
    # Each side is multiplied by the root, as ONNX says, against overflow.
    root = math.sqrt(scale)
    return torch.matmul(q * root, (k * root).transpose(-2, -1))


def _bias(q, k, attn_mask, is_causal):
    """What is added to the scores: -inf where the mask says that nothing takes part."""
    rows, columns = q.shape[2], k.shape[2]
    bias = torch.zeros(rows, columns, dtype=q.dtype, device=q.device)
    if is_causal:
        _check(attn_mask is None, lambda: "Cannot use both is_causal and attn_mask")
        before = torch.ones(rows, columns, dtype=torch.bool, device=q.device).tril()
        bias = bias.masked_fill(~before, -math.inf)
    if attn_mask is None:
        return bias
    return bias.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is torch.bool else bias + attn_mask


@_onnx_op("Attention", 23)
def attention_23(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, attn_mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None, past_value: torch.Tensor | None = None, *, is_causal: bool = False,
    kv_num_heads: int = 0, q_num_heads: int = 0, qk_matmul_output_mode: int = 0, scale: float | None = None,
    softcap: float = 0.0, softmax_precision: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Version 23 of ONNX's ``Attention``."""
    is_flat, batch, length = Q.dim() == 3, Q.shape[0], Q.shape[1]
    if is_flat:
        _check(
            q_num_heads != 0 and kv_num_heads != 0,
            lambda: "q_num_heads and kv_num_heads must be provided for 3D inputs",
        )
        heads = (q_num_heads, kv_num_heads, kv_num_heads)
        Q, K, V = (
            x.view(batch, x.shape[1], n, x.shape[2] // n).transpose(1, 2).contiguous() for x, n in zip((Q, K, V), heads)
        )
    _check(Q.dim() == K.dim() == V.dim() == 4, lambda: "Q, K, and V should be 4D tensors by now")
    scale = 1.0 / math.sqrt(Q.shape[3]) if scale is None else scale
    K = K.clone() if past_key is None else torch.cat([past_key, K], dim=2)
    V = V.clone() if past_value is None else torch.cat([past_value, V], dim=2)
    present = K, V
    queries, others = Q.shape[1], K.shape[1]
    _check(
        queries % others == 0,
        lambda: f"q_num_heads ({queries}) must be divisible by kv_num_heads ({others}) for GQA",
    )
    is_plain = softcap == 0.0 and qk_matmul_output_mode == 0 and softmax_precision is None
    if is_plain and (attn_mask is None or attn_mask.dtype is torch.bool):
        out = F.scaled_dot_product_attention(
            Q, K, V, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=bool(queries != others)
        )
        wide = K if queries == others else K.repeat_interleave(queries // others, dim=1)
        shown = _scores(Q, wide, scale)
    else:
        if queries != others:
            K, V = (x.repeat_interleave(queries // others, dim=1) for x in (K, V))
        stages = [_scores(Q, K, scale)]
        stages.append(stages[-1] + _bias(Q, K, attn_mask, is_causal))
        stages.append(softcap * torch.tanh(stages[-1] / softcap) if softcap > 0.0 else stages[-1])
        scores = stages[-1]
        if softmax_precision in _PRECISIONS:
            scores = scores.to(ONNX_DTYPE_TO_TORCH_DTYPE[softmax_precision])
        stages.append(torch.softmax(scores, dim=-1).to(stages[-1].dtype))
        shown = stages[qk_matmul_output_mode if qk_matmul_output_mode in (1, 2, 3) else 0]
        out = torch.matmul(stages[-1], V)
    if is_flat:
        out = out.transpose(1, 2).reshape(batch, length, -1)
    return out, *present, shown
