"""Samples of activation functions, with their kinks."""

from tests.samples import S, T, register

KINKS = T(values=[-6.0, -4.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 4.0, 6.0, 7.0])
WIDE = {"low": -8.0, "high": 8.0}

for name in (
    "relu",
    "relu6",
    "hardtanh",
    "leaky_relu",
    "hardsigmoid",
    "hardswish",
    "hardshrink",
    "softshrink",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "softplus",
    "logsigmoid",
    "tanhshrink",
    "softsign",
):
    register(
        name,
        S(T(2, 3, **WIDE)),
        S(T(**WIDE)),
        S(T(0, 2)),
        S(KINKS),
        S(T(5, dtype="bfloat16", **WIDE)),
        S(T(5, dtype="float64", **WIDE)),
    )
for name in ("relu", "relu6", "hardtanh"):
    register(name, S(T(5, dtype="int64", low=-9, high=9)))
register("hardtanh", S(T(5, **WIDE), -2.5, 0.5))
register("leaky_relu", S(T(5), 0.3), S(T(5), -0.3), S(T(5), 0.0))
register("hardshrink", S(T(5), 1.0), S(T(5), 0.0))
register("softshrink", S(T(5), 1.0), S(T(5), 0.0))
register("elu", S(T(5), 1.5, 2.0, 0.5))
register("celu", S(T(5), 2.0))
register("gelu", S(T(5, **WIDE), approximate="tanh"))
register("softplus", S(T(5, **WIDE), 2.0, 3.0))
register("silu", S(T(5, dtype="complex64", grad=False)))
register("threshold", S(T(5), 0.5, 9.0), S(T(5, dtype="int64"), 1, 7))
register("prelu", S(T(2, 3, 4), T(3)), S(T(2, 3), T(1)), S(T(4), T()), S(T(), T(1)))
register("glu", S(T(2, 4)), S(T(4, 3), 0), S(T(3, 6, dtype="bfloat16")))
for name in ("softmax.int", "log_softmax.int"):
    register(
        name,
        S(T(2, 3), 1),
        S(T(2, 3, 4), 0),
        S(T(), 0),
        S(T(0, 3), 1),
        S(T(3, 0), 1),
        S(T(2, 3, dtype="bfloat16"), -1),
        S(T(2, 3, dtype="int64"), 1, dtype="float32"),
        S(T(2, 3), 1, dtype="float64"),
        S(T(values=[[0.0, -float("inf")], [1.0, 2.0]]), 1),
    )
