"""The package's own kernels for the CPU, against PyTorch, and programs with and without them."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.native.passes.rewrite import rewritten

pytestmark = pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
rng = np.random.default_rng(0)


def random(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def calls(function, *operands):
    """The native calls of a program, in loops too."""
    return str(jax.make_jaxpr(rewritten(function))(*operands)).count("ffi_call[")


def agree(mine, theirs):
    theirs = theirs.detach().numpy()
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=2e-5 * np.abs(theirs).max())


# --- products ----------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize(
    "m, n, k",
    [
        (4, 5, 600), (8, 4, 500), (7, 49, 64), (4, 100, 33), (33, 100, 31), (130, 257, 300),
        (1, 800, 700), (800, 1, 700), (2, 300, 20), (3, 50, 257), (50, 7, 257), (9, 9, 4000),
        (65, 65, 65), (300, 1100, 17), (530, 200, 270), (515, 1030, 300), (64, 10, 128), (40, 45, 131),
    ],
)
def test_products_of_any_size_and_order(m, n, k, transposed):
    a = random(k, m).T if "a" in transposed else random(m, k)
    b = random(n, k).T if "b" in transposed else random(k, n)
    x, y = (ftorch.from_numpy(v.copy(order="A")) for v in (a, b))
    agree((x @ y).numpy(), torch.from_numpy(a) @ torch.from_numpy(b))


def test_transposes_are_read_in_place():
    def product(a, b):
        return a.T @ b.T

    a, b = random(40, 30), random(50, 40)
    assert calls(product, a, b) == 1
    assert " transpose(" not in jax.jit(rewritten(product)).lower(a, b).compile().as_text()


@pytest.mark.parametrize("transposed", [False, True])
def test_vectors_by_large_matrices(transposed):
    """Where memory decides, and both threads read."""

    def product(v, m):
        return v @ (m.T if transposed else m)

    v, m = random(900), random(900, 900)
    assert calls(product, v, m) == calls(lambda v, m: product(m, v), v, m) == 1
    agree(jax.jit(rewritten(product))(v, m), product(torch.from_numpy(v), torch.from_numpy(m)))


def test_parts_of_larger_matrices():
    """Batches whose rows lie apart: nothing behind a row is read, and nothing is written there."""

    def product(a, b):
        return jnp.einsum("ihk,khj->hij", a, b)

    a, b = random(40, 3, 70), random(70, 3, 33)
    a[:, 1], b[:, 1] = np.nan, np.inf
    mine = jax.jit(rewritten(product))(a, b)
    assert calls(product, a, b) == 1 and np.isnan(mine[1]).all()
    for h in (0, 2):
        agree(mine[h], torch.from_numpy(a[:, h]) @ torch.from_numpy(b[:, h]))


def test_batches_read_through_the_order_of_heads():
    def scores(q, k):
        return jnp.einsum("bthd,bshd->bhts", q, k)

    q, k = random(2, 17, 4, 32), random(2, 19, 4, 32)
    assert calls(scores, q, k) == 1
    want = torch.einsum("bthd,bshd->bhts", torch.from_numpy(q), torch.from_numpy(k))
    agree(jax.jit(rewritten(scores))(q, k), want)


@pytest.mark.parametrize(
    "equation, a, b",
    [
        ("bhqk,bkhd->bqhd", (2, 3, 17, 33), (2, 33, 3, 16)),  # attention's values
        ("bi,eoi->ebo", (17, 32), (5, 24, 32)),  # an ensemble's first layer
        ("ij,jk->ki", (40, 50), (50, 30)),
        ("aibj,jk->kabi", (3, 9, 4, 33), (33, 20)),
        ("aibj,kj->abik", (3, 9, 4, 33), (20, 33)),
        ("abij,abjk->ikab", (3, 2, 9, 33), (3, 2, 33, 20)),  # not rows of anything: left to XLA
    ],
)
def test_results_in_any_order(equation, a, b):
    def product(a, b):
        return jnp.einsum(equation, a, b)

    a, b = random(*a), random(*b)
    assert calls(product, a, b) == (equation != "abij,abjk->ikab")
    want = torch.einsum(equation, torch.from_numpy(a), torch.from_numpy(b))
    agree(jax.jit(rewritten(product))(a, b), want)


@pytest.mark.parametrize(
    "equation, a, b",
    [
        ("bi,bj->bij", (3, 90), (3, 100)),  # the weight's gradient of each example
        ("bi,bj->bji", (3, 90), (3, 100)),
        ("bi,jb->bij", (3, 90), (100, 3)),
        ("i,j->ij", (130,), (513,)),
        ("bqi,bqj->bqij", (2, 3, 300), (2, 3, 3000)),  # large enough for several threads
    ],
)
def test_products_without_a_sum(equation, a, b):
    def product(a, b):
        return jnp.einsum(equation, a, b)

    a, b = random(*a), random(*b)
    assert "ftorch_outer" in str(jax.make_jaxpr(rewritten(product))(a, b))
    np.testing.assert_array_equal(jax.jit(rewritten(product))(a, b), np.einsum(equation, a, b))


@pytest.mark.parametrize("shape, axes", [((4, 1, 5, 3), (2,)), ((4, 1, 5), (1,)), ((1, 1), (0,)), ((1, 6), (1,))])
def test_sums_over_and_beside_dimensions_of_size_1(shape, axes):
    x = random(*shape)
    total = jax.jit(rewritten(lambda x: (x * x).sum(axes)))(x)
    np.testing.assert_allclose(total, (x * x).sum(axes), rtol=1e-6)


def test_products_in_loops_and_branches():
    def loop(x, w):
        def body(carry, now):
            carry = jax.lax.cond(now.sum() > 0, lambda c: c @ w, lambda c: jnp.tanh(c @ w), carry)
            return carry, carry.sum()

        return jax.lax.scan(body, x[0], x)

    x, w = random(5, 16, 64), random(64, 64) / 8
    assert calls(loop, x, w) == 2
    for mine, plain in zip(jax.jit(rewritten(loop))(x, w), jax.jit(loop)(x, w), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "dtype, count", [("float64", 0), ("int32", 0), ("complex64", 0), ("bfloat16", 1), ("float16", 1)]
)
def test_dtypes_that_kernels_do_not_have_are_left_to_xla(dtype, count):
    a = jnp.ones((32, 32), dtype)
    assert calls(jnp.matmul, a, a) == count


def test_small_products_and_vectors_are_left_to_xla():
    assert calls(jnp.matmul, random(4, 4), random(4, 4)) == 0
    assert calls(jnp.matmul, random(512, 512), random(512)) == 0
    assert calls(jnp.matmul, random(0, 32), random(32, 32)) == 0


# --- convolutions ------------------------------------------------------------------------

CONVOLUTIONS = {
    # input, weight, stride, padding, dilation, groups
    "plain": ((2, 4, 10, 12), (6, 4, 3, 3), 1, 1, 1, 1),
    "strided": ((2, 4, 11, 12), (20, 4, 3, 2), 2, (1, 0), 1, 1),
    "dilated": ((1, 8, 30, 31), (64, 8, 3, 3), (1, 2), 2, 2, 1),
    "grouped": ((2, 12, 9, 9), (18, 4, 3, 3), 1, 1, 1, 3),
    "first layer": ((3, 3, 40, 40), (16, 3, 7, 7), 2, 3, 1, 1),
    "pointwise": ((4, 20, 7, 7), (50, 20, 1, 1), 1, 0, 1, 1),
    "many terms": ((1, 300, 5, 5), (17, 300, 3, 3), 1, 1, 1, 1),
    "depthwise": ((2, 6, 20, 21), (6, 1, 3, 3), 1, 1, 1, 6),
    "depthwise, strided": ((2, 6, 20, 21), (12, 1, 5, 3), (2, 3), 2, 1, 6),
    "depthwise, seven rows": ((2, 4, 14, 35), (4, 1, 5, 5), 1, 2, 1, 4),
    "depthwise, the last rows again": ((2, 3, 9, 7), (3, 1, 7, 7), 1, 3, 1, 3),
    "depthwise, as small as the kernel": ((3, 3, 7, 7), (6, 1, 7, 7), 1, 3, 1, 3),
    "depthwise, without zeros around": ((2, 3, 17, 12), (3, 1, 5, 5), 1, 0, 1, 3),
    "depthwise, few rows": ((2, 3, 5, 40), (3, 1, 3, 3), 1, 1, 1, 3),
    "depthwise, every second": ((2, 3, 19, 70), (3, 1, 3, 3), 2, 1, 1, 3),
    "depthwise, wide": ((1, 2, 30, 30), (2, 1, 9, 9), 1, 4, 1, 2),
    "few outputs": ((2, 40, 13, 14), (3, 40, 3, 3), 1, 1, 1, 1),
    "few outputs of groups, strided": ((2, 12, 13, 14), (6, 4, 3, 5), (2, 3), 2, 2, 3),
    "one channel": ((5, 1, 28, 28), (32, 1, 5, 5), 1, 2, 1, 1),
    "one dimension": ((4, 16, 50), (8, 16, 5), 1, 2, 1, 1),
    "three dimensions": ((2, 4, 8, 9, 10), (8, 4, 3, 3, 2), (1, 2, 1), 1, 1, 1),
}


def _with_gradients(lib, name, x, weight, bias, **how):
    operands = [lib.from_numpy(v.copy()).requires_grad_() for v in (x, weight, bias)]
    y = getattr(lib.nn.functional, name)(*operands, **how)
    return [y, *lib.autograd.grad((y * y).sum(), operands)]


def _compare(name, *operands, **how):
    mine, theirs = (_with_gradients(lib, name, *operands, **how) for lib in (ftorch, torch))
    for a, b in zip(mine, theirs, strict=True):
        agree(a.detach().numpy(), b)


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_and_their_gradients(case):
    x, weight, stride, padding, dilation, groups = CONVOLUTIONS[case]
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    _compare(f"conv{len(x) - 2}d", random(*x), random(*weight), random(weight[0]), **how)


@pytest.mark.parametrize(
    "x, weight, how",
    [
        ((2, 8, 7, 9), (8, 6, 4, 4), {"stride": 2, "padding": 1}),
        ((2, 8, 7, 9), (8, 6, 3, 3), {"stride": 3, "output_padding": 2, "dilation": 2}),
        ((2, 8, 7, 9), (8, 3, 2, 3), {"stride": (1, 4), "groups": 2}),
        ((2, 8, 7, 9), (8, 1, 3, 3), {"stride": 2, "groups": 8}),
        ((2, 40, 7, 9), (40, 3, 4, 4), {"stride": 2, "padding": 1}),
        ((2, 8, 20), (8, 16, 5), {"stride": 2, "padding": 2}),
        ((1, 4, 3, 4, 5), (4, 2, 2, 3, 2), {"stride": 2}),
    ],
)
def test_transposed_convolutions_and_their_gradients(x, weight, how):
    bias = random(weight[1] * how.get("groups", 1))
    _compare(f"conv_transpose{len(x) - 2}d", random(*x), random(*weight), bias, **how)


def test_a_program_has_no_other_convolutions():
    def gradients(x, w):
        apply = lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 2), [(1, 1)] * 2)  # noqa: E731
        y, pull = jax.vjp(apply, x, w)
        return pull(y)

    program = str(jax.make_jaxpr(rewritten(gradients))(random(2, 8, 9, 9), random(16, 8, 3, 3)))
    assert program.count("ffi_call[") == 3 and "conv_general_dilated" not in program


def test_gradients_of_each_example():
    """`vmap` of a gradient makes one group of each image."""

    def loss(w, x):
        return (jax.lax.conv_general_dilated(x[None], w, (1, 1), [(1, 1)] * 2) ** 2).sum()

    mapped = jax.vmap(jax.grad(loss), (None, 0))
    w, x = random(8, 4, 3, 3), random(5, 4, 9, 9)
    assert "conv_general_dilated" not in str(jax.make_jaxpr(rewritten(mapped))(w, x))
    mine = jax.jit(rewritten(mapped))(w, x)
    for each, image in zip(mine, x, strict=True):
        np.testing.assert_allclose(each, jax.grad(loss)(w, image), rtol=1e-4, atol=1e-3)


def test_results_do_not_depend_on_the_threads():
    x, w = ftorch.randn(8, 32, 28, 28), ftorch.randn(64, 32, 3, 3)
    runs = [ftorch.nn.functional.conv2d(x, w, padding=1).numpy() for _ in range(5)]
    assert all((run == runs[0]).all() for run in runs)


# --- without them ------------------------------------------------------------------------


def test_without_a_compiler_there_is_xla():
    code = """if True:
        import ftorch
        from ftorch.eager import native
        assert not native.available
        x = ftorch.nn.functional.conv2d(ftorch.ones(1, 8, 8, 8), ftorch.ones(8, 8, 3, 3))
        assert (x == 72).all() and (ftorch.ones(32, 32) @ ftorch.ones(32, 32) == 32).all()
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "FTORCH_NATIVE": "0"})


