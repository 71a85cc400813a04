"""Elementwise programs, reductions and products of the C++ kernels, called on NumPy arrays."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import torch as pt

import ftorch
from ftorch.eager.host import RULES
from ftorch.eager.host import native_calls as calls
from ftorch.eager.host.rules import Form
from ftorch.eager.native import module, numpy_calls

pytestmark = pytest.mark.skipif(not calls.available, reason="without a compiler")

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 1e-310, 88.7, 89.0, -87.4, -104.0, 709.7,
           710.0, -745.2, 0.5, -0.5, 2.0**20, 1e30, 524288.0]

FUNCTIONS = {
    "exp": pt.exp, "exp2": pt.exp2, "expm1": pt.expm1, "log": pt.log, "log1p": pt.log1p, "tanh": pt.tanh,
    "logistic": pt.sigmoid, "erf": pt.erf, "erfc": pt.erfc, "sin": pt.sin, "cos": pt.cos, "sqrt": pt.sqrt,
    "rsqrt": pt.rsqrt, "tan": pt.tan, "asin": pt.asin, "acos": pt.acos, "atan": pt.atan, "sinh": pt.sinh,
    "cosh": pt.cosh, "asinh": pt.asinh, "acosh": pt.acosh, "atanh": pt.atanh,
    "neg": pt.neg, "abs": pt.abs, "floor": pt.floor, "ceil": pt.ceil, "round": pt.round,
    "is_finite": pt.isfinite,
}
EXACT = {"neg", "abs", "floor", "ceil", "round", "is_finite"}


def numbers(dtype, count=4000):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=count) * s for s in (1e-30, 1e-8, 1e-3, 0.3, 1, 4, 30, 1e3)]
    parts += [1 + rng.normal(size=count) * 1e-3, np.exp(rng.normal(size=count) * 20)]
    with np.errstate(all="ignore"):
        return np.concatenate([*parts, SPECIAL]).astype(dtype)


def unary(name, dtype):
    return calls.elementwise((dtype,), ((name, dtype, 0),), (1,))


def ulps(found, expected):
    """The greatest difference in units of the last place; what is infinite or no number has to be the same."""
    with np.errstate(all="ignore"):
        reference = expected.astype(found.dtype)
        finite = np.isfinite(reference)
        np.testing.assert_array_equal(found[~finite], reference[~finite])
        unit = np.spacing(np.abs(reference[finite]))
        return np.max(np.abs(found[finite].astype(expected.dtype) - expected[finite]) / unit)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float32(name):
    x = numbers(np.float32)
    if name == "logistic":
        x = x[~(x < -87)]  # results that are no normal numbers: PyTorch's are zero, too
    [found] = unary(name, "float32")([x], x.shape)
    if name in EXACT:
        np.testing.assert_array_equal(found, FUNCTIONS[name](pt.from_numpy(x)).numpy())
    else:
        assert ulps(found, FUNCTIONS[name](pt.from_numpy(x.astype(np.float64))).numpy()) <= 2


LONG = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "sinh": np.sinh, "cosh": np.cosh,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float64(name):
    x = numbers(np.float64)
    [found] = unary(name, "float64")([x], x.shape)
    if name in LONG and np.finfo(np.longdouble).nmant > 60:
        with np.errstate(all="ignore"):
            expected = LONG[name](x.astype(np.longdouble))
        assert ulps(found, expected) <= 2
        return
    expected = FUNCTIONS[name](pt.from_numpy(x)).numpy()
    if found.dtype == bool:
        np.testing.assert_array_equal(found, expected)
    else:
        usual = np.abs(expected) > 1e-300 if name in ("erfc", "logistic") else np.ones_like(x, bool)
        np.testing.assert_allclose(found[usual], expected[usual], rtol=2e-15)


def test_signs_of_zeros():
    x = np.array([-0.0, 0.0], np.float32)
    for name in ("sin", "tan", "tanh", "erf", "expm1", "log1p", "asinh", "sqrt", "floor", "sign"):
        [found] = unary(name, "float32")([x], (2,))
        np.testing.assert_array_equal(np.signbit(found), [True, False], name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_operations_of_two(dtype):
    rng = np.random.default_rng(1)
    if dtype == "bool":
        x, y = rng.random((2, 1000)) > 0.5
        names = {"and": pt.logical_and, "or": pt.logical_or, "xor": pt.logical_xor}
    elif dtype.startswith("int"):
        x, y = rng.integers(-50, 50, (2, 1000)).astype(dtype)
        y[y == 0] = 3
        x[:2] = np.iinfo(dtype).min
        y[:2] = 1, 7
        names = {"add": pt.add, "sub": pt.sub, "mul": pt.mul, "max": pt.maximum, "min": pt.minimum, "rem": pt.fmod,
                 "and": pt.bitwise_and, "or": pt.bitwise_or, "xor": pt.bitwise_xor,
                 "div": lambda a, b: pt.div(a, b, rounding_mode="trunc")}
    else:
        x, y = rng.choice(numbers(dtype), (2, 5000))
        names = {"add": pt.add, "sub": pt.sub, "mul": pt.mul, "div": pt.div, "max": pt.maximum, "min": pt.minimum}
    names |= {"eq": pt.eq, "ne": pt.ne, "lt": pt.lt, "le": pt.le, "gt": pt.gt, "ge": pt.ge}
    for name, function in names.items():
        [found] = calls.elementwise((dtype, dtype), ((name, dtype, 0, 1),), (2,))([x, y], x.shape)
        expected = function(pt.from_numpy(x), pt.from_numpy(y)).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, name)


def test_signs_and_remainders():
    x, y = np.random.default_rng(1).choice(numbers(np.float32), (2, 5000))
    np.testing.assert_array_equal(unary("sign", "float32")([x], x.shape)[0], np.where(np.isnan(x), x, np.sign(x)))
    [found] = calls.elementwise(("float32", "float32"), (("rem", "float32", 0, 1),), (2,))([x, y], x.shape)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.fmod(x, y))


def test_integers_by_zero_are_xlas():
    x, y = np.array([7, -7, np.iinfo(np.int32).min], np.int32), np.array([0, 0, -1], np.int32)
    for name, expected in {"div": [-1, -1, x[2]], "rem": [7, -7, 0]}.items():
        [found] = calls.elementwise(("int32", "int32"), ((name, "int32", 0, 1),), (2,))([x, y], (3,))
        assert found.tolist() == expected


def test_powers():
    rng = np.random.default_rng(2)
    x, y = np.exp(rng.normal(size=4000) * 3).astype(np.float32), rng.normal(size=4000).astype(np.float32) * 4
    with np.errstate(over="ignore", under="ignore"):
        x[:100], y[100:200] = -x[:100], np.round(y[100:200])
        x[200:222], y[222:244] = SPECIAL, SPECIAL
    for dtype in (np.float32, np.float64):
        program = calls.elementwise((dtype, dtype), (("pow", dtype, 0, 1),), (2,))
        [found] = program([x.astype(dtype), y.astype(dtype)], x.shape)
        expected = pt.pow(pt.from_numpy(x.astype(np.float64)), pt.from_numpy(y.astype(np.float64))).numpy()
        assert ulps(found, expected) <= 1
    x = x[300:]
    for n in (0, 1, 2, 3, 7, -1, -4):
        [found] = calls.elementwise(("float32",), (("integer_pow", "float32", 0, n),), (1,))([x], x.shape)
        expected = x.astype(np.float64) ** n
        usual = (expected < 3e38) & (expected > 1e-37)
        np.testing.assert_allclose(found[usual], expected[usual], rtol=2e-6)


def test_select_and_clamp():
    rng = np.random.default_rng(3)
    which, x, y = rng.random(777) > 0.5, rng.normal(size=777), rng.normal(size=777)
    for dtype in ("float32", "float64", "int32", "int64", "int16", "bool"):
        a, b = (x * 50).astype(dtype), (y * 50).astype(dtype)
        program = calls.elementwise(("bool", dtype, dtype), (("select_n", dtype, 0, 1, 2),), (3,))
        np.testing.assert_array_equal(program([which, a, b], (777,))[0], np.where(which, b, a))
    limits = ("float32", -0.5), ("float32", 0.5)
    program = calls.elementwise(("float32",), (("clamp", "float32", 1, 0, 2),), (3,), limits)
    x = np.append(x, [np.nan, np.inf]).astype(np.float32)
    np.testing.assert_array_equal(program([x], x.shape)[0], pt.clamp(pt.from_numpy(x), -0.5, 0.5).numpy())


@pytest.mark.parametrize("source", calls.DTYPES)
def test_conversions(source):
    floats, integers = np.array([0.0, -0.0, 1.5, -2.7, 100, -100, 0.3]), np.array([0, 1, -1, 100, -100])
    for target in calls.DTYPES:
        x = floats if source.startswith("float") else integers
        x = (np.abs(x) if "u" in source + target else x).astype(source)
        [found] = calls.elementwise((source,), (("convert_element_type", source, target, 0),), (1,))([x], x.shape)
        assert found.dtype == target
        np.testing.assert_array_equal(found, x.astype(target))


def test_conversions_of_what_does_not_fit_are_xlas():
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9], np.float32)
    [found] = calls.elementwise(("float32",), (("convert_element_type", "float32", "int32", 0),), (1,))([x], (5,))
    assert found.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31)]


# --- arrays ----------------------------------------------------------------------------


def chain():
    steps = (
        ("mul", "float32", 0, 1), ("add", "float32", 4, 2), ("tanh", "float32", 5), ("gt", "float32", 6, 3),
        ("select_n", "float32", 7, 4, 6), ("exp", "float32", 8), ("sub", "float32", 9, 0),
    )
    return calls.elementwise(("float32",) * 3, steps, (10, 7, 5), (("float32", 0.1),))


def array_for(rng, shape):
    """An array that broadcasts to a shape, of some strides."""
    sizes = [n if rng.random() < 0.7 else 1 for n in shape]
    sizes = sizes[rng.integers(0, len(shape) + 1) if rng.random() < 0.3 else 0 :]
    kind = rng.integers(5)
    if kind == 0:
        return np.asarray(rng.normal(size=sizes), np.float32)
    if kind == 1:
        return np.asarray(rng.normal(size=sizes[::-1]), np.float32).T
    if kind == 2:
        return np.asarray(rng.normal(size=[2 * n for n in sizes]), np.float32)[(slice(None, None, 2),) * len(sizes)]
    if kind == 3:
        return np.asarray(rng.normal(size=sizes), np.float32)[(slice(None, None, -1),) * len(sizes)]
    few = [n if rng.random() < 0.5 else 1 for n in sizes]
    return np.broadcast_to(np.asarray(rng.normal(size=few), np.float32), sizes)


def test_shapes_strides_and_places_do_not_change_bits():
    rng, program = np.random.default_rng(4), chain()
    for _ in range(300):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 17, 40, 300, 700], rng.integers(0, 5)))
        if np.prod(shape) > 300_000:
            continue
        given = [array_for(rng, shape) for _ in range(3)]
        found = program(given, shape)
        x, y, z = (np.broadcast_to(x, shape).ravel() for x in given)
        np.testing.assert_array_equal(found[2].ravel(), x * y + z)  # two roundings
        for i in rng.integers(0, x.size, 3):  # an element by itself
            alone = program([float(x[i]), float(y[i]), float(z[i])], ())
            for whole, one in zip(found, alone, strict=True):
                assert whole.shape == shape and one.shape == ()
                assert whole.ravel()[i].tobytes() == one.tobytes()


def test_dimensions_of_inputs():
    x, y = np.arange(3, dtype=np.float32), np.arange(20, dtype=np.float32).reshape(4, 5)
    program = calls.elementwise(("float32", "float32"), (("add", "float32", 0, 1),), (2,), dims=((1,), (0, 2)))
    np.testing.assert_array_equal(program([x, y], (4, 3, 5))[0], x[:, None] + y[:, None])


def test_results_are_written_where_asked():
    rng = np.random.default_rng(5)
    program = calls.elementwise(("float32", "float32"), (("mul", "float32", 0, 1), ("add", "float32", 2, 0)), (3,))
    for shape in ((1000,), (30, 40), (3, 700)):
        x, y = rng.normal(size=(2, *shape)).astype(np.float32)
        expected = x * y + x
        whole = np.zeros([2 * n for n in shape], np.float32)
        view = whole[(slice(1, None, 2),) * len(shape)]
        [found] = program([x, y], shape, [view])
        assert found is view
        np.testing.assert_array_equal(view, expected)
        assert np.count_nonzero(whole) == np.count_nonzero(expected)
        own = x.copy()
        program([own, y], shape, [own])  # over its own operand
        np.testing.assert_array_equal(own, expected)


def test_results_are_aligned_and_memory_is_used_again():
    program, x = unary("neg", "float32"), np.ones(100_000, np.float32)
    first = program([x], x.shape)[0]
    place = first.ctypes.data
    assert place % 64 == 0
    kept = first[3:]  # a view keeps it
    del first
    assert program([x], x.shape)[0].ctypes.data != place
    del kept
    assert program([x], x.shape)[0].ctypes.data == place
    used, waiting, most = module.memory_state()
    assert waiting + used <= most + (64 << 20)


def test_what_is_wrong_is_said():
    program = unary("exp", "float32")
    with pytest.raises(TypeError, match="dtype"):
        program([np.zeros(3)], (3,))
    with pytest.raises(ValueError, match="shape"):
        program([np.zeros(3, np.float32)], (4,))
    with pytest.raises(ValueError, match="dtype"):
        calls.elementwise(("int32",), (("exp", "int32", 0),), (1,))
    with pytest.raises(ValueError, match="dtype"):
        calls.elementwise(("int32",), (("exp", "float32", 0),), (1,))
    assert not calls.supports("exp", np.int32) and calls.supports("exp", np.float64)
    assert not calls.supports("add", np.complex64)


# --- reductions ------------------------------------------------------------------------


def reduction(name, dtype, axes):
    return calls.elementwise((dtype,), (), ((name, 0),), axes=axes)


REDUCTIONS = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_reductions(dtype):
    rng = np.random.default_rng(6)
    for trial in range(120):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 9, 33, 260, 1100], rng.integers(1, 5)))
        if np.prod(shape) > 300_000:
            continue
        x = (rng.normal(size=shape) * 3).astype(dtype)
        x = np.asfortranarray(x) if trial % 3 == 0 else x
        axes = tuple(d for d in range(x.ndim) if rng.random() < 0.5) or (x.ndim - 1,)
        for name, function in REDUCTIONS.items():
            given = np.sign(x) if name == "reduce_prod" else x
            [found] = reduction(name, dtype, axes)([given], shape)
            if dtype.startswith("float"):
                wide = given.astype(np.float64)
                scale = np.sum(np.abs(wide), axes)
                assert np.all(np.abs(found - function(wide, axes)) <= 1e-6 * scale + 1e-30)
            else:
                np.testing.assert_array_equal(found, function(given, axes).astype(dtype))


def test_reductions_of_nothing_and_of_no_numbers():
    empty = np.zeros((3, 0), np.float32)
    for name, value in {"reduce_sum": 0, "reduce_prod": 1, "reduce_max": -np.inf, "reduce_min": np.inf}.items():
        [found] = reduction(name, "float32", (1,))([empty], (3, 0))
        assert found.tolist() == [value] * 3
    for shape, axes in {(50, 70): (1,), (700, 50): (0,), (9, 2000): (1,), (20, 30, 40): (0, 2)}.items():
        x = np.random.default_rng(7).normal(size=shape).astype(np.float32)
        x.flat[77] = np.nan
        for name, function in REDUCTIONS.items():
            [found] = reduction(name, "float32", axes)([x], shape)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(function(x, axes)))
    zeros = np.full(5, -0.0, np.float32)
    assert not np.signbit(reduction("reduce_sum", "float32", (0,))([zeros], (5,))[0])


def test_reductions_of_booleans():
    x = np.random.default_rng(8).random((40, 50)) > 0.03
    for axes in ((0,), (1,), (0, 1)):
        assert reduction("reduce_and", "bool", axes)([x], x.shape)[0].tolist() == np.all(x, axes).tolist()
        assert reduction("reduce_or", "bool", axes)([~x], x.shape)[0].tolist() == np.any(~x, axes).tolist()


def test_programs_that_end_in_sums_give_the_bits_of_single_steps():
    rng = np.random.default_rng(9)
    steps = (("sub", "float32", 0, 1), ("exp", "float32", 2))
    shapes = {(300, 77): (1,), (40, 3000): (1,), (3000, 40): (0,), (50, 6, 70): (0, 2), (5, 6, 7): (1,)}
    for shape, axes in shapes.items():
        x = rng.normal(size=shape).astype(np.float32)
        outputs = (3, ("reduce_sum", 3), ("reduce_max", 2))
        fused = calls.elementwise(("float32", "float32"), steps, outputs, axes=axes)
        y, total, top = fused([x, 0.5], shape)
        np.testing.assert_array_equal(y, calls.elementwise(("float32", "float32"), steps, (3,))([x, 0.5], shape)[0])
        np.testing.assert_array_equal(total, reduction("reduce_sum", "float32", axes)([y], shape)[0])
        np.testing.assert_array_equal(top, np.max(x - np.float32(0.5), axes))


def digest():
    """Of results of many programs, whose bits are not to depend on threads or instructions."""
    rng = np.random.default_rng(10)
    found = hashlib.sha256()
    shapes = {(1 << 20,): (0,), (300, 3000): (0,), (900, 1000): (1,), (64, 30, 100): (0, 2), (20000, 10): (0,)}
    for dtype in ("float32", "float64"):
        x = numbers(dtype)
        for name in FUNCTIONS:
            [y] = unary(name, dtype)([x], x.shape)
            found.update(np.where(np.isnan(y), 7, y).tobytes())
        for shape, axes in shapes.items():
            x = rng.normal(size=shape).astype(dtype)
            for name in ("reduce_sum", "reduce_max"):
                found.update(reduction(name, dtype, axes)([x], shape)[0].tobytes())
    return found.hexdigest()


def test_threads_do_not_change_bits():
    before, found = module.get_threads(), set()
    try:
        for threads in (1, 2, 5):
            module.set_threads(threads)
            found.add(digest())
    finally:
        module.set_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("instructions", ["avx2", "plain"])
def test_instructions_do_not_change_bits(instructions):
    code = "from tests.eager.host.test_native_calls import digest; print(digest())"
    environment = {**os.environ, "FTORCH_NATIVE": instructions}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == digest()


# --- products --------------------------------------------------------------------------

PRODUCTS = [
    ("ij,jk->ik", (5, 7), (7, 9)),
    ("ji,kj->ik", (7, 5), (9, 7)),
    ("bij,bjk->bik", (3, 40, 50), (3, 50, 60)),
    ("abij,abjk->abik", (2, 3, 8, 5), (2, 3, 5, 9)),
    ("ijk,kj->i", (4, 6, 5), (5, 6)),
    ("i,i->", (30,), (30,)),
    ("bi,bi->b", (6, 30), (6, 30)),
    ("ij,jk->ik", (100, 1), (1, 90)),
    ("ijkbl,bkm->bijlm", (2, 3, 4, 5, 6), (5, 4, 7)),
    ("ij,jk->ik", (3, 0), (0, 4)),
    (",k->k", (), (4,)),
]


@pytest.mark.parametrize("letters, left, right", PRODUCTS)
def test_products_through_strides(letters, left, right):
    rng = np.random.default_rng(11)
    a, b = letters.split("->")[0].split(",")
    out = letters.split("->")[1]
    shared = [c for c in a if c in b]
    batch, sums = [c for c in out if c in shared], [c for c in shared if c not in out]
    product = module.Product(*(tuple(x.index(c) for c in dims) for dims in (sums, batch) for x in (a, b)))
    for trial in range(5):
        arrays = []
        for shape in (left, right):
            order = rng.permutation(len(shape))
            x = np.asarray(rng.normal(size=[shape[d] for d in order]), np.float32).transpose(np.argsort(order))
            if trial > 2 and x.ndim:
                x = x[::-1] if trial == 3 else np.broadcast_to(x[..., :1], x.shape)
            arrays.append(x)
        found = product(*arrays)
        expected = np.einsum(letters, *[x.astype(np.float64) for x in arrays])
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_wrong_products():
    with pytest.raises(ValueError, match="lengths"):
        module.Product((1,), (0,), (), ())(np.zeros((2, 3), np.float32), np.zeros((4, 2), np.float32))
    with pytest.raises(TypeError, match="float32"):
        module.Product((1,), (0,), (), ())(np.zeros((2, 3)), np.zeros((3, 2)))


def test_threads_do_not_change_bits_of_kernels():
    rng = np.random.default_rng(12)

    def floats(*shape):
        return rng.normal(size=shape).astype(np.float32)

    def handler(name, results, operands, **attributes):
        shaped = [numpy_calls.Shaped(s, np.dtype(np.float32)) for s in results]
        return numpy_calls.call(name, shaped, operands, None, attributes)

    product = module.Product((1,), (0,), (), ())
    pairs = [
        (floats(m, k), floats(k, n)) for m, k, n in ((16, 300, 500), (17, 700, 333), (300, 600, 70), (9, 900, 900))
    ]
    pairs += [(x, np.ascontiguousarray(y.T).T) for x, y in pairs]
    rows, weight = floats(4, 600, 300), floats(4, 300)
    before, found = module.get_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            module.set_threads(threads)
            results = [product(x, y) for x, y in pairs]
            for sizes in ((1, 900_000, 1), (1, 3000, 300), (40, 50, 450)):
                results += handler("ftorch_sum", [sizes[:1] + sizes[2:]], [np.resize(rows, sizes)], sizes=sizes)
            results += handler(
                "ftorch_layer_norm_gradient", [rows.shape, weight.shape, weight.shape], [rows, rows[::-1], weight],
                sizes=rows.shape, eps=np.float64(1e-5),
            )
            found.append([r.tobytes() for r in results])
    finally:
        module.set_threads(before)
    assert all(f == found[0] for f in found)


# --- calls that came before -------------------------------------------------------------


def test_a_call_that_came_is_made_again_without_its_pass(monkeypatch):
    """Of the same shapes and dense; for others the pass is asked."""
    form = Form(np.dtype(np.float32), 2)
    step = RULES["ftorch_softmax"].make({"logarithm": False}, [form], [form])
    asked, kernel_calls = [], numpy_calls.call
    monkeypatch.setattr(numpy_calls, "call", lambda *given: asked.append(given) or kernel_calls(*given))
    rng = np.random.default_rng(0)

    def assert_agrees(x):
        (found,) = step(x, (x.shape,))
        np.testing.assert_allclose(found, pt.from_numpy(x.copy()).softmax(1).numpy(), rtol=1e-6)

    for count, shape in enumerate([(4, 50), (4, 51), (5, 50)], 1):
        for _ in range(3):
            assert_agrees(rng.normal(size=shape).astype(np.float32))
        assert len(asked) == count
    assert_agrees(rng.normal(size=(50, 4)).astype(np.float32).T)  # not dense
    assert_agrees(rng.normal(size=(8, 50)).astype(np.float32)[::2])
    assert len(asked) == 5
    assert_agrees(rng.normal(size=(4, 50)).astype(np.float32))
    for columns in range(60, 100):  # they do not pile up
        assert_agrees(rng.normal(size=(columns, 7)).astype(np.float32))


def test_sizes_behind_the_arrays_are_part_of_a_call():
    x = np.random.default_rng(0).normal(size=(3, 20)).astype(np.float32)
    forms = [Form(np.dtype(np.float32), 2)], [Form(np.dtype(np.float32), 2), Form(np.dtype(np.int32), 2)]
    step = RULES["top_k"].make({"axis": 1, "operand": None}, *forms)
    for k in (5, 2, 5, 7, 2):
        values, places = step(x, k, ((3, k), (3, k)))
        expected = pt.from_numpy(x).topk(k)
        np.testing.assert_array_equal(values, expected.values.numpy())
        np.testing.assert_array_equal(places, expected.indices.numpy())


def test_prepared_calls_refuse_what_they_do_not_fit():
    handler = module.Handler("ftorch_softmax", ("sizes",), "q")
    x = np.ones((2, 3), np.float32)
    like = ((x.shape, x.dtype), "size")
    call = module.Prepared(handler, ((2, 3, 0),), like, (0,), ((x.shape, x.dtype),), False)
    np.testing.assert_allclose(call(x, "size"), 1 / 3, rtol=1e-6)
    for other in (x.T, x.astype(np.float64), np.ones((3, 2), np.float32), np.ones((2, 6), np.float32)[:, ::2], [1.0]):
        assert call(other, "size") is None
    assert call(x, "another") is None and call(x) is None
    for wrong in (((0, 1, 2), 1), ((0,), (((2, 3), 5),)), ((2,), ((x.shape, x.dtype),))):
        with pytest.raises((TypeError, ValueError)):
            module.Prepared(handler, ((2, 3, 0),), like, *wrong, False)


# --- floats of 16 bits ---------------------------------------------------------------------


NARROW = {"float16": pt.float16, "bfloat16": pt.bfloat16}


def of_bits(array):
    """A tensor of PyTorch's with the bits of an array of floats of 16 bits."""
    return pt.from_numpy(array.view(np.int16).copy()).view(NARROW[array.dtype.name])


