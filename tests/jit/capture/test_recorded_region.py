"""Recorded regions, on the CPU: replays train as PyTorch's steps do, and are one program on the same tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.runtime.counters import stats
from ftorch.jit.capture.recorded_region import RecordedRegion


@pytest.fixture
def region():
    region = RecordedRegion(ft.device("cpu"))
    yield region
    region.abandon()


def _net(lib):
    lib.manual_seed(0)
    nn = lib.nn
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


@pytest.mark.parametrize(
    "name, options", [("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("Adagrad", {})]
)
def test_a_captured_training_step_is_pytorchs(region, name, options):
    rng = np.random.RandomState(0)
    batches = [(rng.randn(8, 64).astype(np.float32), rng.randint(0, 10, 8)) for _ in range(7)]
    models = _net(ft), _net(pt)
    optimizers = [getattr(lib.optim, name)(m.parameters(), lr=0.01, **options) for lib, m in zip((ft, pt), models)]

    def step(lib, i, x, y):
        optimizers[i].zero_grad(set_to_none=True)
        loss = lib.nn.functional.cross_entropy(models[i](x), y)
        loss.backward()
        optimizers[i].step()
        return loss

    x, y = ft.tensor(batches[0][0]), ft.tensor(batches[0][1])
    for _ in range(2):  # as for CUDA's graphs: before, and beside
        step(ft, 0, x, y)
        step(pt, 1, pt.tensor(batches[0][0]), pt.tensor(batches[0][1]))
    before = models[0][0].weight.detach().clone()
    region.begin()
    loss = step(ft, 0, x, y)
    region.end()
    assert ft.equal(models[0][0].weight, before) and loss.item() == 0
    for i, (images, labels) in enumerate(batches):
        if i == 3:
            for group in (g for o in optimizers for g in o.param_groups):
                group["lr"] = 0.05
        if i == 1:
            compiled = stats.compilations
        x.copy_(ft.tensor(images))
        y.copy_(ft.tensor(labels))
        region.replay()
        expected = step(pt, 1, pt.tensor(images), pt.tensor(labels))
        np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-4)
        for mine, theirs in zip(models[0].parameters(), models[1].parameters()):
            np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-3, atol=1e-5)
    assert stats.compilations - compiled < len(batches)  # of the batches' copies, at most


def test_numbers_are_drawn_anew(region):
    x = ft.zeros(4)
    region.begin()
    drawn, dropped = ft.rand(4) + x, ft.nn.functional.dropout(ft.ones(4))
    region.end()
    ft.manual_seed(0)
    pt.manual_seed(0)
    for _ in range(3):
        region.replay()
        assert drawn.tolist() == pt.rand(4).tolist()
        assert dropped.tolist() == pt.nn.functional.dropout(pt.ones(4)).tolist()


def test_tensors_keep_their_identity_and_views_follow(region):
    x, total, written = ft.ones(3), ft.zeros(3), ft.zeros(2, 3)
    row = written[1]
    region.begin()
    y = x * 2
    total += y
    row.copy_(y)
    region.end()
    y_again = y.view(3, 1)
    for i in range(1, 4):
        x.fill_(i)
        region.replay()
        assert y.tolist() == [2.0 * i] * 3 == y_again.flatten().tolist() == row.tolist()
        assert written.tolist() == [[0.0] * 3, [2.0 * i] * 3]
    assert total.tolist() == [12.0] * 3


def test_large_state_is_replaced_where_it_is(region):
    cache = ft.zeros(64, 4096)
    index, row = ft.tensor([3]), ft.ones(1, 4096)
    region.begin()
    cache.index_copy_(0, index, row)
    region.end()
    region.replay()
    where = cache.data_ptr()
    for i in range(3):
        index.fill_(i)
        region.replay()
        assert cache.data_ptr() == where
    assert cache.sum(1).tolist() == [4096.0] * 4 + [0.0] * 60


def test_what_cannot_be_captured_raises(region):
    x = ft.ones(2)
    with pytest.raises(RuntimeError, match="no recorded region"):
        region.replay()
    with pytest.raises(RuntimeError, match="no graph is being captured"):
        region.end()
    region.begin()
    with pytest.raises(RuntimeError, match="already"):
        RecordedRegion(x.device).begin()
    y = x + 1
    with pytest.raises(RuntimeError, match="not permitted"):
        y.sum().item()
    region.abandon()
    assert (x + 1).tolist() == [2.0, 2.0]  # work goes on
    assert not region.is_recording and not region.is_recorded


def test_without_a_gpu_cuda_says_what_pytorch_says():
    for call in (lambda t: t.cuda.CUDAGraph(), lambda t: t.cuda.graph(None)):
        said = []
        for lib in (ft, pt):
            with pytest.raises(RuntimeError) as caught:
                call(lib)
            said.append(str(caught.value))
        assert said[0] == said[1]
    assert ft.cuda.is_current_stream_capturing() is False
