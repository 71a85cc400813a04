"""``torch._higher_order_ops.inline_asm_elementwise``: assembly of NVIDIA's GPUs, which XLA does not take."""

from __future__ import annotations


def inline_asm_elementwise(*inputs, asm_str, constraints, dtype, is_pure=True, pack=1):
    """Would run assembly for each element.

    Raises:
        ValueError: without tensors. RuntimeError: always else.
    """
    if not inputs:
        raise ValueError("inline_asm_elementwise requires at least one input tensor")
    raise RuntimeError(
        "inline_asm_elementwise: PTX assembly cannot be part of XLA's programs; write the function with tensor operations, or "
        "as a kernel of jax.experimental.pallas"
    )
