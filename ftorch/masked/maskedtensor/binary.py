"""The elementwise functions of two tensors that masked tensors have."""

from __future__ import annotations

from ._packets import packets

BINARY_NAMES = (
    "add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide "
    "floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge "
    "greater greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal".split()
)
INPLACE_BINARY_NAMES = [
    f"{name}_" for name in BINARY_NAMES
    if name not in ("logaddexp", "logaddexp2", "equal", "fmin", "minimum", "maximum", "fmax")
]
__getattr__ = packets(globals(), NATIVE_BINARY_FNS=BINARY_NAMES, NATIVE_INPLACE_BINARY_FNS=INPLACE_BINARY_NAMES)
