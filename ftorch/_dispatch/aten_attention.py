"""Attention as ``torch.ops.aten`` has it: the fused kernels' operators and their gradients (see ``aten.py``).

XLA fuses attention itself, so that one computation serves all: queries (..., heads, L, E) and a bias that says what may be
seen. What the operators differ in is how they lay out their arguments (packed batches stand end to end) and what they
give beside the output. Gradients differentiate that computation, with the dropout that the forward call's seed tells.
"""

from __future__ import annotations

import math

import ftorch as torch

from .aten import aten


def _visible(bias, rows, columns, causal, *, bottom=False, window=(None, None), device=None):
    """``bias`` (additive, or None) with what causality and a window hide as -inf; causality from the bottom right corner
    where ``bottom``, else from the top left one."""
    left, right = (None if side is None or side < 0 else side for side in window)
    if causal:
        right = 0
    if left is None and right is None:
        return bias
    place = torch.arange(columns, device=device) - torch.arange(rows, device=device)[:, None]
    if bottom:
        place = place - (columns - rows)
    hidden = torch.zeros(rows, columns, dtype=torch.bool, device=device)
    if right is not None:
        hidden = hidden | (place > right)
    if left is not None:
        hidden = hidden | (place < -left)
    mask = torch.zeros(rows, columns, device=device).masked_fill(hidden, -math.inf)
    return mask if bias is None else bias + mask


def _attend(query, key, value, bias, dropout, scale, seed=None):
    """(output, logarithm of the sum of exponentials in float32) of (B, H, L, E); heads of keys are repeated as needed."""
    if key.shape[1] != query.shape[1]:
        repeat = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = (query.to(wide) @ key.to(wide).mT) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    total = scores.logsumexp(-1)
    if dropout == 0:
        bias = None if bias is None else bias.to(query.dtype)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, bias, scale=scale), total
    weights = torch.softmax(scores, -1).masked_fill((total == -math.inf).unsqueeze(-1), 0.0)
    draws = torch.Generator(device="cpu").manual_seed(int(seed))
    keep = torch.rand(weights.shape, generator=draws).to(weights.device) >= dropout
    return (weights * keep / (1 - dropout) @ value.to(wide)).to(query.dtype), total


def _seed(dropout, device):
    """A seed of the default generator, which moves on if there is dropout; () of int64."""
    if dropout > 0:
        return torch.randint(2**31, (), device=device)
    return torch.zeros((), dtype=torch.int64, device=device)


