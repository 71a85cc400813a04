"""Samples of normalization."""

from tests.samples import S, T, register

register(
    "_batch_norm_train",
    S(T(4, 3), T(3), T(3, low=0.1), T(3), T(3), 0.1, 1e-5),
    S(T(2, 3, 4), None, None, None, None, 0.1, 1e-5),
    S(T(2, 3, 4, 5), T(3), T(3, low=0.1), T(3), T(3), 0.3, 1e-3),
    S(T(2, 3, 4, 5, dtype="float16"), T(3), T(3, low=0.1), T(3), T(3), 0.3, 1e-3),
)
register(
    "_batch_norm_eval",
    S(T(4, 3), T(3), T(3, low=0.1), T(3), T(3), 1e-5),
    S(T(2, 3, 4, 5), T(3), T(3, low=0.1), None, None, 1e-5),
)
register(
    "_instance_norm_train",
    S(T(2, 3, 4), None, None, None, None, 0.1, 1e-5),
    S(T(2, 3, 4, 5), T(3), T(3, low=0.1), T(3), T(3), 0.3, 1e-5),
)
register(
    "layer_norm",
    S(T(2, 3, 4), (4,)),
    S(T(2, 3, 4), (3, 4), T(3, 4), T(3, 4)),
    S(T(2, 3, 4), (4,), T(4), None, 1e-3),
    S(T(4), (4,), None, T(4)),
    S(T(2, 3, 4, dtype="bfloat16"), (4,), *[T(4, dtype="bfloat16")] * 2),
    S(T(0, 4), (4,), T(4), T(4)),
)
register(
    "rms_norm",
    S(T(2, 3, 4), (4,)),
    S(T(2, 3, 4), (3, 4), T(3, 4), 1e-3),
    S(T(2, 3, 4, dtype="bfloat16"), (4,), T(4, dtype="bfloat16")),
    S(T(2, 4, dtype="float64"), (4,), T(4, dtype="float64")),
    S(T(2, 4, dtype="float16", low=-0.01, high=0.01), (4,)),
)
register(
    "group_norm",
    S(T(2, 6, 4), 3),
    S(T(2, 6, 4, 3), 2, T(6), T(6)),
    S(T(2, 6), 1, T(6), T(6), 1e-3),
    S(T(2, 6, 4), 6, T(6), T(6)),
)
register(
    "local_response_norm",
    S(T(2, 6, 4), 3),
    S(T(2, 5, 3, 2), 4, 0.5, 0.6, 2.0),
)
