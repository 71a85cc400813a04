"""The kernels that go row by row: against PyTorch, and programs with and without them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

import ftorch
from ftorch.eager import native
from ftorch.eager.host.elementwise_programs import elementwise
from ftorch.eager.kernels.nn import _rowwise, embedding
from ftorch.eager.kernels.reduction.reductions import put_along, take_along
from ftorch.eager.native.passes.rewrite import rewritten
from ftorch.eager.runtime import host_tier

pytestmark = pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
rng = np.random.default_rng(0)


def random(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def calls(function, *operands):
    return str(jax.make_jaxpr(rewritten(function))(*operands)).count("ffi_call[")


def with_and_without_kernels(function, *operands, native_calls=1):
    """Results with this package's kernels and with XLA's."""
    assert calls(function, *operands) == native_calls
    return jax.jit(rewritten(function))(*operands), jax.jit(function)(*operands)


def agree(mine, theirs, rtol=1e-5, atol=2e-6):
    for a, b in zip(mine, theirs, strict=True):
        a, b = (np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol * max(1, np.abs(b[np.isfinite(b)]).max(initial=0)))


def in_both(function, *arrays, wanted):
    """``function``'s results and gradients of the first ``wanted`` arrays, in both libraries."""
    found = []
    for lib in (ftorch, torch):
        tensors = [lib.from_numpy(x.copy()) for x in arrays]
        for t in tensors[:wanted]:
            t.requires_grad_()
        y = function(lib, *tensors)
        found.append([y, *lib.autograd.grad((y * y.cos()).sum(), tensors[:wanted])])
    return found


# --- softmax -----------------------------------------------------------------------------

SHAPES = [(256, 31), (3, 1000), (40, 64), (2, 5, 257), (1, 5000), (4096, 1), (2500,)]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape, name):
    x = 5 * random(*shape)
    function = lambda x: _rowwise.softmax(x, logarithm=name == "log_softmax")  # noqa: E731
    assert calls(function, x) == 1
    (mine, gradient), (theirs, their_gradient) = in_both(lambda lib, t: getattr(t, name)(-1), x, wanted=1)
    agree([mine], [theirs])
    # Terms of up to 20 cancel in the gradient's sum: PyTorch's own is as far from that of float64.
    agree([gradient], [their_gradient], atol=5e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_what_is_no_ordinary_number(name):
    x = random(9, 300)
    x[0], x[1, 7], x[2, 299], x[3, :150], x[4], x[5, 3] = -np.inf, np.nan, np.inf, -np.inf, 1e30, -1e30
    mine, theirs = (getattr(lib.from_numpy(x.copy()), name)(1) for lib in (ftorch, torch))
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-37)


def test_small_rows_are_left_to_xla():
    assert calls(lambda x: _rowwise.softmax(x, logarithm=False), random(4, 5)) == 0


NARROW = {"bfloat16": 2**-8, "float16": 2**-11}  # half of a last place
TYPES = {"float64": 1e-13, **NARROW}


def like_torch(function, dtype, *arrays, exact=False):
    """``function``'s results and gradients in another dtype are PyTorch's: rounded at most to the neighbour.

    Args:
        exact: PyTorch computes in float64 with the rounded operands.
    """
    found = []
    for lib in (ftorch, torch):
        grad = np.cos(np.arange(arrays[0].size)).reshape(arrays[0].shape)
        tensors = [lib.from_numpy(x).to(getattr(lib, dtype)) for x in (*arrays, grad)]
        if exact and lib is torch:
            tensors = [t.double() for t in tensors]
        *tensors, grad = tensors
        y = function(lib, *[t.requires_grad_() for t in tensors])
        results = [y, *lib.autograd.grad(y, tensors, grad)]
        assert all(r.dtype == tensors[0].dtype for r in results)
        found.append([r.detach().double().numpy() for r in results])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=4 * TYPES[dtype], atol=4 * TYPES[dtype] * max(1, np.abs(theirs).max()))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_of_other_types(shape, name, dtype):
    like_torch(lambda lib, x: getattr(x, name)(-1), dtype, 3 * rng.standard_normal(shape))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_what_is_no_ordinary_number_of_other_types(name, dtype):
    x = rng.standard_normal((9, 300))
    x[0], x[1, 7], x[2, 299], x[3, :150], x[4], x[5, 3] = -np.inf, np.nan, np.inf, -np.inf, 3e4, -3e4
    mine, theirs = (
        getattr(lib.from_numpy(x).to(getattr(lib, dtype)), name)(1).double().numpy() for lib in (ftorch, torch)
    )
    np.testing.assert_allclose(mine, theirs, rtol=4 * TYPES[dtype], atol=1e-300 if dtype == "float64" else 1e-7)


