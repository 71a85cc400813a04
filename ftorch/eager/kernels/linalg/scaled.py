"""Products of 8-bit floating-point matrices with scales."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import dtype_name, product

_TENSORWISE, _ROWWISE = 0, 1


def _scaled(a, b, scale_a, scale_b, bias):
    """``(a * scale_a) @ (b * scale_b) + bias`` in float32."""
    for name, x in (("mat1", a), ("mat2", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    eights = all(x.dtype.itemsize == 1 and jnp.issubdtype(x.dtype, jnp.floating) for x in (a, b))
    recipe = _recipe(scale_a, a, 0)
    if not eights or recipe is None or recipe != _recipe(scale_b, b, 1):
        raise ValueError(_invalid(a, b, scale_a, scale_b))
    if bias is not None and bias.size != b.shape[1]:
        raise RuntimeError(f"Bias must be size {b.shape[1]} but got {bias.size}")
    a, b = a.astype(np.float32), b.astype(np.float32)
    if recipe == _TENSORWISE:  # reshaped, since a scale may be of any rank
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    out = product(a, b) * (scale_a.astype(np.float32) * scale_b.astype(np.float32))
    return out if bias is None else out + bias.astype(np.float32)


def _cast(x, dtype, is_mixed):
    """``x`` in another dtype. As in PyTorch, whose kernels for two dtypes and for one differ, the
    product of two dtypes stays in the range of a dtype without infinities."""
    if is_mixed and np.dtype(dtype).name == "float8_e4m3fn":
        top = jnp.finfo(dtype).max.astype(np.float32)
        x = jnp.clip(x, -top, top)
    return x.astype(dtype)


def _recipe(scale, x, dim):
    """Whether there is one scale for the matrix, or one for each row (of the first; column of the second)."""
    if scale.size == 1:
        return _TENSORWISE
    along = (x.shape[0], 1) if dim == 0 else (1, x.shape[1])
    return _ROWWISE if scale.shape == along else None


def _invalid(a, b, scale_a, scale_b):
    got = ", ".join(
        f"{name}.dtype()={dtype_name(m.dtype)}, scale_{name[-1]}.dtype()={dtype_name(s.dtype)}, "
        f"scale_{name[-1]}.size()={list(s.shape)}"
        for name, m, s in (("mat_a", a, scale_a), ("mat_b", b, scale_b))
    )
    return (
        "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales "
        "should be float and singletons.\n- For RowWise scaling, a and b should be float8, scales "
        f"should be float, scale_a should be ({a.shape[0]}, 1) and scale_b should be (1, {b.shape[1]}), "
        f"and both should be contiguous.\nGot {got}"
    )


@op("_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
    "Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    forms="function out", differentiable=False)
def scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
    """The product of two float8 matrices with their scales (``torch._scaled_mm``).

    Args:
        scale_a, scale_b: one number for a matrix each, or (m, 1) and (1, n) numbers.
        scale_result: what the result is divided by where ``out_dtype`` names a float8.
        out_dtype: of the result; that of ``self`` if None.

    Raises:
        RuntimeError: for shapes that do not fit. ValueError: for other scales or dtypes.
    """
    out = _scaled(self, mat2, scale_a, scale_b, bias)
    if scale_result is not None and out_dtype is not None and np.dtype(out_dtype).itemsize == 1:
        out = out / scale_result.astype(np.float32)
    return _cast(out, out_dtype or self.dtype, self.dtype != mat2.dtype)


@op("_scaled_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, "
    "Tensor[] scale_b, int[] recipe_b, int[] swizzle_b, Tensor? bias, ScalarType? out_dtype, "
    "int[] contraction_dim=[], bool use_fast_accum=False) -> Tensor",
    forms="function out", differentiable=False)
def scaled_mm_v2(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias,
                 out_dtype, contraction_dim, use_fast_accum):
    """`_scaled_mm` whose scales come with the names of their layout (``torch._scaled_mm_v2``).

    Args:
        recipe_a, recipe_b: `ScalingType`; one scale for a matrix (0) or for each row (1).
        swizzle_a, swizzle_b: `SwizzleType`; none (0).
    """
    if any(swizzle_a) or any(swizzle_b):
        raise ValueError("CPU does not support swizzle.")
    one_each = len(scale_a) == len(scale_b) == 1
    recipes = {_recipe(scale_a[0], self, 0), *recipe_a, *recipe_b}
    if not one_each or len(recipes) > 1:
        raise ValueError(_invalid(self, mat2, scale_a[0], scale_b[0]))
    out = _scaled(self, mat2, scale_a[0], scale_b[0], bias)
    return _cast(out, out_dtype or self.dtype, self.dtype != mat2.dtype)