def _mask(mask, dtype):
    """An attention mask as a bias."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def _segments(offsets):
    offsets = offsets.tolist()
    return [slice(a, b) for a, b in zip(offsets, offsets[1:])]


def _grads(function, inputs, grad_out, wanted):
    """The gradients of ``function(*inputs)`` at ``grad_out`` of those inputs that ``wanted`` names, None for the others."""
    leaves = [None if x is None else x.detach().requires_grad_(want) for x, want in zip(inputs, wanted)]
    with torch.enable_grad():
        out = function(*leaves)
    asked = [leaf for leaf, want in zip(leaves, wanted) if want and leaf is not None]
    found = iter(torch.autograd.grad(out, asked, grad_out))
    return tuple(next(found) if want and leaf is not None else None for leaf, want in zip(leaves, wanted))


# -- (B, H, L, E) ------------------------------------------------------------------------------------------------------


@aten
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                 *, scale=None, enable_gqa=False):
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@aten
def _scaled_dot_product_attention_math(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                       dropout_mask=None, *, scale=None, enable_gqa=False):
    bias = _visible(attn_mask, query.shape[-2], key.shape[-2], is_causal, device=query.device)  # bools are added as numbers
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    weights = torch.ops.aten._safe_softmax(scores if bias is None else scores + bias.to(scores.dtype), -1)
    if dropout_mask is not None:
        weights = weights.masked_fill(dropout_mask.logical_not(), 0.0)
        return weights @ (value / (1 - dropout_p)), weights
    weights = torch.nn.functional.dropout(weights, dropout_p)
    return weights @ value, weights


@aten
def _scaled_dot_product_flash_attention(query, key, value, dropout_p=0.0, is_causal=False,
                                        return_debug_mask=False, *, scale=None):
    rows, columns = query.shape[-2], key.shape[-2]
    seed = _seed(dropout_p, query.device)
    bias = _visible(None, rows, columns, is_causal, device=query.device)
    out, total = _attend(query, key, value, bias, dropout_p, scale, seed)
    state = torch.stack([seed, torch.zeros_like(seed)]).to(torch.uint64)
    unused = torch.zeros((), dtype=torch.uint64, device=query.device)
    return out, total, None, None, rows, columns, state, unused, query.new_empty(0)


@aten
def _scaled_dot_product_flash_attention_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q,
                                                 max_k, dropout_p, is_causal, philox_seed, philox_offset, *, scale=None):
    bias = _visible(None, query.shape[-2], key.shape[-2], is_causal, device=query.device)
    seed = philox_seed.reshape(-1)[0]
    return _grads(lambda *x: _attend(*x, bias, dropout_p, scale, seed)[0], (query, key, value), grad_out, (True,) * 3)


@aten
def _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p=0.0, is_causal=False,
                                                *, attn_mask=None, scale=None):
    bias = _visible(_mask(attn_mask, query.dtype), query.shape[-2], key.shape[-2], is_causal, device=query.device)
    return _attend(query, key, value, bias, dropout_p, scale, _seed(dropout_p, query.device))


@aten
def _scaled_dot_product_flash_attention_for_cpu_backward(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal,
                                                         *, attn_mask=None, scale=None):
    bias = _visible(_mask(attn_mask, query.dtype), query.shape[-2], key.shape[-2], is_causal, device=query.device)
    return _grads(lambda *x: _attend(*x, bias, dropout_p, scale)[0], (query, key, value), grad_out, (True,) * 3)


@aten
def _scaled_dot_product_efficient_attention(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0,
                                            is_causal=False, *, scale=None):
    bias = _visible(attn_bias, query.shape[-2], key.shape[-2], is_causal, device=query.device)
    seed = _seed(dropout_p, query.device)
    out, total = _attend(query, key, value, bias, dropout_p, scale, seed)
    return out, _padded(total, compute_log_sumexp), seed, torch.zeros_like(seed)


@aten
def _scaled_dot_product_efficient_attention_backward(grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed,
                                                     philox_offset, dropout_p, grad_input_mask, is_causal=False, *,
                                                     scale=None):
    def attend(query, key, value, bias):
        bias = _visible(bias, query.shape[-2], key.shape[-2], is_causal, device=query.device)
        return _attend(query, key, value, bias, dropout_p, scale, philox_seed)[0]

    return _grads(attend, (query, key, value, attn_bias), grad_out_, grad_input_mask)


@aten
def _scaled_dot_product_cudnn_attention(query, key, value, attn_bias=None, compute_log_sumexp=False,
                                        dropout_p=0.0, is_causal=False, return_debug_mask=False, *,
                                        scale=None):
    rows, columns = query.shape[-2], key.shape[-2]
    bias = _visible(_mask(attn_bias, query.dtype), rows, columns, is_causal, device=query.device)
    seed = _seed(dropout_p, query.device)
    out, total = _attend(query, key, value, bias, dropout_p, scale, seed)
    return out, total, None, None, rows, columns, seed, torch.zeros_like(seed), query.new_empty(0)


# -- (B, L, H, E), or (L of all, H, E) with offsets -------------------------------------------------------------------


def _padded(total, wanted):
    """The sums as the memory-efficient kernel gives them: their length a multiple of 32, filled with infinity; or none."""
    if not wanted:
        return total.new_empty((*total.shape[:-1], 0))
    return torch.nn.functional.pad(total, (0, -total.shape[-1] % 32), value=math.inf)


def _flash(query, key, value, offsets, dropout, causal, scale, seed, window, used=None, slopes=None):
    """(output, sums (B, H, L), or (H, L of all)) in the kernel's layout."""
    if offsets is not None:
        parts = []
        for i, (rows, columns) in enumerate(zip(*map(_segments, offsets))):
            parts.append(_flash(query[rows][None], key[columns][None], value[columns][None], None, dropout, causal, scale,
                                None if seed is None else seed + i, window, None if used is None else used[i : i + 1], slopes))
        return torch.cat([out[0] for out, _ in parts]), torch.cat([total[0] for _, total in parts], -1)
    rows, columns = query.shape[1], key.shape[1]
    bias = _visible(None, rows, columns, causal, bottom=True, window=window, device=query.device)
    if slopes is not None:  # (H,) or (B, H): the penalty of a distance
        distance = (torch.arange(columns, device=query.device) - torch.arange(rows, device=query.device)[:, None]
                    - (columns - rows)).abs()
        steep = -slopes.reshape(-1, query.shape[2], 1, 1) * distance
        bias = steep if bias is None else bias + steep
    bias = _within(bias, used, columns)
    out, total = _attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), bias, dropout, scale, seed)
    return out.transpose(1, 2).contiguous(), total