def same_narrow(found, expected):
    """Whether an array has a tensor's bits, but for those of what is no number."""
    other = expected.view(pt.int16).numpy()
    is_nan = pt.isnan(expected).numpy()
    return np.array_equal(found.view(np.int16)[~is_nan], other[~is_nan]) and np.isnan(found.astype(np.float32)[is_nan]).all()


@pytest.mark.parametrize("name", NARROW)
def test_conversions_from_and_to_16_bits(name):
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32)
    ties = np.arange(2**16, dtype=np.uint32) << 16 | 0x8000
    small = np.arange(0x33000000, 0x38900000, 997, dtype=np.uint32)  # around the least normal number of float16
    large = np.arange(0x477F0000, 0x47800010, 3, dtype=np.uint32)  # around its greatest
    x = np.concatenate([bits, ties, small, large, [0, 1 << 31, 0x7F800000, 0xFF800000]]).astype(np.uint32).view(np.float32)
    x = np.concatenate([x, x[: 1 + len(x) % 16]])  # an odd number: what lies behind the last vector
    [found] = calls.elementwise(("float32",), (("convert_element_type", "float32", name, 0),), (1,))([x], x.shape)
    assert same_narrow(found, pt.from_numpy(x).to(NARROW[name]))
    every = np.arange(2**16, dtype=np.uint16).view(found.dtype)
    [wide] = calls.elementwise((name,), (("convert_element_type", name, "float32", 0),), (1,))([every], every.shape)
    np.testing.assert_array_equal(wide, of_bits(every).float().numpy())


