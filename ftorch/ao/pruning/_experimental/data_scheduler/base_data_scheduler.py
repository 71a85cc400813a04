"""What schedulers of data sparsifiers have in common (``torch.ao.pruning._experimental.data_scheduler``)."""

from __future__ import annotations

import abc
import warnings

from ftorch.ao.pruning._experimental.data_sparsifier import BaseDataSparsifier
from ftorch.ao.pruning.scheduler.base_scheduler import _counted

__all__ = ["BaseDataScheduler"]


class BaseDataScheduler:
    """Sets one setting of a data sparsifier's groups at each `step`; subclasses write ``get_schedule_param``.

    Args:
        schedule_param: the setting's name.
        last_epoch: the last step that was done.
        verbose: whether each change is printed.

    Raises:
        TypeError: for another object than a data sparsifier.
    """

    def __init__(self, data_sparsifier, schedule_param: str, last_epoch=-1, verbose=False):
        if not isinstance(data_sparsifier, BaseDataSparsifier):
            raise TypeError(
                f"{type(data_sparsifier).__name__} is not an instance of torch.ao.pruning.BaseDataSparsifier"
            )
        self.data_sparsifier = data_sparsifier
        self.schedule_param = schedule_param
        self.base_param = self._values()
        self.last_epoch = last_epoch
        data_sparsifier.step = _counted(data_sparsifier)
        data_sparsifier._step_count = 0
        self._step_count: int = 0
        self.verbose = verbose
        self._get_sp_called_within_step: bool = False
        self.step()

    def _values(self):
        groups = self.data_sparsifier.data_groups
        return {name: config.get(self.schedule_param) for name, config in groups.items()}

    @abc.abstractmethod
    def get_schedule_param(self):
        """{name: the setting's next value}."""
        raise NotImplementedError

    def __repr__(self):
        return (f"{type(self).__name__} (\nData Sparsifier {self.data_sparsifier}\n"
                f"    {self.schedule_param}: {self.base_param}\n)")

    def state_dict(self):
        """The scheduler's attributes without the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "data_sparsifier"}

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_param(self):
        """{name: the value that was set last}."""
        return self._last_param

    def step(self):
        """Sets the next values."""
        if self._step_count == 1:
            if not hasattr(self.data_sparsifier.step, "_with_counter"):
                warnings.warn(
                    "Seems like `data_sparsifier.step()` has been overridden after sparsity scheduler "
                    "initialization. Please, make sure to call `data_sparsifier.step()` before "
                    "`scheduler.step()`.",
                    UserWarning,
                    stacklevel=2,
                )
            elif self.data_sparsifier._step_count < 1:
                warnings.warn(
                    "Detected call of `scheduler.step()` before `data_sparsifier.step()`. "
                    "You have to make sure you run the data_sparsifier.step() BEFORE any "
                    "calls to the scheduler.step().",
                    UserWarning,
                    stacklevel=2,
                )
        self._step_count += 1
        self._get_sp_called_within_step = True
        try:
            self.last_epoch += 1
            values = self.get_schedule_param()
        finally:
            self._get_sp_called_within_step = False
        for name, value in values.items():
            self.data_sparsifier.data_groups[name][self.schedule_param] = value
            if self.verbose:
                print(f"Adjusting {self.schedule_param} for group {name} to {value}")
        self._last_param = self._values()
        self.data_sparsifier.enable_mask_update = True
