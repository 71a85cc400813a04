"""Products of 8-bit floating-point matrices with scales."""

from __future__ import annotations

from .. import api as torch
from .. import dtype as dtypes
from ..composite import composite


@composite(public="nn.functional")
def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
              swizzle_b=None, bias=None, output_dtype=dtypes.bfloat16, contraction_dim=(),
              use_fast_accum=False):  # fmt: skip
    """The product of two float8 matrices with scales (``torch.nn.functional.scaled_mm``).

    Args:
        mat_a, mat_b: (m, k) and (k, n).
        scale_a, scale_b: one float32 number each (`ScalingType.TensorWise`), or (m, 1) and (1, n) of
            them (`RowWise`); lists of one are taken too.

    Raises:
        RuntimeError: for shapes that do not fit. ValueError: for other scales, recipes and dtypes.

    >>> import ftorch as torch
    >>> from ftorch.nn.functional import ScalingType, scaled_mm
    >>> x = torch.ones(2, 16).to(torch.float8_e4m3fn)
    >>> half, each = torch.tensor(0.5), ScalingType.TensorWise
    >>> scaled_mm(x, x.t(), half, each, half, each)
    tensor([[4., 4.],
            [4., 4.]], dtype=torch.bfloat16)
    """
    def listed(value):
        return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]

    def numbers(value):
        return [int(member.value) for member in listed(value)]

    return torch._scaled_mm_v2(
        mat_a, mat_b, listed(scale_a), numbers(scale_recipe_a), numbers(swizzle_a), listed(scale_b),
        numbers(scale_recipe_b), numbers(swizzle_b), bias, output_dtype, list(contraction_dim),
        use_fast_accum,
    )  # fmt: skip