# --- layer normalization -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(256, 31), (3, 1000), (2, 5, 257), (1, 5000), (700, 4)])
def test_layer_norm_of_other_types(shape, dtype):
    norm = lambda lib, x, *parameters: lib.nn.functional.layer_norm(x, shape[-1:], *parameters, eps=1e-3)  # noqa: E731
    x, weight, bias = rng.standard_normal(shape) + 3, *rng.standard_normal((2, shape[-1]))
    # PyTorch rounds means and deviations of 16 bits, whose gradients are far from exact.
    like_torch(norm, dtype, x, weight, bias, exact=True)
    like_torch(norm, dtype, x, exact=True)


@pytest.mark.parametrize("shape", [(256, 31), (3, 1000), (2, 5, 257), (1, 5000), (700, 4)])
def test_layer_norm(shape):
    x, weight, bias = random(*shape) + 3, random(shape[-1]), random(shape[-1])
    norm = lambda lib, *inputs: lib.nn.functional.layer_norm(inputs[0], shape[-1:], *inputs[1:])  # noqa: E731
    agree(*in_both(norm, x, weight, bias, wanted=3), rtol=1e-4, atol=1e-5)
    agree(*in_both(norm, x, wanted=1), rtol=1e-4, atol=1e-5)


def test_gradients_of_each_example():
    """Every example has gradients of its own for the parameters, which its rows share."""
    x, weight, bias = random(6, 20, 50), random(50), random(50)
    found = []
    for lib in (ftorch, torch):
        def loss(w, b, x, lib=lib):
            return (lib.nn.functional.layer_norm(x, (50,), w, b) ** 3).sum()

        w, b, t = (lib.from_numpy(v) for v in (weight, bias, x))
        found.append(lib.func.vmap(lib.func.grad(loss, argnums=(0, 1, 2)), (None, None, 0))(w, b, t))
    agree(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm"])
def test_second_gradients(name):
    x = random(40, 60)
    found = []
    for lib in (ftorch, torch):
        t = lib.from_numpy(x.copy()).requires_grad_()
        y = lib.nn.functional.layer_norm(t, (60,)) if name == "layer_norm" else getattr(t, name)(1)
        (first,) = lib.autograd.grad((y * y.cos()).sum(), t, create_graph=True)
        found.append([first, *lib.autograd.grad((first * first).sum(), t)])
    agree(*found, rtol=1e-3, atol=1e-4)


# --- sums --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, axes",
    [
        ((3000,), (0,)),
        ((70, 90), (0,)),
        ((70, 90), (1,)),
        ((70, 90), (0, 1)),
        ((5, 70, 33), (1,)),
        ((3, 40, 20, 7), (2, 3)),
        ((2, 1, 1100, 33), (2,)),
        ((7, 1000, 16), (1,)),
        ((1, 5000, 1), (1,)),
        ((16, 64, 10), (1,)),
    ],
)
def test_sums_of_what_lies_in_memory(shape, axes):
    x = random(*shape)
    mine, plain = with_and_without_kernels(lambda x: lax.reduce_sum(x, axes), x)
    assert mine.shape == plain.shape
    np.testing.assert_allclose(mine, x.astype(np.float64).sum(axes), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("shape, dims", [
    ((3000,), (0,)), ((70, 90), (0,)), ((70, 90), (1,)), ((70, 90), (0, 1)), ((5, 70, 33), (1,)), ((9, 2000), (1,)),
    ((3, 40, 20, 7), (2, 3)), ((7, 1000, 16), (1,)), ((5000, 1), (0,)), ((700, 900), (0,)), ((3, 5), (1,)), ((0, 4), (0,)),
])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "complex128"])
def test_sums_of_other_types(dtype, shape, dims, host, monkeypatch):
    """Floats of 16 bits are summed in float32 and rounded once; complex numbers part by part."""
    monkeypatch.setattr(host_tier, "ENABLED", host)
    x = rng.standard_normal((2, *shape))
    x = x[0] + 1j * x[1] if "complex" in dtype else x[0]
    given = [lib.from_numpy(x).to(getattr(lib, dtype)) for lib in (ftorch, torch)]
    mine = given[0].sum(dims)
    exact = given[1].to(torch.complex128 if given[1].is_complex() else torch.float64).sum(dims).numpy()
    last = {**NARROW, "complex64": 2e-6, "complex128": 1e-14}[dtype]
    assert str(mine.dtype) == str(given[1].dtype)
    mine = (mine.to(ftorch.complex128) if mine.is_complex() else mine.double()).numpy()
    np.testing.assert_allclose(mine, exact, rtol=1.01 * last, atol=1e-5 if "complex128" not in dtype else 1e-13)
    transposed, wanted = (t.mT.sum(0) if t.ndim == 2 else t.sum() for t in given)
    kind = (transposed.to(ftorch.complex128) if transposed.is_complex() else transposed.double()).numpy()
    wanted = (wanted.to(torch.complex128) if wanted.is_complex() else wanted.double()).numpy()
    np.testing.assert_allclose(kind, wanted, rtol=4 * last, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_lines_of_a_few_numbers_are_joined_half_with_half(count, name, dtype):
    x = (9 * rng.standard_normal((300, count))).astype(dtype)
    if x.dtype.kind == "f":
        x[3], x[5], x[6, 1], x[7, 0] = np.nan, -0.0, np.nan, np.inf
    (mine,) = elementwise((dtype,), (), ((name, 0),), axes=(1,))([x], x.shape)
    join = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[name[7:]]
    parts = list(x.T)
    for half in (4, 2, 1):
        joined = [join(a, b) for a, b in zip(parts, parts[half:])]
        parts = joined + parts[len(joined) : half]
    np.testing.assert_array_equal(mine, parts[0] + 0 if name == "reduce_sum" else parts[0])


def test_sums_over_other_dimensions_follow():
    x = random(8, 16, 20, 20)
    mine, plain = with_and_without_kernels(lambda x: lax.reduce_sum(x, (0, 2, 3)), x)
    np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-3)


