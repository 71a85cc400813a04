"""What XLA's programs make of the kernels is tested here: the host tier, which needs no programs, is off."""

from __future__ import annotations

import pytest

from ftorch.eager.runtime import host_tier


@pytest.fixture(autouse=True)
def _without_the_host_tier(monkeypatch):
    monkeypatch.setattr(host_tier, "ENABLED", False)