@pytest.mark.parametrize("instructions", ["avx2", "plain"])
def test_other_instruction_sets(instructions):
    code = """if True:
        import ftorch, numpy as np
        F = ftorch.nn.functional
        a, b = ftorch.randn(37, 70), ftorch.randn(70, 53)
        for x in (a, a[:4], a[:4, :32]):
            y = b[: x.shape[1]]
            np.testing.assert_allclose((x @ y).numpy(), (x.double() @ y.double()).numpy(), atol=1e-4)
            w = y.T.contiguous()  # packed by transposing
            np.testing.assert_allclose(F.linear(x, w).numpy(), F.linear(x.double(), w.double()).numpy(), atol=1e-4)
            layers = ftorch.compile(lambda x, y, bias: F.relu(x @ y + bias) @ a.new_ones(53, 40))
            bias = ftorch.randn(53)
            exact = F.relu(x.double() @ y.double() + bias).sum(1, keepdim=True).expand(-1, 40)
            np.testing.assert_allclose(layers(x, y, bias).numpy(), exact.numpy(), rtol=1e-4, atol=1e-3)
        for groups in (1, 2, 8):
            x = ftorch.randn(2, 8, 9, 21, requires_grad=True)
            w = ftorch.randn(16, 8 // groups, 3, 3, requires_grad=True)
            both = []
            for x_, w_ in ((x, w), (x.double(), w.double())):
                ys = [F.conv2d(x_, w_, padding=1, stride=s, groups=groups) for s in (1, 2)]
                both.append([*ys, *ftorch.autograd.grad(sum(y.square().sum() for y in ys), (x, w))])
            for mine, exact in zip(*both):
                np.testing.assert_allclose(
                    mine.detach().numpy(), exact.detach().numpy(), rtol=1e-3, atol=1e-3
                )
    """
    environment = {**os.environ, "FTORCH_NATIVE": instructions}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


# --- results over what they replace ------------------------------------------------------


def test_parameters_are_updated_in_their_own_memory():
    """Each result of a step is given the memory of what it replaces, so that none is copied."""
    from ftorch.eager.runtime.compilation import paired

    given, order = paired((0, 1, 2), [5, 2, -1, 0])
    assert given == (2, 0, 1) and order == [1, 3, 0, 2]


def test_weights_are_updated_without_a_copy():
    """The gradient of a layer's input reads the weight that the step then writes to."""

    def step(x, w, v):
        y = jax.nn.relu(x @ w.T)
        d = (y @ v.T) @ v * (y > 0)
        dx, dw = d @ w, d.T @ x
        return w - dw, dx.sum()

    def copies(function):
        program = jax.jit(function, donate_argnums=1).lower(random(64, 80), random(96, 80), random(48, 96))
        return program.compile().as_text().count(" copy(")

    assert copies(step) == 1 and copies(rewritten(step)) == 0
