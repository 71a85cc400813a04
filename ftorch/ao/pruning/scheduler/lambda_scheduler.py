"""Levels by functions of the step (``torch.ao.pruning.scheduler.lambda_scheduler``)."""

from __future__ import annotations

from .base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """Multiplies each group's own level with a function of the step.

    Args:
        sl_lambda: the function, or a list of one for each group.

    Raises:
        ValueError: for as many functions as there are not groups.
    """

    def __init__(self, sparsifier, sl_lambda, last_epoch: int = -1, verbose: bool = False) -> None:
        self.sparsifier, count = sparsifier, len(sparsifier.groups)
        functions = list(sl_lambda) if isinstance(sl_lambda, (list, tuple)) else [sl_lambda] * count
        if len(functions) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
        self.sl_lambdas = functions
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """The levels of this step."""
        self._warn_outside_of_step()
        return [base * function(self.last_epoch) for function, base in zip(self.sl_lambdas, self.base_sl)]
