"""Samples of elementwise functions of several tensors."""

from tests.samples import S, T, register

POSITIVE = {"low": 0.2, "high": 3.0}
WHOLE = {"dtype": "int64", "low": 1, "high": 9}
NAN, INF = float("nan"), float("inf")
TIES = (
    T(values=[1.0, NAN, 2.0, NAN, 3.0, -1.0]),
    T(values=[1.0, 1.0, NAN, NAN, 2.0, 4.0]),
)
BROADCAST = S(T(2, 1, 3), T(4, 1))


def _shapes(second=None, **limits):
    second = limits if second is None else second
    return (
        S(T(2, 3, **limits), T(2, 3, **second)),
        S(T(2, 1, 3, **limits), T(4, 1, **second)),
        S(T(3, **limits), T(**second)),
        S(T(0, 3, **limits), T(3, **second)),
        S(T(3, dtype="bfloat16", **limits), T(3, dtype="bfloat16", **second)),
    )


for name in ("add.Tensor", "sub.Tensor", "rsub.Tensor"):
    register(
        name,
        *_shapes(),
        S(T(2, 3), 2),
        S(T(2, 3), T(3), alpha=0.5),
        S(T(3, dtype="int64"), T(3), alpha=2),
        S(T(3, dtype="complex64"), T(3), alpha=1j),
        S(T(3, dtype="int64"), 1.5),
    )
register(
    "mul.Tensor",
    *_shapes(),
    S(T(3), 2.5),
    S(T(3, dtype="complex64"), T(3)),
    S(T(3, dtype="bool"), T(3, dtype="bool")),
)
for name in ("div.Tensor", "remainder.Tensor", "fmod.Tensor"):
    register(name, *_shapes(POSITIVE), S(T(3), -1.5), S(T(3, **WHOLE), T(3, **WHOLE)))
for mode in (None, "floor", "trunc"):
    register(
        "div.Tensor_mode",
        *(S(*s.args, rounding_mode=mode) for s in _shapes(POSITIVE)),
        S(T(3, **WHOLE), -3, rounding_mode=mode),
        S(T(3), -0.7, rounding_mode=mode),
    )
register(
    "floor_divide",
    S(T(3, grad=False), T(3, grad=False, **POSITIVE)),
    S(T(3, **WHOLE), -2),
    S(T(values=[1.0, -1.0, 0.0], grad=False), 0.0),
)
register(
    "pow.Tensor_Tensor",
    *_shapes({}, **POSITIVE),
    S(T(2, 3), 2),
    S(T(2, 3), 3),
    S(T(3), 0),
    S(T(3, **POSITIVE), 0.5),
    S(2, T(3)),
    S(0.0, T(3, **POSITIVE)),
    S(T(3, **WHOLE), 2),
    S(T(3, **WHOLE), 2.0),
    S(T(3, dtype="complex64"), T(3)),
    S(T(values=[0.0, 1.0]), 2),
    S(T(values=[1, -1, 2], dtype="int64"), T(values=[-1, -3, -2], dtype="int64")),
    S(T(values=[2, 3, -2, 7], dtype="int64"), T(values=[64, 100, 63, 70], dtype="int64")),
    S(T(values=[128, 2, 255], dtype="uint8"), T(values=[128, 200, 131], dtype="uint8")),
)
for exponent in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0):
    register(
        "_pow_static",
        S(T(2, 3, **POSITIVE), exponent),
        S(T(dtype="bfloat16", **POSITIVE), exponent),
    )
register("float_power.Tensor_Tensor", S(T(3, **POSITIVE), T(3)), S(T(3, **WHOLE), T(3)))
register("float_power.Tensor_Scalar", S(T(3, **POSITIVE), 0.1), S(T(3, dtype="complex64"), 2))
register("float_power.Scalar", S(0.1, T(3)))
register("ldexp.Tensor", S(T(2, 3), T(3, **WHOLE)), S(T(3), T(3)), S(T(3, **WHOLE), T(3, **WHOLE)))

