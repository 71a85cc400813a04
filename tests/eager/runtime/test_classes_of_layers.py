"""Layers whose numbers follow from sizes in involved ways: calls and gradients have size classes, and PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest
import torch as oracle

import ftorch as torch
from ftorch.eager.autograd import derivative_kernels
from ftorch.eager.call import planning


def image(lib, n):
    return lib.linspace(-1, 1, 2 * 3 * n * (n + 6)).sin().reshape(2, 3, n, n + 6)


def rows(lib, n):
    return lib.linspace(-1, 1, n * 12).sin().reshape(n, 12)


LAYERS = {
    "batch norm of two images": (image, lambda lib, F, x: F.batch_norm(x, lib.zeros(3), lib.ones(3), training=True)),
    "average": (image, lambda lib, F, x: F.avg_pool2d(x, 2)),
    "average with padding": (image, lambda lib, F, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    "average of a line": (image, lambda lib, F, x: F.avg_pool1d(x.flatten(2), 5, 3)),
    "average of a volume": (image, lambda lib, F, x: F.avg_pool3d(x, 2, (1, 3, 2))),
    "norm of windows": (image, lambda lib, F, x: F.lp_pool2d(x + 2, 2, 3)),
    "greatest of all": (image, lambda lib, F, x: F.adaptive_max_pool2d(x, 1)),
    "windows side by side": (image, lambda lib, F, x: F.unfold(x, (2, 3), padding=1, stride=2)),
    "variance": (image, lambda lib, F, x: x.var((0, 2))),
    "deviation of all": (image, lambda lib, F, x: x.std()),
    "distances": (rows, lambda lib, F, x: F.pdist(x)),
    "pairs": (rows, lambda lib, F, x: lib.combinations(x[:, 1]).prod(1)),
    "inverse": (rows, lambda lib, F, x: lib.linalg.pinv(x[:, ::3] + lib.eye(len(x), 4))),
    "cross entropy": (rows, lambda lib, F, x: F.cross_entropy(x, lib.arange(len(x)) % 12)),
    "smoothed, some left out": (rows, lambda lib, F, x: F.cross_entropy(
        x, lib.arange(len(x)) % 12, ignore_index=5, label_smoothing=0.1, reduction="none"
    )),
    "bags": (rows, lambda lib, F, x: F.embedding_bag(lib.arange(2 * len(x)) % 7, x, lib.arange(0, 2 * len(x), 2), mode="max")),
}


@pytest.mark.parametrize("name", LAYERS)
def test_new_sizes_trace_nothing_and_give_pytorchs_values(name, monkeypatch):
    make, layer = LAYERS[name]

    def step(lib, n):
        x = make(lib, n).requires_grad_()
        y = layer(lib, lib.nn.functional, x)
        y.square().sum().backward()
        return y.detach().numpy(), x.grad.numpy()

    def compare(n):
        for mine, theirs in zip(step(torch, n), step(oracle, n), strict=True):
            np.testing.assert_allclose(mine, theirs, 2e-3, 2e-4)

    for n in (11, 17, 29, 23, 13, 37, 19, 26):
        compare(n)
    traced = []
    for module, function in ((derivative_kernels, "used_operands"), (planning, "abstract_results")):
        kept = getattr(module, function)
        monkeypatch.setattr(module, function, lambda *given, kept=kept: (traced.append(given), kept(*given))[1])
    for n in (31, 41, 47, 39, 44):
        compare(n)
    assert not traced
