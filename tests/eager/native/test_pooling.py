"""Max pooling's kernels against PyTorch, by itself and behind a convolution."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.kernels.nn.pooling import Window, _pooled
from ftorch.eager.native.codes import Epilogue
from ftorch.eager.native.passes import epilogue_fusion
from ftorch.eager.native.passes.rewrite import rewritten

pytestmark = pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
rng = np.random.default_rng(0)

CASES = {
    # input, kernel, stride, padding, dilation, ceil_mode
    "apart": ((3, 16, 12, 14), 2, 2, 0, 1, False),
    "apart, not all": ((2, 9, 13, 11), 2, 3, 0, 1, False),
    "overlapping": ((2, 8, 15, 40), 3, 2, 1, 1, False),
    "each": ((2, 8, 9, 45), (3, 5), 1, (1, 2), 1, False),
    "dilated": ((1, 8, 20, 20), (2, 3), (2, 3), (1, 0), (3, 2), True),
    "ceil": ((2, 8, 11, 11), 3, 3, 1, 1, True),
    "one dimension": ((4, 16, 70), 4, 4, 2, 1, False),
    "three dimensions": ((2, 4, 7, 8, 10), (2, 3, 2), 2, 1, 1, True),
}


def _run(lib, array, kernel, stride, padding, dilation, ceil_mode):
    x = lib.from_numpy(array.copy()).requires_grad_()
    pool = getattr(lib.nn.functional, f"max_pool{array.ndim - 2}d")
    y = pool(x, kernel, stride, padding, dilation, ceil_mode)
    (grad,) = lib.autograd.grad(
        (y.nan_to_num(0.5, 2, -2) * y.detach().nan_to_num(2, 3, -4)).sum(), x, create_graph=True
    )
    return y.detach().numpy(), grad.detach().numpy()


@pytest.mark.parametrize("case", CASES)
def test_windows(case):
    shape, *how = CASES[case]
    array = rng.integers(-9, 9, shape).astype(np.float32)  # many are equal
    for mine, theirs in zip(_run(ftorch, array, *how), _run(torch, array, *how), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_nan_and_infinity():
    array = rng.standard_normal((2, 8, 9, 18)).astype(np.float32)
    array[rng.random(array.shape) < 0.2] = np.nan
    array[rng.random(array.shape) < 0.2] = np.inf
    array[0, :4] = -np.inf
    for how in ((2, 2, 0, 1, False), (3, 2, 1, 1, True)):
        for mine, theirs in zip(_run(ftorch, array, *how), _run(torch, array, *how), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_second_gradients_and_forward_mode():
    array = rng.standard_normal((2, 4, 12, 12)).astype(np.float32)

    def run(lib):
        pool = lambda x: lib.nn.functional.max_pool2d(x, 3, 2, 1).square().sum()  # noqa: E731
        x, v = lib.from_numpy(array), lib.from_numpy(array[::-1].copy())
        return lib.func.jvp(lib.func.grad(pool), (x,), (v,))

    for mine, theirs in zip(run(ftorch), run(torch), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5)


@pytest.mark.parametrize("outputs, width", [(5, 14), (16, 23), (17, 12), (40, 9), (3, 12)])
def test_layers_of_each_example_are_pytorchs(monkeypatch, outputs, width):
    """Bias, rectifier and its mask are made by the calls of the convolutions and the pooling."""
    taken = []
    for name in ("take", "take_mask"):
        whole = getattr(epilogue_fusion.Chain, name)

        def spy(self, *args, whole=whole):
            found = whole(self, *args)
            taken.append([link.code for link in self.taken])
            return found

        monkeypatch.setattr(epilogue_fusion.Chain, name, spy)
    given = [
        rng.standard_normal(s).astype(np.float32) for s in ((outputs, 2, 3, 3), (outputs,), (8, outputs, 3, 3), (8,))
    ]
    images = rng.standard_normal((6, 2, 10, width)).astype(np.float32)

    def gradients(lib):
        F = lib.nn.functional

        def loss(params, x):
            w, b, v, c = params
            y = F.relu(F.conv2d(F.relu(F.conv2d(x, w, b, padding=1)), v, c, padding=1))
            return F.max_pool2d(y, 2).square().sum()

        mapped = lib.vmap(lib.func.grad(loss), (None, 0))
        mapped = lib.compile(mapped) if lib is ftorch else mapped
        return mapped(tuple(map(lib.from_numpy, given)), lib.from_numpy(images).unsqueeze(1))

    mine, theirs = gradients(ftorch), gradients(torch)
    assert taken.count([Epilogue.ADD, Epilogue.RECTIFY]) == 2 and taken.count([Epilogue.MASK]) == 2
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item())


@pytest.mark.parametrize("instructions", ["avx2", "plain"])
def test_other_instruction_sets(instructions):
    code = """if True:
        import sys
        sys.path.insert(0, ".")
        from tests.eager.native import test_pooling as tests
        for case in ("apart", "overlapping", "dilated"):
            tests.test_windows(case)
        x, w, b = (tests.ftorch.randn(*s, requires_grad=True) for s in ((2, 3, 7, 20), (5, 3, 3, 3), (5,)))
        for dtype in (x.dtype, tests.ftorch.float64):
            y = tests.ftorch.nn.functional.conv2d(*(t.to(dtype) for t in (x, w, b)), padding=1).relu()
            found = y, *tests.ftorch.autograd.grad(y.square().sum(), (x, w, b))
            mine = found if dtype is x.dtype else mine
        for one, exact in zip(mine, found):
            tests.np.testing.assert_allclose(one.detach(), exact.detach(), rtol=1e-3, atol=1e-3)
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "FTORCH_NATIVE": instructions})


def test_few_elements_are_left_to_xla():
    def calls(n):
        window = Window((2,), (2,), (0,), (1,), (n,), (n // 2,))
        return str(jax.make_jaxpr(rewritten(lambda x: _pooled(x, window)))(np.ones((2, n), np.float32))).count(
            "ffi_call["
        )

    assert calls(10) == 0 and calls(2000) == 1
