"""Attention with scores and masks given as functions (``torch.nn.attention.flex_attention``).

A composition: the functions are mapped over all pairs of a query and a key with `vmap`, and XLA fuses
what comes out. Block masks are computed as in PyTorch; they say what is masked, and save no work.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from typing import Any, NamedTuple, TypedDict

from ...eager.core import api as torch
from ...eager.core import dtype as _dtype
from ...eager.core.user_warnings import warn_once
from ...eager.runtime import capture_trace
from ...eager.tensor import Tensor
from ...eager.transforms.vmap import vmap
from ._block_mask import BlockMask, noop_mask

_DEFAULT_SPARSE_BLOCK_SIZE = 128

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class FlexKernelOptions(TypedDict, total=False):
    """Options of PyTorch's GPU kernels: accepted, without effect."""

    BLOCK_M: Any
    BLOCK_N: Any
    num_warps: Any
    num_stages: Any
    BACKEND: Any


class AuxRequest(NamedTuple):
    """What else `flex_attention` shall give."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What `flex_attention` gave besides: the logarithm of the sum of exponentials, the maxima."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _over_all(function, leading):
    """Maps ``function(*first, b, h, q, kv)`` over four indices; ``leading`` first arguments have all."""
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None),
                 (0, None, None, None)):
        function = vmap(function, in_dims=(0,) * leading + dims)
    return function


def _indices(sizes, device):
    return [torch.arange(n, device=device) for n in sizes]


def and_masks(*mask_mods):
    """The mask of what all masks let pass."""
    return _combined(mask_mods, lambda a, b: a & b, True)


def or_masks(*mask_mods):
    """The mask of what one of the masks lets pass."""
    return _combined(mask_mods, lambda a, b: a | b, False)


def _combined(mask_mods, join, start):
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b, h, q_idx, kv_idx):
        results = [mod(b, h, q_idx, kv_idx) for mod in mask_mods]
        return functools.reduce(join, results, b.new_full((), start, dtype=_dtype.bool))

    return mask


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The values of a score or mask function for all pairs of a query and a key.

    Args:
        mod_fn: ``mask_mod(b, h, q_idx, kv_idx)``, or with a score as the first argument; scores of
            minus infinity are masked.
        B, H: batch and heads; None is 1.

    Returns:
        (B, H, Q_LEN, KV_LEN): bool of a mask function, the changed zeros of a score function.
    """
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    indices = _indices(sizes, device)
    positional = [
        p for p in inspect.signature(mod_fn).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if len(positional) == 5:
        scores = torch.zeros(sizes, device=device)
        changed = _over_all(mod_fn, 1)(scores, *indices)
        return torch.where(torch.isneginf(changed), False, True)
    return _over_all(mod_fn, 0)(*indices).broadcast_to(sizes)


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=128, _compile=False,
                      separate_full_blocks=True, compute_dq_write_order=False,
                      dq_kv_order=True):
    """Which blocks of queries and keys a mask lets pass in part or in full.

    Args:
        mask_mod: ``mask_mod(b, h, q_idx, kv_idx)``, a bool of 0-d tensors.
        B, H: batch and heads that it depends on; None is 1, for all.
        BLOCK_SIZE: of queries and keys, one number or two.

    >>> from ftorch.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256)
    >>> mask.to_dense()
    tensor([[[[1, 0],
              [1, 1]]]], dtype=torch.int32)
    """
    if not callable(mask_mod):
        raise AssertionError(f"mask_mod must be callable, got {type(mask_mod).__name__}")
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    return BlockMask.from_mask(mask, BLOCK_SIZE, mask_mod, separate_full_blocks)


def _check(query, key, value, block_mask, enable_gqa):
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.size(-1)} and E={key.size(-1)}."
        )
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise ValueError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    heads, kv_heads = query.size(1), key.size(1)
    if not enable_gqa and heads != kv_heads:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={kv_heads}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and heads % kv_heads != 0:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={kv_heads}."
        )
    if query.size(0) != key.size(0):
        if block_mask is None:
            raise ValueError(
                "Expect query and key/value to have the same batch size, or non-none block_mask, "
                f"but got block_mask=None, Bq={query.size(0)}, and Bkv={key.size(0)}."
            )
        if block_mask.kv_num_blocks.size(0) != query.size(0):
            raise ValueError(
                "Expect query and key/value to have the same batch size, or block_mask and query to "
                f"have the same batch size, but got Bq={query.size(0)}, Bkv={key.size(0)}, "
                f"B_block_mask={block_mask.kv_num_blocks.size(0)}."
            )
    if block_mask is not None:
        block_mask._check_lengths(query.size(-2), key.size(-2))


