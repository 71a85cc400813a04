"""The host tier's rules give what XLA gives: by primitive, with the values at which they could differ."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from ftorch.eager.host import RULES, MissingRule, evaluate
from ftorch.eager.host.interpret import missing

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
# Units in the last place of functions, and what sums of products may differ by.
ULP = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 6, "complex64": 8, "complex128": 16}


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def compare(function, *arrays, ulp=0, scale=0.0):
    """Asserts that the rules give XLA's dtype, shape and values."""
    closed = jax.make_jaxpr(function)(*arrays)
    expected = jax.tree.leaves(jax.jit(function)(*arrays))
    found = evaluate(closed, *arrays)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, map(np.asarray, expected), strict=True):
        assert isinstance(mine, np.ndarray)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert_close(mine, theirs, ulp, scale)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_derivative_of_tanh(dtype):
    """Newer versions of JAX have a primitive of its own in it."""
    x = np.array([-0.75, -0.5, 0, 1e-3, 0.25, np.inf, np.nan]).astype(dtype_of(dtype))
    compare(jax.vmap(jax.grad(jnp.tanh)), x, ulp=8)
    square = RULES["one_minus_square"].make({}, [x], [x])
    exact = 1 - x[:5].astype(float) ** 2
    np.testing.assert_allclose(square(x[:5]).astype(float), exact, rtol=4 * float(jnp.finfo(x.dtype).eps))


def assert_close(mine, theirs, ulp, scale):
    if theirs.dtype.kind in "biu":
        np.testing.assert_array_equal(mine, theirs)
        return
    if theirs.dtype.kind == "c":
        size = np.abs(np.where(np.isfinite(theirs), theirs, 0))
        eps = np.finfo(theirs.real.dtype).eps
        for a, b in ((mine.real, theirs.real), (mine.imag, theirs.imag)):
            good = np.abs(a - b) <= eps * ulp * size + scale
            assert np.all(good | (a == b) | (np.isnan(a) & np.isnan(b))), (mine, theirs)
        return
    eps = float(ml_dtypes.finfo(theirs.dtype).eps)
    tiny = float(ml_dtypes.finfo(theirs.dtype).tiny)  # XLA's functions may flush what is below
    a, b = (x.astype(np.float64) for x in (mine, theirs))
    with np.errstate(all="ignore"):
        good = np.abs(a - b) <= eps * ulp * np.abs(b) + scale + (tiny if ulp else 0)
        good |= (a == b) | (np.isnan(a) & np.isnan(b))
    if ulp == 0 and scale == 0:
        zero = (b == 0) & (a == 0)
        good &= ~zero | (np.signbit(a) == np.signbit(b))
    assert np.all(good), (a[~good][:5], b[~good][:5], np.flatnonzero(~good)[:5])


def numbers(name, count=64, seed=0):
    """Ordinary numbers of a dtype, between -4 and 4."""
    rng, dtype = np.random.default_rng(seed), dtype_of(name)
    if dtype.kind == "b":
        return rng.random(count) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -100, 100, count).astype(dtype)
    values = rng.uniform(-4, 4, count)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-4, 4, count)
    return values.astype(dtype)


def edges(name):
    """Ordinary numbers, and those at which functions differ."""
    dtype = dtype_of(name)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        rest = [0, 1, 2, 3, 7, bounds.max, bounds.max - 1, bounds.min, bounds.min + 1]
        rest += [-1, -2, -7] if dtype.kind == "i" else []
        return np.array(rest).astype(dtype) if dtype != np.uint64 else np.array(rest, np.uint64)
    parts = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-3, 30.0, -30.0]
    if dtype.kind == "c":
        finite = [p for p in parts if np.isfinite(p)]
        return np.array([complex(a, b) for a in finite for b in finite if abs(a) + abs(b) < 30], dtype)
    return np.concatenate([np.array(parts), numbers("float64")]).astype(dtype)


def pairs(name):
    values = edges(name)
    values = values if len(values) < 20 else np.concatenate([values[:16], values[-4:]])
    return np.repeat(values, len(values)), np.tile(values, len(values))


