"""Attention: the public front end, and multi-head attention."""

from __future__ import annotations

import math
import warnings

from ...core import api as torch
from ...core import dtype as dtypes
from ...core.composite import composite
from . import attention_choice


@composite(public="nn.functional")
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0,
                                 is_causal=False, scale=None, enable_gqa=False):
    """``softmax(query @ key.mT * scale + mask) @ value``.

    Args:
        query: (..., L, E). key: (..., S, E). value: (..., S, Ev).
        attn_mask: bool (False is left out) or floating (added), broadcast to (..., L, S).
        dropout_p: probability of dropping an attention weight.
        is_causal: leaves out keys after the query's position, counted from the top left.
        scale: default ``1 / sqrt(E)``.
        enable_gqa: lets groups of query heads share a key and value head.

    Raises:
        RuntimeError: for ranks, shapes or dtypes that do not fit.

    >>> import ftorch as torch
    >>> x = torch.eye(2)
    >>> torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.0)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    only_formula = attention_choice.allowed["math"] and not attention_choice.allowed["flash"]
    if is_causal and attn_mask is not None and not query.is_nested and (
        only_formula or not _takes_both(query, key, value, attn_mask, dropout_p, enable_gqa)
    ):
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if not attention_choice.allowed["math"] and attention_choice.is_asked(query, key, value):
        attention_choice.chosen(query, key, value, attn_mask, dropout_p, enable_gqa)
    if not query.dtype.is_floating_point and not query.is_nested and _is_empty(query, key, value):
        dtype = dtypes.int64 if query.dtype is dtypes.bool else query.dtype
        return query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=dtype)
    factor = None
    if dropout_p > 0.0 and query.is_floating_point():
        if dropout_p > 1.0:
            raise RuntimeError(
                f"dropout probability has to be between 0 and 1, but got {dropout_p:g}"
            )
        factor = _dropout_factor(query, key, dropout_p, enable_gqa)
    return torch._scaled_dot_product_attention(
        query, key, value, attn_mask, factor, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _is_empty(query, key, value):
    """Whether there is nothing to multiply, for which PyTorch takes any dtype."""
    lead = query.shape[:-2]
    return (
        query.dtype == key.dtype == value.dtype and query.dim() >= 2 and lead == key.shape[:-2] == value.shape[:-2]
        and (0 in query.shape[:-1] or 0 in value.shape)
    )


def _takes_both(query, key, value, attn_mask, dropout_p, enable_gqa):
    """Whether PyTorch's kernel for the CPU runs, which leaves out what comes later beside what a mask says."""
    return (
        dropout_p == 0.0 and not attn_mask.requires_grad and _masks(attn_mask, query, key)
        and all(x.dim() == 4 and x.shape[3] == query.shape[3] and x.shape[0] == query.shape[0] for x in (key, value))
        and query.dim() == 4 and key.shape[1] == value.shape[1] and (enable_gqa or key.shape[1] == query.shape[1])
    )


def _masks(attn_mask, query, key):
    """Whether a mask has sizes that the kernel takes."""
    sizes = attn_mask.shape[-2:]
    return attn_mask.dim() in (2, 4) and sizes[0] in (1, query.shape[-2]) and sizes[1] in (1, key.shape[-2])


def _dropout_factor(query, key, p, enable_gqa):
    lead = query.shape[:-2]
    if not enable_gqa:
        lead = torch.broadcast_shapes(lead, key.shape[:-2])
    shape = (*lead, query.shape[-2], key.shape[-2])
    if p == 1.0:
        return query.new_zeros(shape)
    return query.new_empty(shape).bernoulli_(1 - p).div_(1 - p)


