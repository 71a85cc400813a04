"""Products of 8-bit floating-point matrices with scales."""

from __future__ import annotations

from ...core import api as torch
from ...core import dtype as dtypes
from ...core.composite import composite


@composite(public="nn.functional")
def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
              swizzle_b=None, bias=None, output_dtype=dtypes.bfloat16, contraction_dim=(),
              use_fast_accum=False):
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
    )


@composite(public="nn.functional")
def scaled_grouped_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
                      swizzle_b=None, bias=None, offs=None, output_dtype=dtypes.bfloat16, contraction_dim=(),
                      use_fast_accum=False):
    """Products of float8 matrices by group, with a scale for each row and column (``torch.nn.functional.scaled_grouped_mm``).

    Args:
        mat_a, mat_b: (m, k), whose rows are in groups, and (g, k, n); or (g, m, k) and (g, k, n).
        scale_a, scale_b: float32 (m,) or (g, m), and (g, n).
        offs: int32 (g,), where each group of rows ends; for two dimensions of ``mat_a``.

    Raises:
        NotImplementedError: for recipes other than `ScalingType.RowWise`, which are for GPUs, and other shapes.

    >>> import ftorch as torch
    >>> from ftorch.nn.functional import ScalingType, scaled_grouped_mm
    >>> a, b = torch.ones(4, 16).to(torch.float8_e4m3fn), torch.ones(2, 16, 3).to(torch.float8_e4m3fn)
    >>> each, ends = ScalingType.RowWise, torch.tensor([1, 4], dtype=torch.int32)
    >>> scaled_grouped_mm(a, b, torch.ones(4), each, torch.tensor([[1.0] * 3, [0.5] * 3]), each, offs=ends)[:, 0]
    tensor([16.,  8.,  8.,  8.], dtype=torch.bfloat16)
    """
    def only(value):
        return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value

    scale_a, scale_b = only(scale_a), only(scale_b)
    recipes = [getattr(only(recipe), "name", None) for recipe in (scale_recipe_a, scale_recipe_b)]
    if recipes != ["RowWise", "RowWise"] or mat_b.ndim != 3:
        raise NotImplementedError(
            "scaled_grouped_mm: groups of rows with ScalingType.RowWise scales are implemented, other recipes and shapes are "
            "for GPUs"
        )
    wide_a = mat_a.to(dtypes.float32) * scale_a.unsqueeze(-1)
    wide_b = mat_b.to(dtypes.float32) * scale_b.unsqueeze(-2)
    return torch._grouped_mm(wide_a, wide_b, offs=offs, bias=bias).to(output_dtype or dtypes.bfloat16)
