"""The elementwise functions of one tensor that masked tensors have."""

from __future__ import annotations

from ._packets import packets

UNARY_NAMES = (
    "abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not "
    "ceil clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log "
    "log10 log1p log2 logit i0 isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign "
    "sgn signbit sin sinc sinh sqrt square tan tanh trunc".split()
)
INPLACE_UNARY_NAMES = [f"{name}_" for name in UNARY_NAMES if name not in ("angle", "isnan", "positive", "signbit")]
UNARY_NAMES_UNSUPPORTED = (
    "atan2 arctan2 bitwise_left_shift bitwise_right_shift copysign float_power fmod frexp gradient imag ldexp lerp "
    "logical_not hypot igamma igammac mvlgamma nextafter polygamma real remainder true_divide xlogy".split()
)
__getattr__ = packets(globals(), NATIVE_UNARY_FNS=UNARY_NAMES, NATIVE_INPLACE_UNARY_FNS=INPLACE_UNARY_NAMES)