# --- multi-head attention ------------------------------------------------------------------


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the inputs are batched; AssertionErrors with PyTorch's words where they disagree."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    rank = query.dim()
    kind = f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"{kind} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"{kind} `key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"{kind} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
                "instead"
            )
        if rank == 2 and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            if tuple(attn_mask.shape) != expected:
                raise AssertionError(
                    f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
                )
    return rank == 3


@composite(public="nn.functional")
def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A boolean mask as a floating one: -inf where it is True."""
    if mask is None:
        return None
    if mask.dtype != dtypes.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead.",
            stacklevel=2,
        )
    if mask.is_floating_point():
        return mask
    return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _check_key_padding_mask(key_padding_mask, src_len, bsz):
    """Whether a mask is one of all keys of the batch, said as an AssertionError."""
    for axis, wanted in enumerate((bsz, src_len)):
        if key_padding_mask.size(axis) != wanted:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{axis}] to be {wanted}, but got {key_padding_mask.size(axis)}"
            )


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """The three input projections, each with a weight of its own."""
    embed_dim = q.size(-1)
    for name, weight, given in zip(("query", "key", "value"), (w_q, w_k, w_v), (q, k, v)):
        if tuple(weight.shape) != (embed_dim, given.size(-1)):
            raise AssertionError(
                f"expecting {name} weights shape of {(embed_dim, given.size(-1))}, but got {weight.shape}"
            )
    for name, bias in zip(("query", "key", "value"), (b_q, b_k, b_v)):
        if bias is not None and tuple(bias.shape) != (embed_dim,):
            raise AssertionError(f"expecting {name} bias shape of {(embed_dim,)}, but got {bias.shape}")
    return tuple(map(torch.nn.functional.linear, (q, k, v), (w_q, w_k, w_v), (b_q, b_k, b_v)))


def _in_projection_packed(q, k, v, w, b=None):
    """The three input projections from one packed weight, in as few products as they allow."""
    linear = torch.nn.functional.linear
    embed_dim = q.shape[-1]
    if k is v:
        if q is k:
            return linear(q, w, b).chunk(3, -1)
        w_q, w_kv = w.split([embed_dim, 2 * embed_dim])
        b_q, b_kv = (None, None) if b is None else b.split([embed_dim, 2 * embed_dim])
        return (linear(q, w_q, b_q), *linear(k, w_kv, b_kv).chunk(2, -1))
    weights = w.chunk(3)
    biases = (None,) * 3 if b is None else b.chunk(3)
    return tuple(map(linear, (q, k, v), weights, biases))


def _project_separately(query, key, value, weights, bias):
    for name, weight in zip("qkv", weights):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(map(torch.nn.functional.linear, (query, key, value), weights, biases))


def _check_attention_mask(attn_mask, heads, target, source):
    """The mask as (heads or 1, L, S)."""
    correct = {2: (target, source), 3: (heads, target, source)}
    if attn_mask.dim() not in correct:
        raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")
    wanted = correct[attn_mask.dim()]
    if tuple(attn_mask.shape) != wanted:
        raise RuntimeError(
            f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be "
            f"{wanted}."
        )
    return attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask


def _static(name, given, heads, head_dim):
    for axis, wanted in ((0, heads), (2, head_dim)):
        if given.size(axis) != wanted:
            raise AssertionError(
                f"expecting {name}.size({axis}) of {wanted}, but got {given.size(axis)}"
            )
    return given


@composite(public="nn.functional")
def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True,
    key_padding_mask=None, need_weights=True, attn_mask=None, use_separate_proj_weight=False,
    q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
    average_attn_weights=True, is_causal=False,
):
    """Multi-head attention as `torch.nn.MultiheadAttention` runs it.

    Args:
        query: (L, N, E), or (L, E) without a batch; key and value (S, N, E) likewise.
        key_padding_mask: (N, S), True (or -inf) for keys to leave out.
        attn_mask: (L, S) or (N * num_heads, L, S).

    Returns:
        The attention (L, N, E), and its weights (N, L, S), per head unless averaged, or None.

    Raises:
        AssertionError, RuntimeError: for shapes that do not fit.
    """
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_kv, same_q = key is value, query is key
        query = query.unsqueeze(1)
        key = query if same_q else key.unsqueeze(1)
        value = key if same_kv else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    target, batch, embed_dim = query.shape
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", None if attn_mask is None else attn_mask.dtype,
        "attn_mask", query.dtype,
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint says all there is to say
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if key_padding_mask is not None:
            is_causal = False  # the padding is merged into the mask below
    head_dim = _check_dimensions(
        key, value, embed_dim, embed_dim_to_check, num_heads, use_separate_proj_weight
    )

    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _project_separately(query, key, value, weights, in_proj_bias)
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)

    heads = batch * num_heads
    if attn_mask is not None:
        attn_mask = _check_attention_mask(attn_mask, heads, target, key.shape[0])
    if bias_k is not None and bias_v is not None:
        for name, given in (("key", static_k), ("value", static_v)):
            if given is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k = torch.cat([k, bias_k.repeat(1, batch, 1)])
        v = torch.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _extended(attn_mask), _extended(key_padding_mask)
    elif bias_k is not None:
        raise AssertionError("bias_k is set but bias_v is None")
    elif bias_v is not None:
        raise AssertionError("bias_v is set but bias_k is None")

    q = q.reshape(target, heads, head_dim).transpose(0, 1)
    if static_k is None:
        k = k.reshape(k.shape[0], heads, head_dim).transpose(0, 1)
    else:
        k = _static("static_k", static_k, heads, head_dim)
    if static_v is None:
        v = v.reshape(v.shape[0], heads, head_dim).transpose(0, 1)
    else:
        v = _static("static_v", static_v, heads, head_dim)
    if add_zero_attn:
        zeros = (heads, 1, head_dim)
        k = torch.cat([k, k.new_zeros(zeros)], dim=1)
        v = torch.cat([v, v.new_zeros(zeros)], dim=1)
        attn_mask, key_padding_mask = _extended(attn_mask), _extended(key_padding_mask)
    attn_mask = _merged(attn_mask, key_padding_mask, batch, num_heads, k.shape[1])

    out, weights = _attend(
        q, k, v, attn_mask, dropout_p if training else 0.0, is_causal, need_weights,
        (batch, num_heads, target),
    )
    out = torch.nn.functional.linear(out, out_proj_weight, out_proj_bias)
    out = out.view(target, batch, out.size(1))
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    if not batched:
        out = out.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return out, weights


def _check_dimensions(key, value, embed_dim, expected, num_heads, separate):
    if embed_dim != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {embed_dim}")
    head_dim = embed_dim // num_heads
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    return head_dim


def _extended(mask):
    """A mask for one more key that is always attended to."""
    return None if mask is None else torch.nn.functional.pad(mask, (0, 1))


def _merged(attn_mask, key_padding_mask, batch, num_heads, source):
    """Both masks in one, (N * heads or 1, L or 1, S)."""
    if key_padding_mask is None:
        return attn_mask
    for axis, wanted in enumerate((batch, source)):
        if key_padding_mask.size(axis) != wanted:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{axis}] to be {wanted}, but got {key_padding_mask.size(axis)}"
            )
    padding = key_padding_mask.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1)
    padding = padding.reshape(batch * num_heads, 1, source)
    return padding if attn_mask is None else attn_mask + padding


def _attend(q, k, v, attn_mask, dropout_p, is_causal, need_weights, sizes):
    """Attention for (N * heads, L, d): the result (L * N, E) and the weights (N, heads, L, S)."""
    batch, num_heads, target = sizes
    head_dim, source = q.shape[-1], k.shape[1]
    if need_weights:
        if is_causal and attn_mask is None:
            raise AssertionError("FIXME: is_causal not implemented for need_weights")
        scaled = q * math.sqrt(1.0 / head_dim)
        if attn_mask is None:
            scores = torch.bmm(scaled, k.transpose(-2, -1))
        else:
            scores = torch.baddbmm(attn_mask, scaled, k.transpose(-2, -1))
        weights = scores.softmax(dim=-1)
        if dropout_p > 0.0:
            weights = torch.nn.functional.dropout(weights, p=dropout_p)
        out = torch.bmm(weights, v).transpose(0, 1).reshape(target * batch, num_heads * head_dim)
        return out, weights.view(batch, num_heads, target, source)
    if attn_mask is not None:
        if attn_mask.size(0) == 1 and attn_mask.dim() == 3:
            attn_mask = attn_mask.unsqueeze(0)
        else:
            attn_mask = attn_mask.view(batch, num_heads, -1, source)
    q = q.view(batch, num_heads, target, head_dim)
    k = k.view(batch, num_heads, source, head_dim)
    v = v.view(batch, num_heads, source, head_dim)
    attend = torch.nn.functional.scaled_dot_product_attention  # which graphs keep whole
    out = attend(q, k, v, attn_mask, dropout_p, is_causal)
    return out.permute(2, 0, 1, 3).reshape(batch * target, num_heads * head_dim), None