# --- elementwise -------------------------------------------------------------------------

EXACT = ["neg", "abs", "sign", "floor", "ceil", "is_finite", "square"]
FUNCTIONS = ["exp", "exp2", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh",
             "asin", "acos", "atan", "asinh", "acosh", "atanh", "logistic", "cbrt"]
SPECIAL = ["erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_floats(dtype):
    """Each function of one float, at all of the edges."""
    x = edges(dtype)
    for name in EXACT:
        compare(getattr(lax, name), x)
    compare(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), x)
    compare(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), x)
    for name in FUNCTIONS:
        loose = {"sinh": 4, "cosh": 4, "atanh": 16, "log1p": 16}.get(name, 1)  # XLA's, far out
        compare(getattr(lax, name), x if name != "exp2" else x[np.abs(x) < 8], ulp=loose * ULP[dtype])
    for name in SPECIAL:
        scale = (
            {"lgamma": 30, "digamma": 30}.get(name, 1)
            * float(ml_dtypes.finfo(dtype_of(dtype)).eps)
            * 4
        )
        points = (
            x[x != 0] if name == "digamma" else x
        )  # at its pole versions of XLA differ; no kernel asks it there
        compare(getattr(lax, name), points, ulp=16 * ULP[dtype], scale=scale)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_functions_of_complex_numbers(dtype):
    """Each function of a complex number, where it is finite."""
    x = numbers(dtype)
    for name in ["neg", "conj", "real", "imag"]:
        compare(getattr(lax, name), x)
    for name in ["abs", "sign", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh",
                 "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "logistic", "square"]:
        compare(getattr(lax, name), x, ulp=4 * ULP[dtype])
    y = numbers(dtype, seed=1)
    for name in ["add", "sub", "mul", "div", "pow", "eq", "ne"]:
        compare(getattr(lax, name), x, y, ulp=32 * ULP[dtype])
    compare(lambda x: lax.integer_pow(x, 3), x, ulp=ULP[dtype])
    compare(lambda a: lax.complex(a.real, a.imag * 2), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_pairs_of_floats(dtype):
    """Each function of two floats, at all pairs of edges."""
    x, y = pairs(dtype)
    for name in ["add", "sub", "mul", "div", "rem", "eq", "ne", "lt", "le", "gt", "ge"]:
        compare(getattr(lax, name), x, y)
    for name in ["max", "min"]:  # of zeros of both signs either
        compare(getattr(lax, name), x, y, scale=1e-30)
    compare(lax.atan2, x, y, ulp=ULP[dtype])
    compare(lax.clamp, np.ones(len(x), x.dtype) * x.dtype.type(-1), x, np.abs(y), scale=1e-30)
    inside = np.isfinite(x.astype(np.float32)) & np.isfinite(y.astype(np.float32))
    compare(lax.pow, np.abs(x[inside]), y[inside], ulp=4 * ULP[dtype])
    if dtype != "float16":
        compare(lax.nextafter, x, y)
    for exponent in (-3, -1, 0, 1, 2, 5):
        compare(lambda x, n=exponent: lax.integer_pow(x, n), numbers(dtype), ulp=1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_pairs_of_integers(dtype):
    """Arithmetic and bits of integers wrap, divide by zero and shift too far as XLA's do."""
    x, y = pairs(dtype)
    for name in ["add", "sub", "mul", "div", "rem", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor",
                 "shift_left", "shift_right_arithmetic", "shift_right_logical", "eq", "lt", "ge"]:
        compare(getattr(lax, name), x, y)
    for name in ["neg", "sign", "bitwise_not", "population_count", "clz"] + ["abs"] * (dtype[0] == "i"):
        compare(getattr(lax, name), x)
    for exponent in (0, 2, 5):
        compare(lambda x, n=exponent: lax.integer_pow(x, n), x)


def test_booleans():
    x, y = pairs("bool")
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "eq", "ne", "lt", "max", "min"]:
        compare(getattr(lax, name), x, y)
    compare(lax.bitwise_not, x)
    compare(lambda x: lax.reduce_or(x, (0,)), x)
    compare(lambda x: lax.reduce_and(x, (0,)), x)


def test_functions_of_two_arguments():
    """Incomplete gamma and beta functions, and zeta's."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        a, x, b = (rng.uniform(0.2, 8, 50).astype(dtype) for _ in range(3))
        scale = 64 * float(np.finfo(dtype).eps)
        for function in (lax.igamma, lax.igammac):
            compare(function, a, x, scale=scale)
        compare(lax.zeta, a + dtype_of(dtype).type(1.25), x, ulp=64)
        compare(lambda n, x: lax.polygamma(n, x), np.floor(a), x, ulp=512)
        compare(lax.betainc, a, b, x / dtype_of(dtype).type(8.5), scale=scale)


@pytest.mark.parametrize("source", ["bool", *INTEGERS, *FLOATS, *COMPLEX])
def test_conversions(source):
    """Every dtype to every other; what an integer cannot hold becomes its nearest."""
    x = edges(source)
    targets = ["bool", *INTEGERS, *FLOATS, "float8_e4m3fn", "float8_e5m2"] + COMPLEX

    def convert(x):
        if x.dtype.kind == "c":
            return [lax.convert_element_type(x, dtype_of(t)) for t in COMPLEX]
        return [lax.convert_element_type(x, dtype_of(t)) for t in targets]

    compare(convert, x)


def test_bits():
    """Reinterpreted bits, shorter and longer dtypes, reduced precision."""
    x = edges("float32")
    for target in ("int32", "uint16", "uint8", "float16", "bfloat16"):
        compare(lambda x, t=target: lax.bitcast_convert_type(x, dtype_of(t)), np.abs(x))
    compare(lambda x: lax.bitcast_convert_type(x.reshape(-1, 2), np.float64), x)
    compare(lambda x: lax.bitcast_convert_type(x, np.int16), edges("bfloat16"))
    for bits in ((5, 10), (8, 7), (4, 3), (8, 23), (5, 2)):
        compare(lambda x, b=bits: lax.reduce_precision(x, *b), np.concatenate([x, x * np.float32(1e-5)]))


def test_choices():
    """``select_n`` by booleans, integers and numbers without dimensions."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "bfloat16", "int8", "complex64"):
        cases = [numbers(dtype, 12, i).reshape(3, 4) for i in range(3)]
        compare(lax.select, rng.random((3, 4)) < 0.5, *cases[:2])
        compare(lax.select_n, np.asarray(rng.integers(0, 3, (3, 4)), np.int32), *cases)
        compare(lax.select_n, np.int32(2), *cases)
        compare(lax.select, np.True_, *cases[:2])


# --- shapes ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64", "int64"])
def test_shapes(dtype):
    """What moves elements, on arrays in order and on views."""
    x = numbers(dtype, 24).reshape(2, 3, 4)
    forms = [
        lambda x: lax.broadcast_in_dim(x, (2, 5, 3, 4), (0, 2, 3)),
        lambda x: lax.broadcast(x, (2,)),
        lambda x: lax.broadcast_in_dim(lax.slice(x, (0, 0, 1), (2, 1, 3)), (2, 6, 2), (0, 1, 2)),
        lambda x: lax.broadcast_in_dim(lax.transpose(x, (2, 0, 1)), (4, 2, 5, 3), (0, 1, 3)),
        lambda x: lax.reshape(lax.transpose(x, (1, 0, 2)), (6, 4)),
        lambda x: lax.reshape(x, (4, 6), (2, 0, 1)),
        lambda x: lax.squeeze(lax.slice(x, (0, 1, 0), (2, 2, 4)), (1,)),
        lambda x: lax.squeeze(lax.slice(x, (0, 1, 0), (1, 2, 1)), (0, 1, 2)),
        lambda x: lax.expand_dims(x, (0, 2)),
        lambda x: lax.rev(x, (0, 2)),
        lambda x: lax.slice(x, (0, 0, 1), (2, 3, 4), (1, 2, 2)),
        lambda x: lax.concatenate([x, x[:, :1], x], 1),
        lambda x: lax.pad(x, x[0, 0, 0], ((1, 2, 0), (0, -1, 1), (-1, 2, 2))),
        lambda x: lax.pad(x, x[0, 0, 0], ((-1, 1, 0), (0, 0, 0), (0, 0, 0))),
        lambda x: lax.pad(x, x[0, 0, 0], ((0, 0, 0), (-3, 0, 0), (0, 0, 0))),
        lambda x: lax.split(x, (1, 0, 3), 2),
        lambda x: jnp.stack([x, x], 1),
        lambda x: jnp.tile(x, (2, 1, 3)),
        lambda x: jnp.broadcast_to(x[0, 1, 2], (3, 4)),
        lambda x: jnp.unstack(x, axis=1),
    ]
    for form in forms:
        compare(form, x)
    for form in (
        lambda x: lax.broadcast_in_dim(x, (2, 0, 4), (1, 2)),
        lambda x: lax.broadcast_in_dim(x[:, :1], (0, 0), (0, 1)),
        lambda x: lax.reshape(x, (0, 3)),
        lambda x: lax.pad(x, x.dtype.type(1), ((2, 1, 1), (0, 0, 0))),
    ):
        compare(form, np.zeros((0, 4), x.dtype))


def test_iota():
    for dtype in ("int32", "float32", "bfloat16", "complex64"):
        compare(lambda d=dtype: lax.iota(dtype_of(d), 7))
        compare(lambda d=dtype: lax.broadcasted_iota(dtype_of(d), (2, 5, 3), 1))


def test_slices_at_computed_places():
    """Starts are clamped, as XLA's are."""
    x = numbers("float32", 24).reshape(4, 6)
    for start in ((1, 2), (-3, 5), (9, 9)):
        at = [np.int32(s) for s in start]
        compare(lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), x, *at)
        compare(lambda x, p, i, j: lax.dynamic_update_slice(x, p, (i, j)), x, x[:2, :3] * 2, *at)


# --- reductions --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "complex64", "int32", "int8", "uint8"])
def test_reductions(dtype):
    """Over each dimension and all of them, also of nothing."""
    x = numbers(dtype, 60).reshape(3, 4, 5)
    if x.dtype.kind in "iu":
        x = (x % 5).astype(x.dtype)
    scale = 0 if x.dtype.kind in "iu" else 40 * float(ml_dtypes.finfo(x.dtype).eps)
    for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2), ()):
        compare(lambda x, a=axes: lax.reduce_sum_p.bind(x, axes=a, out_sharding=None), x, scale=scale)
        compare(lambda x, a=axes: lax.reduce_prod_p.bind(x, axes=a, out_sharding=None), x[:1, :2, :2],
                scale=64 * scale)
        if x.dtype.kind == "c":
            continue
        compare(lambda x, a=axes: lax.reduce_max_p.bind(x, axes=a, out_sharding=None), x)
        compare(lambda x, a=axes: lax.reduce_min_p.bind(x, axes=a, out_sharding=None), x)
        compare(lambda x, a=axes: lax.reduce_max_p.bind(x, axes=a, out_sharding=None), x[:, :0])
    if x.dtype.kind != "c":
        compare(lambda x: (lax.argmax(x, 1, np.int32), lax.argmin(x, 2, np.int64)), x)
    if x.dtype.kind in "iu":
        compare(lambda x: lax.reduce_xor(x, (1,)), x)