@pytest.mark.parametrize("name", NARROW)
def test_each_step_on_16_bits_is_rounded(name):
    rng = np.random.default_rng(1)
    x, y = (calls.elementwise(("float32",), (("convert_element_type", "float32", name, 0),), (1,))(
        [rng.normal(size=(7, 321)).astype(np.float32)], (7, 321))[0] for _ in range(2))
    program = calls.elementwise(
        (name, name), constants=((name, 1.5),), outputs=(6, 7, 8, 9),
        instructions=(
            ("add", name, 0, 1), ("mul", name, 3, 2), ("lt", name, 3, 4), ("select_n", name, 5, 0, 4), ("neg", name, 3),
            ("convert_element_type", name, "float64", 4), ("convert_element_type", "bool", name, 5),
        ),
    )
    chosen, negative, wide, ones = program([x, y], x.shape)
    a, b = of_bits(x), of_bits(y)
    total = a + b
    product = total * 1.5
    less = total < product
    assert same_narrow(chosen, pt.where(less, product, a)) and same_narrow(negative, -total)
    np.testing.assert_array_equal(wide, product.double().numpy())
    assert same_narrow(ones, less.to(a.dtype))


@pytest.mark.parametrize("shape, axes", [
    ((5, 3000), (1,)), ((3000, 5), (0,)), ((700, 130), (0,)), ((40, 1100), (0,)), ((3, 50, 70), (0, 2)), ((33, 17), (0, 1)),
])
def test_sums_of_what_lies_dense_are_those_of_what_is_made(shape, axes):
    x = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    [read] = calls.elementwise(("float32",), (), (("reduce_sum", 0),), axes=axes)([x], shape)
    [made] = calls.elementwise(("float32",), (("copy", "float32", 0),), (("reduce_sum", 1),), axes=axes)([x], shape)
    assert read.tobytes() == made.tobytes()
    np.testing.assert_allclose(read, x.astype(np.float64).sum(axes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("name", ["vdot", "dot", "inner"])
def test_gradients_of_products_with_one_number(name, dtype):
    """The gradient of a sum of products is a number, as NumPy gives it and not as an array."""
    found = []
    for lib in (ftorch, pt):
        for length in (2, 5, 3, 4):
            x = lib.arange(1.0, 2 * length + 1).reshape(2, length).to(getattr(lib, dtype)).requires_grad_()
            y = x * 2
            made = getattr(lib, name)(y[0], y[0])
            found.append([made.tolist(), lib.autograd.grad(made.sum().real, x)[0].tolist()])
    for mine, theirs in zip(found[:4], found[4:], strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-2 if dtype == "bfloat16" else 1e-6)
