"""Fused attention ops that scripted transformers call, in terms of the ops they fuse."""

from __future__ import annotations

import ftorch as torch

__all__ = ["native_multi_head_attention", "transformer_encoder_layer_fwd"]


def _masked_softmax(scores, mask, mask_type):
    """Softmax over the last dim of (B, H, L, S); mask_type 0: (L, S), 1: (B, S), 2: broadcast."""
    if mask is None:
        return torch.softmax(scores, -1)
    if mask_type == 0:
        mask = mask.view(1, 1, *mask.shape)
    elif mask_type == 1:
        mask = mask.view(mask.shape[0], 1, 1, mask.shape[1])
    if mask.dtype is torch.bool:
        scores = scores.masked_fill(mask, float("-inf"))
        return torch.softmax(scores, -1).nan_to_num(0.0)
    return torch.softmax(scores + mask, -1)


def native_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
    mask=None, need_weights=True, average_attn_weights=True, mask_type=None,
):
    """``aten::_native_multi_head_attention``: (output, weights) of batch-first attention.

    Args:
        query, key, value: (N, L, E).

    Returns:
        (N, L, E), and the weights (N, L, L) if they are needed and averaged, (N, H, L, L) if needed,
        else an empty tensor.
    """
    linear = torch.nn.functional.linear
    if query is key and key is value:
        q, k, v = linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
        q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    n, head_dim = q.shape[0], embed_dim // num_head
    q, k, v = (x.view(n, -1, num_head, head_dim).transpose(1, 2) for x in (q, k, v))
    weights = _masked_softmax((q * head_dim**-0.5) @ k.transpose(-2, -1), mask, mask_type)
    out = (weights @ v).transpose(1, 2).reshape(n, -1, embed_dim)
    out = linear(out, proj_weight, proj_bias)
    if not need_weights:
        return out, torch.empty(0)
    return out, weights.mean(1) if average_attn_weights else weights


def transformer_encoder_layer_fwd(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first,
    eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,
    ffn_weight_2, ffn_bias_2, mask=None, mask_type=None,
):
    """``aten::_transformer_encoder_layer_fwd``: an encoder layer without dropout, batch first."""
    functional = torch.nn.functional

    def norm(x, weight, bias):
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x):
        return native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type,
        )[0]

    def feed_forward(x):
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)
