"""Tests of the host tier's rules compute the same in JAX, as the package does."""

from __future__ import annotations

import pytest

from ftorch.eager.core.jax_scope import scope


@pytest.fixture(autouse=True)
def _within_the_packages_settings():
    with scope():
        yield
