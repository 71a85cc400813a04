"""Attention of sequences of several lengths, packed one after another (``torch.nn.attention.varlen``).

A composition, on every device: which keys a query sees is a mask of the packed rows, and XLA fuses what comes out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...eager.core import api as torch
from ...eager.core import dtype as _dtype

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What else `varlen_attn` shall give."""

    lse: bool = False


def _places(boundaries, count):
    """For each of ``count`` packed rows (its sequence, its place there, the length of the sequence)."""
    rows = torch.arange(count, device=boundaries.device)
    boundaries = boundaries.to(_dtype.int64)
    sequence = torch.searchsorted(boundaries, rows, right=True) - 1
    sequence = sequence.clamp(0, len(boundaries) - 2)
    return sequence, rows - boundaries[sequence], boundaries.diff()[sequence]


def _check(query, key, value, enable_gqa, paged):
    if query.dim() != 3 or key.dim() != 3 + paged or value.dim() != 3 + paged:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, key, value))
        raise RuntimeError(
            f"varlen_attn: query is (tokens, heads, features), key and value the same{' in pages' if paged else ''}; "
            f"got {shapes}"
        )
    heads, kv_heads = query.size(1), key.size(-2)
    if heads != kv_heads and not enable_gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={kv_heads}. "
            "Try setting enable_gqa=True for GQA."
        )
    if heads % kv_heads:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={kv_heads}."
        )


def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None,
                window_size=(-1, -1), enable_gqa=False, seqused_k=None, block_table=None,
                num_splits=None):
    """Attention within each of several packed sequences.

    Args:
        query, key, value: (T_q, H_q, D), (T_k, H_kv, D), (T_k, H_kv, D); with ``block_table`` keys and values are
            (pages, page size, H_kv, D).
        cu_seq_q, cu_seq_k: (N + 1) where sequences begin and end, ``[0, 3, 7]``; ``cu_seq_k`` is None with
            ``block_table``.
        max_q, max_k: the longest lengths; not needed here.
        return_aux: ``AuxRequest(lse=True)`` for the logarithms of the sums of exponentials, too.
        scale: of the scores, ``1 / sqrt(D)`` by default.
        window_size: how many keys to the left and to the right of its own a query sees, -1 for all; the last query
            stands at the last key: ``(-1, 0)`` is causal.
        enable_gqa: whether several heads of queries share one of keys.
        seqused_k: (N) how many keys of each sequence count.
        block_table: (N, pages for each) which pages are a sequence's.
        num_splits: has no effect.

    Returns:
        (T_q, H_q, D); with ``lse`` also (H_q, T_q).

    Raises:
        RuntimeError: for dimensions that do not fit, or a ``block_table`` without ``seqused_k``. ValueError: for heads
            that do not fit.

    >>> import ftorch as torch
    >>> from ftorch.nn.attention.varlen import varlen_attn
    >>> x, ends = torch.ones(5, 1, 4), torch.tensor([0, 2, 5], dtype=torch.int32)
    >>> varlen_attn(x, x, torch.arange(5.0).view(5, 1, 1), ends, ends, 3, 3).flatten()
    tensor([0.5000, 0.5000, 3.0000, 3.0000, 3.0000])
    """
    paged = block_table is not None
    _check(query, key, value, enable_gqa, paged)
    sequence_q, place_q, length_q = _places(cu_seq_q, query.size(0))
    if paged:
        if seqused_k is None:
            raise RuntimeError("varlen_attn: block_table needs seqused_k, the lengths of the sequences in the cache")
        table = block_table.to(_dtype.int64)
        key, value = (t[table].flatten(1, 2).flatten(0, 1) for t in (key, value))
        longest = key.size(0) // len(table)
        columns = torch.arange(key.size(0), device=key.device)
        sequence_k, place_k = columns // longest, columns % longest
        lengths = seqused_k.to(_dtype.int64)
    else:
        sequence_k, place_k, _ = _places(cu_seq_k, key.size(0))
        lengths = cu_seq_k.to(_dtype.int64).diff() if seqused_k is None else seqused_k.to(_dtype.int64)
    own = place_q + lengths[sequence_q] - length_q  # the key that a query stands at
    distance = place_k - own[:, None]
    seen = (sequence_k == sequence_q[:, None]) & (place_k < lengths[sequence_k])
    left, right = window_size
    if left >= 0:
        seen = seen & (distance >= -left)
    if right >= 0:
        seen = seen & (distance <= right)
    out, lse = _attend(query, key, value, seen, 1 / math.sqrt(query.size(-1)) if scale is None else scale)
    return (out, lse) if return_aux is not None and return_aux.lse else out


def varlen_attn_out(out, query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **options):
    """`varlen_attn` into a tensor that there is."""
    result = varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **options)
    if isinstance(result, tuple):
        return out.copy_(result[0]), result[1]
    return out.copy_(result)


def _attend(query, key, value, seen, scale):
    precision = _dtype.float64 if query.dtype is _dtype.float64 else _dtype.float32
    query, key, value = (t.transpose(0, 1) for t in (query, key, value))
    if key.size(0) != query.size(0):
        key, value = (t.repeat_interleave(query.size(0) // t.size(0), dim=0) for t in (key, value))
    scores = (query @ key.transpose(1, 2)).to(precision) * scale
    scores = scores.masked_fill(~seen, -math.inf)
    nothing = ~seen.any(1, keepdim=True)
    weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    out = (weights.to(query.dtype) @ value).transpose(0, 1)
    return out, scores.logsumexp(-1)