def test_sums_of_what_xla_computes_are_left_to_it():
    assert calls(lambda x: jnp.exp(x).sum(), random(5000)) == 0
    assert calls(lambda x: x.sum(0), random(1000, 3)) == 0
    assert calls(lambda x: x.sum(), rng.standard_normal(5000)) == 0


def test_long_sums_are_precise():
    x = np.full((1 << 22) + 5, 0.1, np.float32)
    mine, theirs = (float(lib.from_numpy(x).sum()) for lib in (ftorch, torch))
    assert abs(mine - x.astype(np.float64).sum()) < 1 and abs(theirs - mine) < 1
    tall = np.full((1 << 16, 16), 0.1, np.float32)
    np.testing.assert_allclose(ftorch.from_numpy(tall).sum(0).numpy(), tall.astype(np.float64).sum(0), rtol=2e-6)


# --- taking and adding by an index -------------------------------------------------------

INDEXED = [
    # shape, dimension, the index's shape
    ((30, 64), 0, (50,)),
    ((30, 64), 1, (50,)),
    ((5, 30, 16), 1, (4, 9)),
    ((2000,), 0, (3, 700)),
    ((1500, 1), 0, (2000,)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "bfloat16", "complex128"])
@pytest.mark.parametrize("shape, dim, count", INDEXED)
def test_slices_are_taken(shape, dim, count, dtype):
    index_dtype = "int32" if dtype == "bool" else "int64"
    x = jnp.asarray(random(*shape) * 3).astype(dtype)
    index = rng.integers(-2, shape[dim] + 2, count).astype(index_dtype)  # those outside: the first and the last
    mine, plain = with_and_without_kernels(lambda x, i: jnp.take(x, i, axis=dim, mode="clip"), x, index)
    np.testing.assert_array_equal(mine, plain)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shape, dim, count", INDEXED)
