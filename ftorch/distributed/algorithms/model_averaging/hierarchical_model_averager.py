"""Parameters averaged often in small groups, seldom over all processes."""

from __future__ import annotations

import warnings
from collections import OrderedDict

from ... import distributed_c10d as dist
from . import averagers, utils

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages within groups of growing size at growing periods
    (``torch.distributed.algorithms.model_averaging.hierarchical_model_averager``).

    Args:
        period_group_size_dict: ordered {period: group size}, the last one of all processes.
        warmup_steps: steps without averaging.

    Raises:
        ValueError: for an empty dict, a period that is not positive, or a last size that is not the group's.
    """

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods = list(period_group_size_dict)
        if self._periods[0] <= 0:
            raise ValueError(
                "The minimum period in arg ``period_group_size_dict`` must be a positive value."
            )
        if self._periods[-1] == 1:
            warnings.warn(
                "When the maximum period in arg ``period_group_size_dict`` is 1, no need to use model "
                "averaging because the communication cost of all-reducing parameters will be no less than "
                "the cost of all-reducing gradients by DistributedDataParallel in the backward pass. "
                "Therefore, only DistributedDataParallel should be used for this case.", stacklevel=2,
            )
        size = dist.get_world_size(self.process_group)
        last = list(period_group_size_dict.values())[-1]
        if last != size:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {last} must be equal to the size of arg "
                f"``process_group`` {size}."
            )
        self.period_process_group_dict = OrderedDict()
        for period, count in period_group_size_dict.items():
            self.period_process_group_dict[period] = (
                self.process_group if count == size
                else dist.new_subgroups(group_size=count, group=self.process_group)[0]
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps

    def _find_process_group(self):
        due = [p for p in self._periods if self.step % p == 0]
        return self.period_process_group_dict[due[-1]] if due else None

    def average_parameters(self, params):
        """Averages in the largest group whose period it is."""
        group = self._find_process_group() if self.step >= self.warmup_steps else None
        if group is not None:
            utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
