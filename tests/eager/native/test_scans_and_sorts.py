"""Kernels along lines (cumulative functions, sorting, the largest) and indexing of rows, against XLA's."""

import itertools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

import ftorch
from ftorch.eager import native
from ftorch.eager.kernels.reduction.reductions import put_along, take_along
from ftorch.eager.native import computed_once
from ftorch.eager.native.passes.rewrite import rewritten

pytestmark = pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
rng = np.random.default_rng(0)

SHAPES = [((7,), 0), ((1,), 0), ((3, 1000), 1), ((40, 33), 1), ((40, 65), 0), ((3, 50, 7), 1), ((2, 100, 70), 1)]


def draw(shape, dtype, special=True):
    if np.dtype(dtype).kind == "i":
        return rng.integers(-5, 5, shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    if special:  # ties and what is no ordinary number
        x = np.round(x, 1)
        x.reshape(-1)[rng.integers(0, x.size, 1 + x.size // 20)] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
    return x


def calls(function, *operands):
    return str(jax.make_jaxpr(rewritten(function))(*operands)).count("ffi_call[")


def with_and_without_kernels(function, *operands, native_calls=1):
    """Results with this package's kernels and with XLA's."""
    assert calls(function, *operands) == native_calls
    return jax.jit(rewritten(function))(*operands), jax.jit(function)(*operands)


# --- cumulative functions ----------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape, axis", [*SHAPES, ((37, 50), 1), ((19, 20, 2), 1)])
def test_sums_of_complex_numbers(shape, axis, dtype, reverse):
    x = (draw(shape, "float64", special=False) + 1j * draw(shape, "float64", special=False)).astype(dtype)
    mine, _ = with_and_without_kernels(lambda x: lax.cumsum(x, axis, reverse=reverse), x)
    turned = np.flip(x, axis) if reverse else x
    exact = np.cumsum(turned.astype(complex), axis)
    np.testing.assert_allclose(mine, np.flip(exact, axis) if reverse else exact, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        ftorch.from_numpy(x).cumsum(axis).numpy(), torch.from_numpy(x).cumsum(axis).numpy(), rtol=1e-6, atol=1e-12
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name, dtype", [
    *itertools.product(["cumsum", "cumprod", "cummax", "cummin"], ["float32", "float64", "int32", "int64"]),
    *itertools.product(["cumlogsumexp"], ["float32", "float64"]),
])
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_cumulative_functions(shape, axis, name, dtype, reverse):
    x = draw(shape, dtype, special="max" in name or "min" in name)
    scan = lambda x: getattr(lax, name)(x, axis, reverse=reverse)  # noqa: E731
    mine, plain = with_and_without_kernels(scan, x)
    np.testing.assert_allclose(mine, plain, rtol=2e-4 if dtype == "float32" else 1e-9, atol=1e-4)


def test_sums_run_in_double_precision():
    x = np.full(100_000, 0.1, np.float32)
    mine = ftorch.from_numpy(x).cumsum(0).numpy()
    assert (mine == torch.from_numpy(x).cumsum(0).numpy()).all()


@pytest.mark.parametrize("values", [[1.0, np.nan, 2.0], [-np.inf, -np.inf, 0.0], [np.inf, 1.0, np.inf, -np.inf]])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_what_is_no_ordinary_number(name, values):
    mine, theirs = (getattr(lib.tensor(values), name)(0) for lib in (ftorch, torch))
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (mine, theirs)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax"])
def test_gradients_of_cumulative_functions(name):
    x = rng.standard_normal((5, 40, 3)).astype(np.float32)
    found = []
    for lib in (ftorch, torch):
        t = lib.from_numpy(x.copy()).requires_grad_()
        y = getattr(t, name)(1)
        y = y if lib.is_tensor(y) else y[0]
        (first,) = lib.autograd.grad((y * y).sum(), t, create_graph=True)
        found.append([first.detach().numpy(), lib.autograd.grad((first * first).sum(), t)[0].numpy()])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-4 * np.abs(theirs).max())


def test_overflowing_integers_wrap():
    x = np.array([np.iinfo(np.int64).max, 1, 1], np.int64)
    mine, plain = with_and_without_kernels(lambda x: lax.cumsum(x, 0), x)
    assert (mine == plain).all()


@pytest.mark.parametrize(
    "name, dtype", [("cummax", "float32"), ("cummin", "float64"), ("cummax", "int32"), ("cummin", "int64")]
)
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_cumulative_extrema_and_where_they_are(shape, axis, name, dtype):
    """The last of ties, among them zeros of both signs."""
    x = draw(shape, dtype)
    x[np.abs(x) < 0.4] *= x.dtype.type(0)
    mine, theirs = (getattr(lib.from_numpy(x.copy()), name)(axis) for lib in (ftorch, torch))
    np.testing.assert_array_equal(mine[1].numpy(), theirs[1].numpy())
    np.testing.assert_array_equal(mine[0].numpy(), theirs[0].numpy())
    zeros = theirs[0].numpy() == 0
    np.testing.assert_array_equal(np.signbit(mine[0].numpy())[zeros], np.signbit(theirs[0].numpy())[zeros])


# --- sorting -----------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [3, 300, 2**20, 2**63 - 1])
@pytest.mark.parametrize("shape, axis", [*SHAPES, ((100_000,), 0)])
def test_sorted_integers(shape, axis, spread):
    x = rng.integers(-spread, spread, shape)
    mine, plain = with_and_without_kernels(lambda x: lax.sort(x, dimension=axis, is_stable=False), x)
    assert (mine == plain).all()


def test_digits_of_the_low_half_count_where_it_does_not_ascend():
    x = np.arange(1000)[::-1] | (rng.integers(0, 2, 1000) << 40)
    mine, plain = with_and_without_kernels(lambda x: lax.sort(x, is_stable=False), x)
    assert (mine == plain).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "uint8"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape, dim", SHAPES)
def test_sort_is_stable(shape, dim, descending, dtype):
    x = draw(shape, dtype) if dtype != "uint8" else rng.integers(0, 9, shape).astype(dtype)
    mine, theirs = (
        lib.sort(lib.from_numpy(x.copy()), stable=True, dim=dim, descending=descending)
        for lib in (ftorch, torch)
    )
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_sorting_pairs_is_left_to_xla():
    keys, values = rng.integers(0, 9, 50), np.arange(50)
    assert calls(lambda k, v: lax.sort((k, v), num_keys=1), keys, values) == 0
    assert calls(lambda x: lax.sort(x), rng.standard_normal(9)) == 0


# --- the largest elements ----------------------------------------------------------------


@pytest.mark.parametrize("lines", ["random", "ascending", "descending", "equal", "special"])
@pytest.mark.parametrize("length, k", [(1, 1), (10, 3), (10, 10), (100, 1), (1000, 7), (1000, 125), (5000, 700)])
def test_the_largest_elements(length, k, lines):
    x = rng.standard_normal((9, length)).astype(np.float32)
    if lines == "equal":
        x = np.ones_like(x)
    elif lines == "special":
        x = draw(x.shape, np.float32)
    elif lines != "random":
        x = np.sort(x)[:, :: 1 if lines == "ascending" else -1].copy()
    mine, plain = with_and_without_kernels(lambda x: lax.top_k(x, k), x)
    for a, b in zip(mine, plain, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("largest", [True, False])
def test_topk_orders_nan_like_pytorch(largest):
    x = draw((20, 300), np.float32)
    mine, theirs = (lib.from_numpy(x.copy()).topk(9, largest=largest)[0] for lib in (ftorch, torch))
    np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("length, k, dim", [(1300, 9, 0), (300, 40, 1), (20, 20, 1)])
def test_the_choice_among_equal_elements_is_pytorchs(length, k, dim, dtype):
    """Partial sort, nth element and quickselect of lines with few values."""
    x = draw((3, length) if dim else (length, 3), dtype)

    def choices(lib):
        t = lib.from_numpy(x.copy())
        for how in itertools.product((True, False), repeat=2):
            yield t.topk(k, dim, *how)[1].numpy()
        yield t.kthvalue(k, dim)[1].numpy()

    for mine, theirs in zip(choices(ftorch), choices(torch), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_other_dtypes_of_top_k_are_left_to_xla():
    assert calls(lambda x: lax.top_k(x, 2), rng.integers(0, 9, 50)) == 0


# --- rows by an index that repeats -------------------------------------------------------

ROWS = [
    # shape, dimension, how many along it, dimensions along which the index repeats
    ((30, 16), 0, 50, (1,)),
    ((30, 16), 1, 5, (0,)),
    ((4, 30, 16), 1, 9, (2,)),
    ((4, 30, 16), 1, 9, (0, 2)),
    ((4, 30, 16), 0, 2, (1,)),
    ((4, 5, 30, 16), 2, 3, (1, 3)),
]


def _index(shape, dim, count, repeats):
    whole = [count if d == dim else n for d, n in enumerate(shape)]
    index = rng.integers(0, shape[dim], [1 if d in repeats else n for d, n in enumerate(whole)])
    return index, lambda i: jnp.broadcast_to(i, whole)


def _numbers(function, *operands):
    text = str(jax.make_jaxpr(rewritten(function))(*operands))
    return text[text.index("operand_batching_dims=") :].split(")")[0]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shape, dim, count, repeats", ROWS)
def test_rows_are_taken_as_rows(shape, dim, count, repeats, dtype):
    index, expand = _index(shape, dim, count, repeats)
    take = lambda x, i: take_along(x, expand(i), dim)  # noqa: E731
    x = draw(shape, dtype)
    mine, plain = with_and_without_kernels(take, x, index, native_calls=0)
    np.testing.assert_array_equal(mine, plain)
    left = [d for d in range(len(shape)) if d not in (dim, *repeats)]
    assert _numbers(take, x, index).replace(",)", ")").startswith(f"operand_batching_dims=({', '.join(map(str, left))}")


@pytest.mark.parametrize("method", ["add", "multiply", "min", "max"])
@pytest.mark.parametrize("shape, dim, count, repeats", ROWS)
def test_rows_are_put_as_rows(shape, dim, count, repeats, method):
    index, expand = _index(shape, dim, count, repeats)
    index.reshape(-1)[:2] = -1, shape[dim]  # outside: left out
    put = lambda x, i, src: put_along(method, x, expand(i), src, dim)  # noqa: E731
    src = rng.standard_normal([count if d == dim else n for d, n in enumerate(shape)])
    x = rng.standard_normal(shape)
    mine, plain = with_and_without_kernels(put, x, index, src, native_calls=0)
    np.testing.assert_allclose(mine, plain, rtol=1e-12)
    assert f"operand_batching_dims={tuple(d for d in range(len(shape)) if d not in (dim, *repeats))}" in str(
        jax.make_jaxpr(rewritten(put))(x, index, src)
    )


@pytest.mark.parametrize("name", ["gather", "scatter_add", "scatter", "scatter_reduce"])
def test_expanded_index_tensors(name):
    """As graph networks write sums over neighbours."""
    x, src, index = (rng.standard_normal((9, 6)), rng.standard_normal((20, 6)), rng.permutation(9))
    index = np.concatenate([index, index]) if name != "scatter" else index
    found = []
    for lib in (ftorch, torch):
        t, s, i = (lib.from_numpy(v.copy()) for v in (x, src[: len(index)], index))
        t.requires_grad_(), s.requires_grad_()
        i = i[:, None].expand(-1, 6)
        if name == "gather":
            y, wanted = t.gather(0, i), [t]
        else:
            y, wanted = getattr(t, name)(0, i, s, *(["amax"] if name == "scatter_reduce" else [])), [t, s]
        found.append([y, *lib.autograd.grad((y * y).sum(), wanted)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


# --- what is computed once ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "complex64", "bfloat16"])
def test_what_is_to_be_computed_once_is_a_call(dtype):
    def function(x):
        kept, doubled = computed_once((x, x + x))
        return doubled * kept

    x = jnp.asarray(rng.integers(0, 2, (5, 7))).astype(dtype)
    mine, plain = with_and_without_kernels(function, x, native_calls=2)
    assert (mine == plain).all() and mine.dtype == plain.dtype


def test_keys_of_random_numbers_are_left_to_xla():
    def function(seed):
        return jax.random.bits(computed_once(jax.random.key(seed)), (3,))

    mine, plain = with_and_without_kernels(function, 1, native_calls=0)
    assert (mine == plain).all()


def test_other_barriers_are_left_to_xla():
    assert calls(lambda x: lax.optimization_barrier(x) + 1, rng.standard_normal(9)) == 0


def test_gradients_and_batches_are_computed_once_too():
    mapped = jax.vmap(jax.grad(lambda x: computed_once(x * x) ** 2))
    assert calls(mapped, rng.standard_normal(9)) == 2  # forwards and backwards


def test_gradients_of_values_at_points():
    x, grid = rng.standard_normal((2, 3, 5, 6)), np.tanh(rng.standard_normal((2, 4, 4, 2)))
    found = []
    for lib in (ftorch, torch):
        inputs = [lib.from_numpy(v.copy()).requires_grad_() for v in (x, grid)]
        y = lib.nn.functional.grid_sample(*inputs, align_corners=False)
        found.append([y, *lib.autograd.grad((y * y).sum(), inputs)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


# --- errors ------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory is used")
def test_running_out_of_memory_is_an_error():
    """Of the program; it does not end the process."""
    code = """if True:
        import resource
        from pathlib import Path
        import ftorch, jax
        from ftorch.eager.native.passes.rewrite import rewritten
        x = jax.numpy.zeros(1 << 25).astype("float32").block_until_ready()  # 128 MiB
        largest = jax.jit(rewritten(lambda x: jax.lax.top_k(x, 1 << 22))).lower(x).compile()
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        # Enough for the results (32 MiB), not for candidates (512 MiB).
        resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), -1))
        try:
            jax.block_until_ready(largest(x))
        except jax.errors.JaxRuntimeError as error:
            assert "out of memory in a kernel of ftorch" in str(error), error
        else:
            raise AssertionError("there was memory enough")
    """
    subprocess.run([sys.executable, "-c", code], check=True)