def test_reductions_by_functions():
    """Several sums in one pass, with values to start from."""
    x, y = numbers("float32", 60).reshape(3, 4, 5), numbers("float32", 60, 1).reshape(3, 4, 5)
    add = lambda a, b: [a[0] + b[0], jnp.maximum(a[1], b[1])]  # noqa: E731
    compare(lambda x, y: lax.reduce([x, y], [np.float32(2), np.float32(1)], add, (0, 2)), x, y, scale=1e-5)
    closed = jax.make_jaxpr(lambda x, y: lax.reduce([x, y], [np.float32(0)] * 2, lambda a, b: [a[1], b[0]], (0,)))(x, y)
    with pytest.raises(MissingRule):
        evaluate(closed, x, y)


def test_extrema_with_nan():
    x = np.tile(edges("float32"), 3).reshape(3, -1)
    compare(lambda x: (lax.argmax(x, 1, np.int32), lax.argmin(x, 1, np.int32)), x)
    compare(lambda x: (lax.reduce_max(x, (0,)), lax.reduce_min(x, (1,))), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "complex64"])
def test_cumulative_functions(dtype):
    x = numbers(dtype, 60).reshape(3, 4, 5)
    x = (x % 3).astype(x.dtype) if x.dtype.kind == "i" else x
    scale = 0 if x.dtype.kind == "i" else 300 * float(ml_dtypes.finfo(x.dtype).eps)
    for reverse in (False, True):
        for axis in range(3):
            how = dict(axis=axis, reverse=reverse)
            compare(lambda x, how=how: (lax.cumsum(x, **how), lax.cumprod(x, **how)), x, ulp=64, scale=scale)
            if x.dtype.kind != "c":
                compare(lambda x, how=how: (lax.cummax(x, **how), lax.cummin(x, **how)), x)
            if x.dtype.kind == "f":
                compare(lambda x, how=how: lax.cumlogsumexp(x, **how), x, scale=scale)


