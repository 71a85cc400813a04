"""Geometries are interned while somebody holds them: sizes that came once leave nothing."""

import pytest
import torch as pt

import ftorch as torch
from ftorch.eager.core import device, geometry, refcount
from tests.oracle import said


@pytest.fixture
def swept(monkeypatch):
    """Begins with a sweep at the next new geometry, and then at a hundred."""
    monkeypatch.setattr(geometry, "_SWEPT", 100)
    monkeypatch.setattr(geometry, "SWEEP_AT", [0])


@pytest.mark.skipif(not refcount.RELIABLE, reason="reference counts are not exact")
def test_geometries_that_nobody_holds_go(swept):
    made = [geometry.geometry((n, 7), torch.float32, device.CPU) for n in range(9000, 9040)]
    strided = geometry.geometry((9001, 7), torch.float32, device.CPU, (14, 2))
    kept = len(geometry.INTERNED)
    for n in range(20000, 20000 + 4 * kept):
        geometry.geometry((n, 3), torch.float32, device.CPU)
    assert len(geometry.INTERNED) <= 2 * kept + 100
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


def test_the_first_tensor_of_complex_halves_warns(monkeypatch):
    monkeypatch.setattr("ftorch.eager.core.user_warnings._given", set())
    warns = pt.is_warn_always_enabled()

    def program(t):
        return t.zeros(3, 71, 2, dtype=t.complex32).dtype, t.ones(3, 71, dtype=t.complex64).to(
            t.complex32
        ).shape

    pt.set_warn_always(True)
    try:
        (shown, warned), (expected, theirs) = said(torch, program), said(pt, program)
    finally:
        pt.set_warn_always(warns)
    assert shown == expected
    assert set(warned) == {text.partition(" (Triggered")[0] for text in theirs}