for name in ("maximum", "minimum", "fmax", "fmin"):
    register(name, *_shapes(), S(*TIES), S(T(3, dtype="int64"), T(3)))
register(
    "clamp",
    S(T(2, 3), -0.5, 0.5),
    S(T(2, 3), min=0),
    S(T(2, 3), max=0.3),
    S(T(4), 1.0, -1.0),
    S(T(3, dtype="int64"), 0.5),
    S(T(3, dtype="int64"), -1, 1),
    S(T(values=[0.0, 1.0, NAN]), 0.0, 1.0),
    S(T(2, 3), T(3), T(2, 1)),
    S(T(2, 3), max=T(3)),
    S(T(2, 3), min=T(3)),
)
for name in ("clamp_min", "clamp_max"):
    register(name, S(T(2, 3), 0.25), S(T(2, 3), T(3)), S(*TIES), S(T(3, dtype="int64"), 0))
for name in ("hypot", "atan2", "logaddexp", "logaddexp2", "nextafter", "copysign.Tensor"):
    register(name, *_shapes())
register("logaddexp", S(T(3, dtype="complex64"), T(3, dtype="complex64")))
register("copysign.Tensor", S(T(3), -0.0), S(T(values=[0.0, -1.0]), T(values=[-1.0, 1.0])))
for name in ("gcd", "lcm", "bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"):
    register(
        name,
        S(T(2, 3, **WHOLE), T(3, **WHOLE)),
        S(T(3, dtype="uint8", low=0, high=9), T(3, **WHOLE)),
        S(T(values=[240, 255, 16, 128], dtype="uint8"), T(values=[4, 1, 3, 7], dtype="uint8")),
    )
for name in ("and", "or", "xor"):
    register(
        f"bitwise_{name}.Tensor",
        S(T(3, **WHOLE), T(3, **WHOLE)),
        S(T(3, **WHOLE), 3),
        S(T(3, dtype="bool"), T(3, dtype="bool")),
    )
    register(f"logical_{name}", S(T(3), T(3, dtype="bool")), S(T(2, 1, **WHOLE), T(3)))
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    register(f"{name}.Tensor", BROADCAST, S(T(3), 0), S(T(3, **WHOLE), 2.5), S(*TIES))
register(
    "isclose",
    S(T(3), T(3)),
    S(T(3), T(3), 0.5, 0.5),
    S(*TIES, equal_nan=True),
    S(T(3, **WHOLE), T(3, **WHOLE), rtol=0.5),
    S(T(values=[INF, 1.0]), T(values=[INF, INF])),
)
MASK = T(2, 1, 3, dtype="bool")
register(
    "where.self",
    S(MASK, T(4, 3), T(3)),
    S(MASK, T(3), 0.0),
    S(MASK, 1, T(3)),
    S(T(3, dtype="bool"), T(3, **WHOLE), T(3)),
)
register(
    "heaviside",
    S(T(3, grad=False), T(3, grad=False)),
    S(T(values=[0.0, 1.0], grad=False), T(grad=False)),
)
register(
    "lerp.Scalar",
    S(T(2, 3), T(3), 0.3),
    S(T(3), T(3), 1.5),
    S(T(3, dtype="complex64"), T(3, dtype="complex64"), 0.5),
)
register(
    "lerp.Tensor",
    S(T(2, 3), T(3), T(2, 1)),
    S(T(3, dtype="bfloat16"), T(3, dtype="bfloat16"), T(3, dtype="bfloat16")),
)
register(
    "addcmul",
    S(T(2, 3), T(3), T(2, 1)),
    S(T(3), T(3), T(3), value=0.5),
    S(T(3, **WHOLE), T(3, **WHOLE), T(3, **WHOLE)),
)
register(
    "addcdiv", S(T(2, 3), T(3), T(2, 1, **POSITIVE)), S(T(3), T(3), T(3, **POSITIVE), value=-2)
)
register("complex", S(T(2, 3), T(3)), S(T(3, dtype="float64"), T(3, dtype="float64")))
register("polar", S(T(2, 3), T(3)), S(T(values=[0.0, 1.0]), T(2)))
