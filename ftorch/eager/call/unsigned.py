"""Unsigned integers of 16, 32 and 64 bits: PyTorch stores and converts them, and few of its kernels take them."""

from __future__ import annotations

from ..core import dtype as _dtype

WIDE = frozenset((_dtype.uint16, _dtype.uint32, _dtype.uint64))

# {what PyTorch says is not implemented: the ops that say so}
_KERNELS = {
    "add_stub": "add.Tensor sub.Tensor rsub.Tensor diff cumulative_trapezoid.dx trapezoid.dx dist",
    "div_floor_cpu": "floor_divide", "remainder_cpu": "remainder.Tensor", "fmod_cpu": "fmod.Tensor",
    "pow": "pow.Tensor_Tensor square _pow_static", "neg_cpu": "neg", "abs_cpu": "abs", "bitwise_not_cpu": "bitwise_not",
    "lshift_cpu": "bitwise_left_shift.Tensor", "rshift_cpu": "bitwise_right_shift.Tensor",
    "lt_cpu": "lt.Tensor", "le_cpu": "le.Tensor", "gt_cpu": "gt.Tensor", "ge_cpu": "ge.Tensor",
    "max_all": "max", "min_all": "min", "max_cpu": "max.dim", "min_cpu": "min.dim", "argmax_cpu": "argmax",
    "argmin_cpu": "argmin", "max_values_cpu": "amax", "min_values_cpu": "amin", "aminmax_cpu": "aminmax",
    "flip_cpu": "flip rot90", "nonzero_count_cpu": "nonzero count_nonzero",
    "scatter_gather_tensor_cpu": "gather scatter.src scatter_add scatter_reduce.two",
    "scatter_gather_scalar_cpu": "scatter.value", "index_select": "index_select",
    "masked_fill": "masked_fill.Scalar masked_fill.Tensor", "masked_scatter": "masked_scatter",
    "masked_select": "masked_select combinations", "arange_cpu": "arange", "eye": "eye",
    "linspace_cpu": "linspace histc", "logspace_cpu": "logspace", "tril_indices": "tril_indices",
    "triu_indices": "triu_indices", "maximum_cpu": "maximum fmax max.other", "minimum_cpu": "minimum fmin min.other",
    "bincount_cpu": "bincount", "isin_default_cpu": "isin.Tensor_Tensor isin.Tensor_Scalar isin.Scalar_Tensor",
    "searchsorted_out_cpu": "searchsorted.Tensor searchsorted.Scalar bucketize.Tensor bucketize.Scalar",
    "topk_cpu": "topk", "median_cpu": "median nanmedian", "median_out": "median.dim nanmedian.dim",
    "kthvalue_cpu": "kthvalue", "mode_cpu": "mode", "logical_not_cpu": "logical_not",
    "logical_and_cpu": "logical_and", "logical_or_cpu": "logical_or", "logical_xor_cpu": "logical_xor",
    "sign_cpu": "sign sgn", "tril": "tril", "triu": "triu", "index_fill_cpu": "index_fill.int_Scalar index_fill.int_Tensor",
    "index_add_": "index_add", "index_put": "index_put", "index_copy_cpu": "index_copy", "index_func_": "index_reduce",
    "take_cpu": "take", "addcmul_cpu_out": "addcmul", "gcd_cpu": "gcd", "lcm_cpu": "lcm", "cummax_cpu": "cummax",
    "cummin_cpu": "cummin", "clamp_min_scalar_cpu": "relu", "clamp_scalar_cpu": "hardtanh relu6",
    "threshold_cpu": "threshold", "trace": "trace", "heaviside_cpu": "heaviside", "cross": "cross linalg_cross",
    "channel_shuffle": "channel_shuffle", "pixel_shuffle": "pixel_shuffle", "dot": "inner dot",
}
_REFUSED = {name: kernel for kernel, names in _KERNELS.items() for name in names.split()}
_BOUNDS = {  # of `clamp`: what each bound is, lower and upper
    "ss": "clamp_scalar_cpu", "sn": "clamp_min_scalar_cpu", "ns": "clamp_max_scalar_cpu",
    "tn": "maximum_cpu", "nt": "minimum_cpu",
}


def check(definition, slots, tensors, common):
    """Raises where PyTorch has no kernel for such numbers.

    Args:
        common: the dtype that the operands are cast to, or None where there is no promotion.

    Raises:
        NotImplementedError: in PyTorch's words.
    """
    name = definition.full_name
    if common is None:
        asked = [s[1] for s in slots if s[0] == "v" and isinstance(s[1], _dtype.dtype)]
        common = tensors[0]._ftorch_geometry.dtype if tensors else asked[0] if asked else None
    if common not in WIDE:
        return
    kernel = _REFUSED.get(name)
    if name == "div.Tensor_mode":
        kernel = {"floor": "div_floor_cpu", "trunc": "div_trunc_cpu"}.get(slots[2][1])
    elif name in ("clamp", "clamp_min", "clamp_max"):
        bounds = "".join(s[0] for s in slots[1:])
        bounds = {"clamp_min": bounds + "n", "clamp_max": "n" + bounds}.get(name, bounds)
        kernel = _BOUNDS.get(bounds, "clamp_cpu")
    if kernel is not None:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{common.scalar_name}'")
