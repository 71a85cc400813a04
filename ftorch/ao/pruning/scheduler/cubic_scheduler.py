"""Levels that rise as a cubic (``torch.ao.pruning.scheduler.cubic_scheduler``)."""

from __future__ import annotations

from .base_scheduler import BaseScheduler

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """Raises the level from a first one to the group's own, fast at first (https://arxiv.org/abs/1710.01878).

    Each argument is a number, or a list of one for each group.

    Args:
        init_sl: the first level.
        init_t: the step at which it begins to rise.
        delta_t: steps between two levels.
        total_t: how many levels.
        initially_zero: whether the level is 0 before.
    """

    def __init__(self, sparsifier, init_sl=0.0, init_t=0, delta_t=10, total_t=100, initially_zero=False, last_epoch=-1,
                 verbose=False):
        self.sparsifier = sparsifier
        self.init_sl = self._make_sure_a_list(init_sl)
        self.init_t = self._make_sure_a_list(init_t)
        self.delta_t = self._make_sure_a_list(delta_t)
        self.total_t = self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(s_0, s_f, t, t_0, dt, n, initially_zero=False):
        """The level at step ``t``: s_f + (s_0 - s_f) (1 - (t - t_0) / (dt n))**3, between the two."""
        if initially_zero and t < t_0:
            return 0
        level = s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3
        return max(s_0, min(s_f, level))

    def get_sl(self):
        """The levels of this step."""
        self._warn_outside_of_step()
        settings = zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero)
        return [
            self.sparsity_compute_fn(first, last, self.last_epoch, begin, delta, total, zero)
            for first, last, begin, delta, total, zero in settings
        ]
