"""Samples for ftorch/eager/kernels/reduction/segments.py and aten_internal.py."""

import ml_dtypes
import numpy as np

from . import S, T, register

_LENGTHS = T(3, values=[1, 0, 3], dtype="int64")
_OFFSETS = T(4, values=[0, 1, 1, 4], dtype="int64")

for _reduce in ("sum", "mean", "max", "min", "prod", "amax", "amin", "median"):
    register(
        "segment_reduce",
        S(T(4, 2), _reduce, lengths=_LENGTHS, initial=1.0),
        S(T(4), _reduce, offsets=_OFFSETS, initial=2.0),
        S(T(4, values=[1.0, 2.0, 0.0, 3.0]), _reduce, lengths=_LENGTHS, unsafe=True),
        S(T(4, values=[1.0, 2.0, 2.0, 0.0]), _reduce, lengths=_LENGTHS, axis=-1, initial=2.0),
    )
register("hash_tensor", S(T(2, 3)), S(T(2, 3), 1), S(T(2, 3, dtype="int8"), 0, keepdim=True),
         S(T(3, dtype="bfloat16")), S(T()), S(T(0, 2), 1))

for _name in ("_softmax_backward_data", "_log_softmax_backward_data"):
    register(_name, S(T(2, 3), T(2, 3), 1, np.float32), S(T(), T(), 0, np.float32))
register("_safe_softmax", S(T(2, 3), 1), S(T(2, values=[float("-inf")] * 2, grad=False), 0), S(T(), 0))
register("native_dropout_backward", S(T(2, 3), T(2, 3, dtype="bool"), 1.25))
register(
    "max_pool2d_with_indices_backward",
    S(T(1, 1, 1, 2), T(1, 1, 2, 4), (2, 2), (2, 2), (0, 0), (1, 1), False,
      T(1, 1, 1, 2, values=[[[[4, 3]]]], dtype="int64")),
)
register("_upsample_bilinear2d_aa", S(T(1, 2, 6, 6), (3, 4), False))
register("_upsample_bilinear2d_aa.vec", S(T(1, 2, 6, 6), None, False, (0.5, 0.5)))
_WHERE = [T(3, 1, values=[[0], [9], [2]], dtype="int64"), T(1, 2, values=[[0, 1]], dtype="int64")]
_IN = T(3, 2, values=[[True, False], [False, False], [True, True]], dtype="bool")
register("_unsafe_masked_index", S(T(3, 2), _IN, _WHERE, 1.5))
register("_unsafe_masked_index_put_accumulate", S(T(3, 2), _IN, _WHERE, T(3, 2)))

_EIGHT = (T(3, 16, dtype="float8_e4m3fn"), T(16, 16, dtype="float8_e5m2"))
_ROWS = (T(3, 1, grad=False), T(1, 16, grad=False))
_ONE = T(1, values=[0.5], grad=False)
register(
    "_scaled_mm",
    S(*_EIGHT, _ONE, _ONE), S(*_EIGHT, *_ROWS, out_dtype=np.float32),
    S(*_EIGHT, _ONE, _ONE, T(16, grad=False), out_dtype=np.float32),
    # Out of the range of e4m3fn PyTorch gives nan on some processors, the largest number on others.
    S(*_EIGHT, T(1, values=[1e5], grad=False), _ONE, out_dtype=np.dtype(ml_dtypes.float8_e5m2)),
    S(*_EIGHT, _ONE, _ONE, scale_result=_ONE, out_dtype=np.dtype(ml_dtypes.float8_e5m2)),
)
register(
    "_scaled_mm_v2",
    S(*_EIGHT, [_ONE], [0], [0], [_ONE], [0], [0], None, ml_dtypes.bfloat16),
    S(*_EIGHT, [_ROWS[0]], [1], [0], [_ROWS[1]], [1], [0], None, np.float32),
)