_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False  # whether who looks at scores does not want to hear of speed
_UNFUSED = (
    "flex_attention called without torch.compile() - this will use an unfused implementation that materializes the full scores "
    "matrix instead of generating a fused kernel.\n\nSOLUTION: Use torch.compile(flex_attention)(...)\n\nIf you want to debug "
    "your score_mod/mask_mod, you can set:\ntorch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True\n\n"
    "This will allow you to use print statements or breakpoints. Note: This doesn't work with the backwards pass and may "
    "produce incorrect results."
)


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None,
                   enable_gqa=False, return_lse=False, kernel_options=None, *,
                   return_aux=None):
    """Attention whose scores go through a function.

    Args:
        query, key, value: (B, Hq, L, E), (B, Hkv, S, E), (B, Hkv, S, Ev).
        score_mod: ``score_mod(score, b, h, q_idx, kv_idx)`` of 0-d tensors; it may read other
            tensors, which get gradients.
        block_mask: what `create_block_mask` made.
        scale: of the scores before ``score_mod``; ``1 / sqrt(E)`` by default.
        enable_gqa: whether several heads of queries share one of keys.
        return_lse: deprecated: ``return_aux=AuxRequest(lse=True)``.
        return_aux: what else to give.

    Returns:
        (B, Hq, L, Ev); with ``return_aux`` also an `AuxOutput`.

    Raises:
        ValueError: for heads, batches or lengths that do not fit.

    >>> import ftorch as torch
    >>> from ftorch.nn.attention.flex_attention import flex_attention
    >>> q = k = torch.zeros(1, 1, 2, 4)
    >>> v = torch.tensor([[1.0], [3.0]]).view(1, 1, 2, 1)
    >>> causal = lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf"))
    >>> flex_attention(q, k, v, causal).flatten().tolist()
    [1.0, 2.0]
    """
    _check(query, key, value, block_mask, enable_gqa)
    if not _FLEX_ATTENTION_DISABLE_COMPILE_DEBUG and capture_trace.capturing() is None:
        warn_once(_UNFUSED)
    if return_lse:
        if return_aux is not None:
            raise ValueError(
                "Cannot specify both return_lse and return_aux. return_lse is deprecated, please "
                "use return_aux=AuxRequest(lse=True) instead."
            )
        warnings.warn(
            "return_lse is deprecated and will be removed in v2.10. Please use "
            "return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
            stacklevel=2,
        )
    if scale is None:
        scale = 1.0 / math.sqrt(query.size(-1))
    scores = _scores(query, key, score_mod, block_mask, scale)
    out = _weighted(query, key, value, scores)
    if return_lse:
        return out, scores.logsumexp(-1)
    if return_aux is None:
        return out
    return out, AuxOutput(
        lse=scores.logsumexp(-1) if return_aux.lse else None,
        max_scores=scores.amax(-1) if return_aux.max_scores else None,
    )


def _repeated(t, like):
    """Keys or values for each head and batch of the queries."""
    if t.size(1) != like.size(1):
        t = t.repeat_interleave(like.size(1) // t.size(1), dim=1)
    return t if t.size(0) == like.size(0) else t.expand(like.size(0), -1, -1, -1)


def _scores(query, key, score_mod, block_mask, scale):
    precision = _dtype.float64 if query.dtype is _dtype.float64 else _dtype.float32
    scores = (query @ _repeated(key, query).transpose(-2, -1)).to(precision) * scale
    indices = _indices(scores.shape, query.device)
    if score_mod is not None:
        scores = _over_all(score_mod, 1)(scores, *indices).to(precision)
    if block_mask is not None and block_mask.mask_mod is not noop_mask:
        allowed = _over_all(block_mask.mask_mod, 0)(*indices)
        scores = torch.where(allowed, scores, -math.inf)
    return scores


def _weighted(query, key, value, scores):
    """The values' mean, weighted by the softmax of the scores; zero where all are masked."""
    masked = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.where(masked, 0.0, torch.where(masked, 0.0, scores).softmax(-1))
    return weights.to(query.dtype) @ _repeated(value, query)
