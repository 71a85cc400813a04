"""Which kernels attention may use, and whether one of them takes a call: PyTorch's fused kernel for CPUs, or its formula.

One kernel makes all of them here. What the settings forbid is refused as PyTorch refuses it.
"""

from __future__ import annotations

import warnings

from ...core import dtype as dtypes

#: Settings of `torch.backends.cuda`, of which programs for CPUs ask "flash" and "math".
allowed = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduction": False}
_TAKEN = (dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.float16)


def is_asked(query, key, value) -> bool:
    """Whether PyTorch chooses a kernel for CPUs: not where there is nothing to compute, or what it refuses first."""
    return query.device.type == "cpu" and not query.is_nested and query.numel() > 0 and query.dtype == key.dtype == value.dtype


def chosen(query, key, value, attn_mask, dropout_p, enable_gqa) -> int:
    """1 for the fused kernel, 0 for the formula: the values of `SDPBackend`.

    Raises:
        RuntimeError: if those that are allowed cannot take the call; warnings say why the fused one cannot.
    """
    found = None
    if allowed["flash"]:
        found = _refused(query, key, value, attn_mask, dropout_p, enable_gqa)
        if found is None:
            return 1
    if allowed["math"]:
        return 0
    if found is None:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the math "
            "kernel and the fused kernels."
        )
    for text in ("Flash attention kernel not used because:", found):
        if text:
            warnings.warn(text, UserWarning, stacklevel=4)
    raise RuntimeError("No available kernel.  Aborting execution.")


def _refused(query, key, value, attn_mask, dropout_p, enable_gqa):
    """Why the fused kernel does not take a call, "" where PyTorch does not say so; None if it takes it."""
    every = query, key, value
    if dropout_p != 0:
        return "Both fused kernels do not support non-zero dropout."
    if not query.dim() == key.dim() == value.dim() == 4:
        return (
            f"All fused kernels requires query, key and value to be 4 dimensional, but got Query dim: {query.dim()}, "
            f"Key dim: {key.dim()}, Value dim: {value.dim()} instead."
        )
    sizes = [list(x.shape) for x in every]
    dense = "To broadcast dense inputs, try using unsqueeze and expand_to before passing them into the kernel."
    if not sizes[0][0] == sizes[1][0] == sizes[2][0]:
        return (
            "For dense inputs, both fused kernels require query, key and value to have the same batch_size. "
            f"Query.sizes(): {sizes[0]}, Key.sizes(): {sizes[1]}, Value.sizes(): {sizes[2]} instead. {dense}"
        )
    heads = [own[1] for own in sizes]
    if enable_gqa and (heads[1] != heads[2] or (heads[1] and heads[0] % heads[1])):
        return (
            "The number of heads in key/value must divide number of heads in query.Got input Key sizes(): "
            f"{heads[1]}, Value sizes(): {heads[2]}, Query sizes(): {heads[0]} instead."
        )
    if not enable_gqa and not heads[0] == heads[1] == heads[2]:
        return (
            "For dense input, both fused kernels require query, key and value to have the same num_heads. "
            f"Query.sizes(): {sizes[0]}, Key sizes(): {sizes[1]}, Value sizes(): {sizes[2]} instead. {dense}"
        )
    if attn_mask is not None and attn_mask.requires_grad:
        return ""
    if attn_mask is not None and not _fits(attn_mask, query, key):
        return (
            "Please use the following attn mask shapes: 2d - ({Q_seq_len, 1}  x {KV_seq_len, 1}); 4d - "
            "({Batch, 1} x {Num_heads, 1} x {Q_seq_len, 1}  x {KV_seq_len, 1})"
        )
    widths = [own[3] for own in sizes]
    if not widths[0] == widths[1] == widths[2]:
        return (
            f"Flash attention requires q,k,v to have the same last dimension. Got Query.size(-1): {widths[0]}, "
            f"Key.size(-1): {widths[1]}, Value.size(-1): {widths[2]} instead."
        )
    steps = [x.stride(-1) for x in every]
    if any(step != 1 for step in steps):
        return (
            "All fused kernels require the last dimension of the input to have stride 1. "
            f"Got Query.stride(-1): {steps[0]}, Key.stride(-1): {steps[1]}, Value.stride(-1): {steps[2]}"
        )
    if query.dtype not in _TAKEN or not query.dtype == key.dtype == value.dtype:
        names = [x.dtype.c_name for x in every]
        return (
            "Expected query, key and value to all be of dtype: {Float, Double, BFloat16, Half}. "
            f"Got Query dtype: {names[0]}, Key dtype: {names[1]}, and Value dtype: {names[2]} instead."
        )
    return None


def _fits(attn_mask, query, key):
    """Whether a mask has sizes that the kernel takes."""
    whole = (*query.shape[:3], key.shape[2])
    return attn_mask.dim() in (2, 4) and all(n in (1, m) for n, m in zip(reversed(attn_mask.shape), reversed(whole)))