def test_windows():
    """Sums, extrema and their gradients over windows, with gaps, borders and distances."""
    x = numbers("float32", 70).reshape(1, 7, 10)
    for edge in ("VALID", "SAME", ((0, 0), (1, 2), (3, 1))):
        for start, function in ((-np.inf, lax.max), (np.inf, lax.min), (0, lax.add), (1, lax.mul)):
            compare(
                lambda x, s=start, f=function, e=edge: lax.reduce_window(
                    x, np.float32(s), f, (1, 3, 2), (1, 2, 1), e, (1, 1, 2), (1, 2, 1)
                ), x, scale=2e-3 if function is lax.mul else 1e-5,
            )
    pooled = lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME")  # noqa: E731
    compare(lambda x: jax.vjp(pooled, x)[1](jnp.ones((1, 4, 10), np.float32)), x)


# --- products ----------------------------------------------------------------------------


def test_products():
    """All forms of dimension numbers, and operands of few bits."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64", "bfloat16", "complex64", "int32"):
        a, b = (numbers(dtype, 120, i).reshape(2, 3, 4, 5) for i in range(2))
        scale = 0 if dtype == "int32" else 200 * float(ml_dtypes.finfo(dtype_of(dtype)).eps)
        for contracting, batch in [
            (((3,), (3,)), ((0,), (0,))), (((2, 3), (2, 3)), ((), ())), (((0,), (0,)), ((3,), (3,))),
            (((), ()), ((0, 1), (0, 1))), (((0, 1, 2, 3), (0, 1, 2, 3)), ((), ())), (((2,), (2,)), ((1, 0), (1, 0))),
        ]:
            compare(lambda a, b, n=(contracting, batch): lax.dot_general(a, b, n), a, b, scale=scale)
        compare(jnp.dot, a[0, 0], b[0, 0].T, scale=scale)
        compare(jnp.dot, a[0, 0], b[0, 0, 0], scale=scale)
        compare(jnp.dot, a[0, 0, 0], b[0, 0, 0], scale=scale)
        compare(jnp.matmul, a[:, :, :0].swapaxes(2, 3), b[:, :, :0], scale=scale)
    x = rng.integers(-128, 127, (4, 9)).astype(np.int8)
    compare(lambda x: lax.dot(x, x.T, preferred_element_type=np.int32), x)
    for low, high in ((-9, 9), (-(2**40), 2**40)):  # exact in double precision, and not
        x = rng.integers(low, high, (40, 30))
        compare(lambda x: lax.dot(x, x.T), x)
    half = numbers("bfloat16", 36).reshape(4, 9)
    compare(lambda x: lax.dot(x, x.T, preferred_element_type=np.float32), half, scale=1e-4)


def test_convolutions():
    """Groups of both kinds, borders of both signs, gaps, and other orders of dimensions."""
    for how in [
        dict(window_strides=(1, 2), padding=((1, 1), (0, 2))),
        dict(window_strides=(2, 1), padding=((-1, 2), (0, 0)), rhs_dilation=(2, 1)),
        dict(window_strides=(1, 1), padding=((2, 1), (1, 1)), lhs_dilation=(2, 3)),
    ]:
        x, k = numbers("float32", 4 * 4 * 7 * 8).reshape(4, 4, 7, 8), numbers("float32", 96, 1)
        for features, batches in ((1, 1), (2, 1), (4, 1), (1, 2), (1, 4)):
            kernel = k.reshape(-1, 4 // features, 2, 3)[:4]
            groups = dict(feature_group_count=features, batch_group_count=batches)
            compare(lambda x, k, h=how | groups: lax.conv_general_dilated(x, k, **h), x, kernel, scale=2e-4)
        compare(
            lambda x, k, h=how: lax.conv_general_dilated(
                x.transpose(0, 2, 3, 1), k.transpose(2, 3, 1, 0), **h, dimension_numbers=("NHWC", "HWIO", "NHWC")
            ), x, k.reshape(4, 4, 2, 3), scale=2e-4,
        )


# --- indices -----------------------------------------------------------------------------

MODES = ["clip", "fill", "promise_in_bounds"]


@pytest.mark.parametrize("mode", MODES)
def test_reads_by_index(mode):
    """What NumPy's indexing becomes, in range and, where the mode says what comes out, beyond."""
    x = numbers("float32", 60).reshape(3, 4, 5)
    far = mode != "promise_in_bounds"
    i = np.array([0, 2, 1, 2] + [7, -9] * far)
    j = np.array([3, 0, 1, 1] + [2, 8] * far)
    for form in [
        lambda x, i, j: x.at[i].get(mode=mode),
        lambda x, i, j: x.at[:, j].get(mode=mode),
        lambda x, i, j: x.at[:, :, i].get(mode=mode),
        lambda x, i, j: x.at[i, j].get(mode=mode),
        lambda x, i, j: x.at[i, :, j].get(mode=mode),
        lambda x, i, j: x.at[:, i, j].get(mode=mode),
        lambda x, i, j: x.at[i[:, None], j[None]].get(mode=mode),
        lambda x, i, j: x.at[i, j, i].get(mode=mode),
        lambda x, i, j: x.at[i[None].astype(np.int32), :, 2].get(mode=mode),
        lambda x, i, j: x.at[i[1], j].get(mode=mode),
        lambda x, i, j: jnp.take_along_axis(x, i.reshape(1, -1, 1) % 4, 1, mode=mode),
        lambda x, i, j: x.at[i[:0]].get(mode=mode),
    ]:
        compare(form, x, i, j)
    y = numbers("int8", 12).reshape(3, 4)
    compare(lambda y, i: (y.at[i].get(mode=mode), (y > 0).at[:, i].get(mode=mode)), y, i)


