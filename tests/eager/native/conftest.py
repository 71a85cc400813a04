"""What XLA's programs make of the kernels is tested here: the host tier, which needs no programs, is off."""

from __future__ import annotations

import pytest

from ftorch.eager.core.jax_scope import scope
from ftorch.eager.runtime import host_tier


@pytest.fixture(autouse=True)
def _without_the_host_tier(monkeypatch):
    monkeypatch.setattr(host_tier, "ENABLED", False)


@pytest.fixture(autouse=True)
def _within_the_packages_settings():
    """Tests call JAX themselves, as the package does."""
    with scope():
        yield
