"""Fused attention ops of transformers (``torch._native_multi_head_attention``), in terms of the ops they fuse."""

from __future__ import annotations

import ftorch as torch

__all__ = ["_native_multi_head_attention", "_transform_bias_rescale_qkv", "_transformer_encoder_layer_fwd"]


def _masked_softmax(scores, mask, mask_type):
    """Softmax over the last dim of (B, H, L, S); mask_type 0: (L, S), 1: (B, S), 2: broadcast."""
    if mask is None:
        return torch.softmax(scores, -1)
    if mask_type is None:
        raise RuntimeError("Mask Type should be defined")
    if mask_type == 0:
        mask = mask.view(1, 1, *mask.shape)
    elif mask_type == 1:
        mask = mask.view(mask.shape[0], 1, 1, mask.shape[1])
    return torch.softmax(scores.masked_fill(mask.to(torch.bool), float("-inf")), -1)


def _transform_bias_rescale_qkv(qkv, qkv_bias, num_heads):
    """Queries, keys and values of the heads from what one product gave, the queries scaled.

    Args:
        qkv: (N, L, 3 E).
        qkv_bias: (3 E,).

    Returns:
        Three tensors (N, H, L, E / H).

    >>> import ftorch as torch
    >>> [x.shape for x in torch._transform_bias_rescale_qkv(torch.ones(1, 2, 12), torch.zeros(12), 2)]
    [torch.Size([1, 2, 2, 2]), torch.Size([1, 2, 2, 2]), torch.Size([1, 2, 2, 2])]
    """
    n, length, width = qkv.shape
    head = width // 3 // num_heads
    parts = (qkv + qkv_bias).view(n, length, 3, num_heads, head).permute(2, 0, 3, 1, 4)
    return (parts[0] * head**-0.5).contiguous(), parts[1].contiguous(), parts[2].contiguous()


def _check(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias):
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() != 3:
            raise RuntimeError(f"expected 3-D `{name}`, got {t.dim()}-D tensor")
        if name == "query" and t.shape[2] != embed_dim:
            raise RuntimeError(f"passed-in embed_dim {embed_dim} didn't match last dim of query {t.shape[2]}")
    if query.shape != key.shape or key.shape != value.shape:
        raise RuntimeError("expected `query`/`key`/`value` shapes to match")
    if qkv_weight.dim() != 2:
        raise RuntimeError(f"expected 2-D `qkv_weight`, got {qkv_weight.dim()}-D tensor")
    if embed_dim * 3 != qkv_weight.shape[0]:
        raise RuntimeError("expected `qkv_weight` first dim to be 3x embed_dim")
    if embed_dim != qkv_weight.shape[1]:
        raise RuntimeError("expected `qkv_weight` second dim to be embed_Dim")
    if qkv_bias.dim() != 1:
        raise RuntimeError(f"expected 1-D `qkv_bias`, got {qkv_bias.dim()}-D tensor")
    if qkv_bias.shape[0] != 3 * embed_dim:
        raise RuntimeError("expected `qkv_bias` first dim and first dim of query to be equal")
    if embed_dim % num_head:
        raise RuntimeError("`embed_dim` must divide evenly by `num_heads`")


def _native_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
    mask=None, need_weights=True, average_attn_weights=True, mask_type=None,
):
    """``aten::_native_multi_head_attention``: (output, weights) of batch-first attention.

    Args:
        query, key, value: (N, L, E), or nested tensors of (L, E).
        mask: True where a place is not looked at.
        mask_type: 0 of a mask (L, L), 1 of one (N, L), 2 of one that is broadcast.

    Returns:
        (N, L, E), and the weights (N, L, L) if they are needed and averaged, (N, H, L, L) if needed, else None.

    Raises:
        RuntimeError: sizes that do not fit, or a mask without its type.

    >>> import ftorch as torch
    >>> x, w, b = torch.ones(1, 2, 4), torch.zeros(12, 4), torch.zeros(12)
    >>> torch._native_multi_head_attention(x, x, x, 4, 2, w, b, torch.eye(4), torch.ones(4))[1]
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    if query.is_nested:
        rest = (embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, None, need_weights, average_attn_weights)
        same, parts = query is key and key is value, query.unbind()
        if same:
            made = [_native_multi_head_attention(*[part[None]] * 3, *rest) for part in parts]
        else:
            others = zip(parts, key.unbind(), value.unbind())
            made = [_native_multi_head_attention(*(t[None] for t in part), *rest) for part in others]
        out = torch.nested.as_nested_tensor([one[0] for one, _ in made])
        if not need_weights:
            return out, None
        longest = max(len(part) for part in parts)
        pads = [longest - len(part) for part in parts]
        return out, torch.cat([torch.nn.functional.pad(w, (0, n, 0, n)) for (_, w), n in zip(made, pads)])
    _check(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias)
    linear = torch.nn.functional.linear
    if query is key and key is value:
        qkv = linear(query, qkv_weight)
    else:
        qkv = torch.cat([linear(x, w) for x, w in zip((query, key, value), qkv_weight.chunk(3))], -1)
    q, k, v = _transform_bias_rescale_qkv(qkv, qkv_bias, num_head)
    weights = _masked_softmax(q @ k.transpose(-2, -1), mask, mask_type)
    out = linear((weights @ v).transpose(1, 2).reshape(query.shape), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights


def _transformer_encoder_layer_fwd(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first,
    eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,
    ffn_weight_2, ffn_bias_2, mask=None, mask_type=None,
):
    """``aten::_transformer_encoder_layer_fwd``: an encoder layer without dropout, batch first.

    Args:
        src: (N, L, E).
        mask, mask_type: as `_native_multi_head_attention` takes them.

    Returns:
        (N, L, E).
    """
    functional = torch.nn.functional

    def norm(x, weight, bias):
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x):
        return _native_multi_head_attention(
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