def test_slices_are_added(shape, dim, count, dtype):
    x, index = (random(*shape) * 9).astype(dtype), rng.integers(-2, shape[dim] + 2, count)
    updates = (9 * random(*shape[:dim], *count, *shape[dim + 1 :])).astype(dtype)
    put = lambda x, i, y: x.at[(slice(None),) * dim + (i,)].add(y, mode="drop", wrap_negative_indices=False)  # noqa: E731
    mine, plain = with_and_without_kernels(put, x, index, updates)
    np.testing.assert_allclose(mine, plain, rtol=1e-6, atol=1e-4)


def test_many_rows_are_shared_between_threads():
    x, index, y = random(700, 64), rng.integers(-5, 705, 30000), random(30000, 64)
    put = lambda x, i, y: x.at[i].add(y, mode="drop", wrap_negative_indices=False)  # noqa: E731
    mine, plain = with_and_without_kernels(put, x, index, y)
    np.testing.assert_array_equal(mine, plain)
    mine, plain = with_and_without_kernels(lambda x, i: jnp.take(x, i, axis=0, mode="clip"), x, index)
    np.testing.assert_array_equal(mine, plain)


def test_what_is_taken_from_a_larger_computation_is_left_to_xla():
    x, index = random(10000, 64), rng.integers(0, 10000, 50)
    take = lambda x, i: jnp.take(x, i, axis=0, mode="clip")  # noqa: E731
    assert calls(lambda x, i: take(jnp.exp(x), i), x, index) == 0
    assert calls(take, x, index) == 1


@pytest.mark.parametrize(
    "shape, dim, whole", [((30, 64), 0, (50, 64)), ((4, 30, 16), 1, (4, 50, 16)), ((9, 200), 1, (9, 300))]
)
@pytest.mark.parametrize("repeats", [True, False])
def test_an_index_for_each_element_is_read_where_it_lies(shape, dim, whole, repeats):
    """Along each line of a dimension, as `gather` and `scatter_add` ask; one that repeats is not written out."""
    x, src = random(*shape), random(*whole)
    index = rng.integers(0, shape[dim], [n if d == dim or not repeats else 1 for d, n in enumerate(whole)])
    take = lambda x, i: take_along(x, jnp.broadcast_to(i, whole), dim)  # noqa: E731
    put = lambda x, i, y: put_along("add", x, jnp.broadcast_to(i, whole), y, dim)  # noqa: E731
    np.testing.assert_array_equal(*with_and_without_kernels(take, x, index))
    np.testing.assert_allclose(*with_and_without_kernels(put, x, index, src), rtol=1e-5, atol=1e-5)
    for function, operands in ((take, (x, index)), (put, (x, index, src))):
        text = jax.jit(rewritten(function)).lower(*operands).compile().as_text()
        assert " broadcast(" not in text and " convert(" not in text


@pytest.mark.parametrize("name", ["embedding", "index_select", "gather", "take_along_dim"])
def test_gradients_of_what_is_taken(name):
    x, index = random(40, 64), rng.integers(0, 40, 90)
    whole = rng.integers(0, 40, (90, 64))

    def function(lib, t):
        i, j = lib.from_numpy(index), lib.from_numpy(whole)
        if name == "embedding":
            return lib.nn.functional.embedding(i, t, padding_idx=3)
        return (
            t.index_select(0, i)
            if name == "index_select"
            else getattr(lib, name)(t, *((0, j) if name == "gather" else (j, 0)))
        )

    agree(*in_both(function, x, wanted=1))


