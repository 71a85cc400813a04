"""`ftorch.optim.AdamW` that is given gradients."""

from __future__ import annotations

from ftorch import optim

from ._functional_optimizer import FunctionalOptimizer

__all__: list[str] = []


class _FunctionalAdamW(FunctionalOptimizer):
    optimizer_class = optim.AdamW