@functools.cache
def _windows_numbers():
    return lax.GatherDimensionNumbers(offset_dims=(1, 3), collapsed_slice_dims=(1,), start_index_map=(0, 2))


def test_reads_of_windows():
    """Windows at computed places, and dimensions that go along with the index's."""
    x = numbers("float32", 60).reshape(3, 4, 5)
    index = np.array([[0, 1], [1, 2], [2, 9], [-1, 0]]).reshape(2, 2, 2)
    for mode in ("clip", "fill"):
        compare(lambda x, i, m=mode: lax.gather(x, i, _windows_numbers(), (2, 1, 3), mode=m), x, index)
    numbers_ = lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(2,), start_index_map=(2,), operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )
    at = np.array([[0, 4, 9], [1, 1, 0], [2, 3, -2]])[..., None]
    for mode in ("clip", "fill"):
        compare(lambda x, i, m=mode: lax.gather(x, i, numbers_, (1, 4, 1), mode=m), x, at)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "bool"])
def test_writes_by_index(dtype):
    """All kinds of scatters; where indices repeat the last written wins."""
    x = numbers(dtype, 60).reshape(3, 4, 5)
    i, j = np.array([0, 2, 1, 2, 7, -9]), np.array([3, 0, 1, 1, 2, 8])
    kinds = ["set"] if dtype == "bool" else ["set", "add", "multiply", "min", "max"]
    scale = 0 if x.dtype.kind in "ib" else 64 * float(ml_dtypes.finfo(x.dtype).eps)

    def written(part, kind, mode, update):
        return lambda x, u: getattr(part(x), kind)(u[update(x.shape)], mode=mode)

    for kind in kinds:
        for mode in ("clip", "drop"):
            for where in [(i,), (slice(None), j), (i, j), (i, slice(None), j), (slice(None), slice(None), i),
                          (i[:, None], j[None]), (i, j, i), (i[1], j), (i[:0],)]:
                shape = np.broadcast_to(np.zeros(()), np.empty((99, 99, 99))[_inside(where)].shape).shape
                shape = tuple(n if n < 90 else x.shape[d] for d, n in enumerate(shape)) if 99 in shape else shape
                put = lambda x, u, w=where, k=kind, m=mode: getattr(x.at[w], k)(u, mode=m)  # noqa: E731
                reads = jax.eval_shape(lambda x, w=where: x.at[w].get(mode="clip"), x).shape
                update = numbers(dtype, int(np.prod(reads)), 3).reshape(reads)
                compare(put, x, update, scale=scale)