# --- bags of rows ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("width", [64, 31, 150])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_bags(width, mode, dtype):
    index = rng.integers(0, 90, (40, 7)).astype(dtype)
    bags = lambda lib, w, i: lib.nn.functional.embedding_bag(i, w, mode=mode)  # noqa: E731
    agree(*in_both(bags, random(90, width), index, wanted=1))


def test_bags_are_one_call_also_mapped():
    bags = lambda w, i: embedding._PLAIN_BAGS.bind(w[None], i[None], mode="mean")[0][0]  # noqa: E731
    w, i = random(2, 90, 20), rng.integers(-3, 95, (2, 6, 5, 9))  # outside are the first and the last
    mapped = jax.vmap(bags)
    exact = w[np.arange(2)[:, None, None], np.clip(i[:, 0], 0, 89)].mean(2)
    for result in with_and_without_kernels(mapped, w, i[:, 0]):
        np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-6)
    shared = jax.vmap(bags, (None, 1), 1)
    assert "[5,90,20]" not in str(jax.make_jaxpr(shared)(w[0], i[0]))  # the table is not repeated
    for result in with_and_without_kernels(shared, w[0], i[0]):
        np.testing.assert_allclose(result, w[0][np.clip(i[0], 0, 89)].mean(2), rtol=1e-5, atol=1e-6)


# --- threads -----------------------------------------------------------------------------


def test_callers_at_the_same_time():
    """One has the threads that look for work, the others those of XLA's pool."""
    x = ftorch.randn(300, 1000)
    wanted = x.numpy().astype(np.float64).sum(1)
    found = [None] * 4

    def run(k):
        for _ in range(30):
            found[k] = x.sum(1).numpy()
            np.testing.assert_allclose(found[k], wanted, rtol=1e-3, atol=1e-3)

    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(run, range(len(found))))
    assert all((f == found[0]).all() for f in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_a_forked_process_has_no_threads_to_wait_for():
    code = """if True:
        import os, warnings
        import ftorch
        x = ftorch.ones(300, 1000)
        assert (x.sum(1) == 1000).all()
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            os._exit(0 if (x.sum(1) == 1000).all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- instructions ------------------------------------------------------------------------


@pytest.mark.parametrize("instructions", ["avx2", "plain"])
def test_other_instructions(instructions):
    """The kernels for processors without this one's instructions, against PyTorch's in float64."""
    code = """if True:
        import ftorch, numpy as np, torch
        rng = np.random.default_rng(0)
        numbers, index = rng.standard_normal((70, 133)), rng.integers(0, 70, (90,))
        def results(lib, dtype):
            F, i = lib.nn.functional, lib.from_numpy(index)
            x = lib.from_numpy(numbers).to(getattr(lib, dtype)).requires_grad_()
            w = x[0].detach()
            made = [x.softmax(1), x.log_softmax(1), F.layer_norm(x, (133,), w, w), x.sum(0), x.sum(1), x.sum()]
            if dtype in ("float32", "float64"):
                made += [F.embedding(i, x), x.gather(1, (3 * i[:70, None] // 2).expand(-1, 50) + lib.arange(50) % 28)]
                made += [F.embedding_bag(i.reshape(10, 9), x)]
            for y in made:
                yield y
                yield from lib.autograd.grad((y * y).sum(), x)
        # Of 16 bits the operands are rounded, too, and what is summed.
        for dtype, tolerance in dict(float32=1e-3, float64=1e-11, float16=3e-2, bfloat16=2e-1).items():
            for mine, exact in zip(results(ftorch, dtype), results(torch, "float64")):
                mine, exact = mine.detach().double().numpy(), exact.detach().numpy()
                scale = max(1, np.abs(exact).max() / 9) if "16" in dtype else 1
                np.testing.assert_allclose(mine, exact, rtol=tolerance, atol=tolerance * scale)
    """
    environment = {**os.environ, "FTORCH_NATIVE": instructions}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