def _within(bias, lengths, columns):
    """``bias`` that hides the keys from each sequence's length (B,) on."""
    if lengths is None:
        return bias
    absent = torch.arange(columns, device=lengths.device) >= lengths[:, None, None, None]
    hidden = torch.zeros(absent.shape, device=lengths.device).masked_fill(absent, -math.inf)
    return hidden if bias is None else bias + hidden


def _offsets(*offsets):
    return None if offsets[0] is None else offsets


@aten
def _flash_attention_forward(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask,
                             *, scale=None, window_size_left=None, window_size_right=None, seqused_k=None,
                             alibi_slopes=None, block_table=None, num_splits=None):
    if block_table is not None:  # keys in pages: the pages of each sequence, one after another
        key, value = (x[block_table].flatten(1, 2) for x in (key, value))
    seed = _seed(dropout_p, query.device)
    out, total = _flash(query, key, value, _offsets(cum_seq_q, cum_seq_k), dropout_p, is_causal, scale, seed,
                        (window_size_left, window_size_right), seqused_k, alibi_slopes)
    state = torch.stack([seed, torch.zeros_like(seed)]).to(torch.uint64)
    return out, total, state, torch.zeros((), dtype=torch.uint64, device=query.device), query.new_empty(0)


@aten
def _flash_attention_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
                              is_causal, rng_state, unused, *, scale=None, window_size_left=None, window_size_right=None):
    seed, window = rng_state.reshape(-1)[0].to(torch.int64), (window_size_left, window_size_right)
    offsets = _offsets(cum_seq_q, cum_seq_k)
    return _grads(lambda *x: _flash(*x, offsets, dropout_p, is_causal, scale, seed, window)[0],
                  (query, key, value), grad_out, (True,) * 3)


def _efficient(query, key, value, bias, offsets, dropout, mask_type, scale, seed, used=None, window=None):
    """(output, sums (B, H, L) without padding, a list of them where there are offsets)."""
    if offsets is not None:
        parts = []
        for i, (rows, columns) in enumerate(zip(*map(_segments, offsets))):
            part = None if bias is None else bias[..., : rows.stop - rows.start, : columns.stop - columns.start]
            parts.append(_efficient(query[:, rows], key[:, columns], value[:, columns], part, None, dropout, mask_type, scale,
                                    None if seed is None else seed + i, None if used is None else used[i : i + 1], window))
        return torch.cat([out for out, _ in parts], 1), [total for _, total in parts]
    rows, columns = query.shape[1], key.shape[1]
    bottom, sides = mask_type == 2, (None, None)
    if window:  # a causal mask's band
        sides = (window - 1, None)
    bias = _visible(bias, rows, columns, mask_type > 0, bottom=bottom, window=sides, device=query.device)
    bias = _within(bias, used, columns)
    out, total = _attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), bias, dropout, scale, seed)
    return out.transpose(1, 2).contiguous(), total


@aten
def _efficient_attention_forward(query, key, value, bias, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
                                 custom_mask_type, compute_log_sumexp=False, *, scale=None, seqlen_k=None, window_size=None):
    seed, offsets = _seed(dropout_p, query.device), _offsets(cu_seqlens_q, cu_seqlens_k)
    out, total = _efficient(query, key, value, bias, offsets, dropout_p, custom_mask_type, scale, seed, seqlen_k, window_size)
    if offsets is None:
        max_seqlen_q, max_seqlen_k = query.shape[1], key.shape[1]
    else:
        total = torch.cat([torch.nn.functional.pad(t, (0, max_seqlen_q - t.shape[-1]), value=math.inf) for t in total])
    return out, _padded(total, compute_log_sumexp), seed, torch.zeros_like(seed), max_seqlen_q, max_seqlen_k


@aten
def _efficient_attention_backward(grad_out_, query, key, value, bias, out, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
                                  max_seqlen_k, logsumexp, dropout_p, philox_seed, philox_offset, custom_mask_type,
                                  bias_requires_grad, *, scale=None, num_splits_key=None, window_size=None,
                                  shared_storage_dqdkdv=False):
    def attend(query, key, value, bias):
        return _efficient(query, key, value, bias, _offsets(cu_seqlens_q, cu_seqlens_k), dropout_p, custom_mask_type, scale,
                          philox_seed, None, window_size)[0]

    return _grads(attend, (query, key, value, bias), grad_out_, (True, True, True, bool(bias_requires_grad)))
