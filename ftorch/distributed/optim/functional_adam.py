"""`ftorch.optim.Adam` that is given gradients."""

from __future__ import annotations

from ftorch import optim

from ._functional_optimizer import FunctionalOptimizer

__all__: list[str] = []


class _FunctionalAdam(FunctionalOptimizer):
    optimizer_class = optim.Adam
