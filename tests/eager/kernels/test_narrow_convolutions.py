"""Convolutions of bfloat16: summed in single precision, rounded once, the same bits by every way that a call takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native

# (input, weight, arguments): tiles of one to eight pixels, odd channels, outputs that fill vectors and panels or not.
CASES = [
    ((1, 2, 7), (16, 2, 3), {}),
    ((2, 5, 9), (20, 5, 2), {"stride": 2, "padding": 1}),
    ((1, 3, 20, 21), (33, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 16, 7, 7), (50, 16, 1, 1), {}),
    ((1, 17, 12, 13), (97, 17, 3, 3), {"padding": 2, "dilation": 2}),
    ((3, 12, 11, 5), (48, 4, 3, 2), {"groups": 3, "padding": (1, 0)}),
    ((1, 40, 9, 9), (64, 40, 1, 1), {"stride": 2}),
    ((1, 4, 5, 6, 7), (32, 2, 2, 3, 1), {"groups": 2, "stride": (1, 2, 1), "padding": (0, 1, 2)}),
    ((1, 3, 32, 32), (24, 3, 16, 16), {"stride": 16}),
    ((1, 8, 12, 12), (16, 8, 3, 3), {"padding": "same"}),
]


def _given(shape, weight, has_bias):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape), rng.standard_normal(weight) / np.sqrt(np.prod(weight[1:]))]
    return [x.astype(np.float32) for x in (*arrays, *([rng.standard_normal(weight[0])] if has_bias else []))]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shape, weight, how", CASES)
def test_by_every_way(shape, weight, how, has_bias):
    name = f"conv{len(shape) - 2}d"
    rounded = [torch.tensor(x).bfloat16() for x in _given(shape, weight, has_bias)]
    exact = getattr(torch.nn.functional, name)(*(x.double() for x in rounded), **how).numpy()
    bound = getattr(torch.nn.functional, name)(*(x.double().abs() for x in rounded), **how).numpy()
    own = [ftorch.tensor(x.float().numpy()).bfloat16() for x in rounded]

    def call(*given):
        return getattr(ftorch.nn.functional, name)(*given, **how)

    results = [run(*own) for run in (call, call, call, ftorch.compile(call))]
    results.append(call(*(x.clone().requires_grad_() for x in own)))
    first = results[0].float().numpy()
    assert results[0].dtype is ftorch.bfloat16
    assert (np.abs(first - exact) <= 2**-8 * np.abs(exact) + 1e-6 * bound).all()
    for found in results[1:]:
        np.testing.assert_array_equal(found.detach().float().numpy(), first)


def test_gradients():
    x, weight, bias = _given((2, 6, 9, 8), (18, 3, 3, 3), True)
    found = []
    for t in (torch, ftorch):
        given = [t.tensor(v).bfloat16().requires_grad_() for v in (x, weight, bias)]
        t.nn.functional.conv2d(*given, stride=2, padding=1, groups=2).float().square().sum().backward()
        found.append([v.grad.float().numpy() for v in given])
    for theirs, own in zip(*found):
        np.testing.assert_allclose(own, theirs, 5e-2, 2e-2 * np.abs(theirs).max())


def test_vmap():
    x, weight = _given((3, 2, 4, 8, 8), (3, 16, 4, 3, 3), False)
    given = [ftorch.tensor(v).bfloat16() for v in (x, weight)]
    found = ftorch.vmap(ftorch.nn.functional.conv2d)(*given)
    for i in range(3):
        alone = ftorch.nn.functional.conv2d(given[0][i], given[1][i])
        np.testing.assert_allclose(found[i].float().numpy(), alone.float().numpy(), 2**-7, 1e-5)


@pytest.mark.skipif(not native.multiplies_bfloat16, reason="the processor has no pairs of bfloat16")
def test_infinities_and_not_a_numbers_stay():
    x = ftorch.ones(1, 2, 6, dtype=ftorch.bfloat16)
    x[0, 0, 1], x[0, 1, 5] = float("nan"), float("inf")
    y = ftorch.nn.functional.conv1d(x, ftorch.ones(16, 2, 2, dtype=ftorch.bfloat16))
    assert y[0, :, :2].isnan().all() and (y[0, :, 2:4] == 4).all() and y[0, :, 4].isinf().all()
