"""Geometries are interned while somebody holds them: sizes that came once leave nothing."""

import pytest

import ftorch as torch
from ftorch.eager.core import device, geometry, refcount


@pytest.fixture
def swept(monkeypatch):
    """Begins with a sweep at the next new geometry, and then at a hundred."""
    monkeypatch.setattr(geometry, "_SWEPT", 100)
    monkeypatch.setattr(geometry, "_sweep_at", [0])


@pytest.mark.skipif(not refcount.RELIABLE, reason="reference counts are not exact")
def test_geometries_that_nobody_holds_go(swept):
    made = [geometry.geometry((n, 7), torch.float32, device.CPU) for n in range(9000, 9040)]
    strided = geometry.geometry((9001, 7), torch.float32, device.CPU, (14, 2))
    kept = len(geometry._INTERNED)
    for n in range(20000, 20000 + 4 * kept):
        geometry.geometry((n, 3), torch.float32, device.CPU)
    assert len(geometry._INTERNED) <= 2 * kept + 100
    for g in made:  # those that are held are still the only ones
        assert geometry.geometry(g.shape, g.dtype, g.device) is g
        assert geometry.geometry(g.shape, g.dtype, g.device, g.stride) is g
    assert geometry.geometry((9001, 7), torch.float32, device.CPU, (14, 2)) is strided


def test_what_is_held_is_found_again_by_its_plans(swept):
    x = torch.ones(41, 6)
    before = [(x * 2).sum().item(), x.t().exp()[1, 2].item()]
    for n in range(500, 900):
        torch.ones(n, 2)
    assert [(x * 2).sum().item(), x.t().exp()[1, 2].item()] == before
    assert (x + torch.ones(41, 6))._ftorch_geometry is x._ftorch_geometry