def _inside(where):
    return tuple([np.clip(w, 0, 2) if isinstance(w, (np.ndarray, np.integer)) else w for w in where])


def test_sums_by_index():
    """Rows added where an index says, as embeddings' gradients and message passing do."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64", "int64", "complex64"):
        rows, index = numbers(dtype, 400).reshape(50, 8), rng.integers(0, 9, 50)
        zeros = np.zeros((9, 8), rows.dtype)
        compare(lambda z, i, r: z.at[i].add(r), zeros, index, rows, ulp=4, scale=1e-5)
        compare(lambda z, i, r: z.at[:, i].add(r), zeros.T, index, rows.T, ulp=4, scale=1e-5)
        compare(lambda z, i, r: z.at[i].add(r), zeros[:, 0], index, rows[:, 0], ulp=4, scale=1e-5)


# --- order -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8", "int64", "uint8", "bool", "complex64"])
def test_sorting(dtype):
    """One key and several, with what goes along; NaN last, zeros equal."""
    x = np.concatenate([edges(dtype), numbers(dtype)])[:40].reshape(4, -1)
    if x.dtype.kind == "c":
        x = numbers(dtype).reshape(4, -1)
    along = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    for axis in (0, 1):
        compare(lambda x, a=axis: lax.sort(x, dimension=a, is_stable=True), x)
        compare(lambda x, i, a=axis: lax.sort((x, i), dimension=a, num_keys=1), x, along)
        compare(lambda x, i, a=axis: lax.sort(((i % 3), x, i), dimension=a, num_keys=2), x, along)
    if dtype not in ("bool", "complex64"):
        compare(lambda x: lax.top_k(x, 3), x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "uint64", "int32", "bool"])
def test_sorting_of_many(dtype):
    """Keys that fit are sorted together with their places: equal ones stay in their order."""
    x = np.concatenate([edges(dtype), numbers(dtype, 3000)[: 2400 - len(edges(dtype))]]).reshape(3, -1)
    x[1] = x[1] * 0 if dtype[0] == "f" else x[1]  # zeros of both signs, NaN
    along = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    for y in (x, x.T, x.reshape(-1)):
        axis = int(np.argmax(y.shape))
        compare(lambda x, a=axis: lax.sort(x, dimension=a, is_stable=True), y)
        compare(lambda x, i, a=axis: lax.sort((x, i), dimension=a, num_keys=1), y, along.reshape(y.shape))
    if dtype[-2:] == "64" and x.dtype.kind in "iu":
        narrow = numbers(dtype, 900)
        compare(lambda x, i: lax.sort((x, i), num_keys=1), narrow, np.arange(900))


# --- functions inside of primitives --------------------------------------------------------


def test_control_flow():
    """Loops forwards and backwards, branches, loops of several examples."""
    x = numbers("float32", 12).reshape(4, 3)
    compare(lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), x, ulp=4)
    compare(lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x, reverse=True), x, ulp=4)
    compare(lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x[:0]), x, ulp=4)
    compare(lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * c + 1, x), x, ulp=4)
    compare(jax.vmap(lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * c + 1, x)), x, ulp=4)
    compare(lambda x: lax.cond(x[0, 0] > 0, lambda x: x, lambda x: -x, x), x, ulp=4)
    compare(lambda i, x: lax.switch(i, [jnp.sin, jnp.negative, jnp.abs], x), np.int32(5), x, ulp=4)
    compare(lambda x: lax.fori_loop(0, 3, lambda i, c: c + i, x), x, ulp=4)
    compare(lambda x: lax.map(lambda r: r * 2, x), x, ulp=4)


def test_decompositions():
    """LAPACK's results, batches of matrices, matrices without elements, failures as NaN."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "complex128"):
        x = rng.uniform(-1, 1, (2, 4, 4)).astype(dtype)
        x = x + (1j * rng.uniform(-1, 1, x.shape) if dtype[0] == "c" else 0)
        x = x.astype(dtype)
        whole = x @ x.conj().swapaxes(-1, -2) + 4 * np.eye(4, dtype=dtype)
        scale = 200 * float(np.finfo(dtype).eps)
        for function in (lax.linalg.cholesky, lax.linalg.eigh, lambda x: lax.linalg.svd(x, compute_uv=False)):
            compare(function, whole, scale=20 * scale)
        compare(lax.linalg.cholesky, -whole, scale=scale)
        for form in (lax.linalg.lu, lax.linalg.qr, lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False)):
            compare(form, x, scale=scale)
        compare(lambda x: lax.linalg.qr(x[:, :, :2], full_matrices=True), x, scale=scale)
        compare(lambda x: lax.linalg.svd(x[:, :2]), x, scale=scale)
        for how in [dict(left_side=True), dict(lower=True, transpose_a=True), dict(left_side=True, conjugate_a=True),
                    dict(left_side=True, lower=True, transpose_a=True, conjugate_a=True, unit_diagonal=True)]:
            compare(lambda a, b, h=how: lax.linalg.triangular_solve(a, b, **h), whole, x, scale=20 * scale)
        compare(jnp.linalg.solve, whole, x, scale=scale)
        compare(lax.linalg.lu, np.zeros((0, 0), dtype))


def test_fourier_transforms():
    x = numbers("float32", 48).reshape(2, 4, 6)
    compare(lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x), jnp.fft.ifft2(x), jnp.fft.rfftn(x)), x, ulp=64, scale=2e-5)
    compare(lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x)), x, scale=2e-5)


# --- what is missing -----------------------------------------------------------------------


def test_what_has_no_rule_says_so():
    """The caller can fall back to XLA, for the one step."""
    closed = jax.make_jaxpr(lambda x: lax.igamma_grad_a(x, x) + 1)(np.ones(3, np.float32))
    with pytest.raises(MissingRule, match="no rule"):
        evaluate(closed, np.ones(3, np.float32))
    assert missing(jax.make_jaxpr(lambda x: lax.linalg.schur(x))(np.eye(2)).jaxpr) == {"schur"}
    [found] = evaluate(closed, np.ones(3, np.float32), fallback=True)
    np.testing.assert_allclose(
        found, np.asarray(jax.jit(lambda x: lax.igamma_grad_a(x, x) + 1)(np.ones(3, np.float32))), rtol=1e-6
    )
    assert len(RULES) > 150
