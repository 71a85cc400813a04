"""Short names of dtypes, for logs (``torch.utils._dtype_abbrs``)."""

from __future__ import annotations

import re

from ..eager.core import dtype as _dtypes

_SHORT = {
    "bool": "b8", "bfloat16": "bf16", "bits1x8": "b1x8", "bits2x4": "b2x4", "bits4x2": "b4x2", "bits8": "b8x1",
    "bits16": "b16x1", "complex32": "c32",
}
_NAMES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16 bits1x8 bits2x4 bits4x2 "
    "bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64 float8_e8m0fnu "
    "float4_e2m1fn_x2"
).split()

dtype_abbrs = {
    getattr(_dtypes, name): _SHORT.get(name) or re.sub("^(u?)([a-z])[a-z]*", r"\1\2", name).replace("_", "").replace("ui", "u")
    for name in _NAMES if hasattr(_dtypes, name)
}
