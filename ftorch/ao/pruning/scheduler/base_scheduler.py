"""What schedulers of sparsity have in common (``torch.ao.pruning.scheduler.base_scheduler``)."""

from __future__ import annotations

import functools
import warnings
import weakref

from ftorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


def _counted(sparsifier):
    """The sparsifier's ``step``, counting its calls in ``_step_count``; it does not keep the sparsifier alive."""
    method = sparsifier.step
    if getattr(method, "_with_counter", False):
        return method
    function, owner = method.__func__, weakref.ref(sparsifier)

    @functools.wraps(function)
    def step(*args, **kwargs):
        found = owner()
        found._step_count += 1
        return function(found, *args, **kwargs)

    step._with_counter = True
    return step


class BaseScheduler:
    """Sets the ``sparsity_level`` of a sparsifier's groups at each `step`; subclasses write ``get_sl``.

    Args:
        last_epoch: the last step that was done.
        verbose: whether each level is printed.

    Raises:
        TypeError: for another object than a sparsifier.
    """

    def __init__(self, sparsifier, last_epoch=-1, verbose=False):
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(f"{type(sparsifier).__name__} is not an instance of torch.ao.pruning.BaseSparsifier")
        self.sparsifier = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        sparsifier.step = _counted(sparsifier)
        sparsifier._step_count = 0
        self._step_count = 0
        self.verbose = verbose
        self._get_sl_called_within_step = False
        self.step()

    def state_dict(self):
        """The scheduler's attributes without the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "sparsifier"}

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_sl(self):
        """The levels that were set last."""
        return self._last_sl

    def get_sl(self):
        """The levels of this step; only `step` asks for them."""
        self._warn_outside_of_step()
        raise NotImplementedError

    def _warn_outside_of_step(self) -> None:
        if not self._get_sl_called_within_step:
            warnings.warn(
                "To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.", stacklevel=3
            )

    def print_sl(self, is_verbose, group, sl, epoch=None):
        """Prints a level."""
        if is_verbose:
            text = f"djusting sparsity level of group {group} to {sl:.4e}."
            print(f"A{text}" if epoch is None else f"Epoch {epoch:5d}: a{text}")

    def __repr__(self):
        return f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"

    def step(self, epoch=None):
        """Sets the levels of the next step."""
        if self._step_count == 1:
            if not hasattr(self.sparsifier.step, "_with_counter"):
                warnings.warn(
                    "Seems like `sparsifier.step()` has been overridden after sparsity scheduler "
                    "initialization. Please, make sure to call `sparsifier.step()` before "
                    "`scheduler.step()`.",
                    UserWarning,
                    stacklevel=2,
                )
            elif self.sparsifier._step_count < 1:
                warnings.warn(
                    "Detected call of `scheduler.step()` before `sparsifier.step()`. "
                    "You have to make sure you run the sparsifier.step() BEFORE any "
                    "calls to the scheduler.step().",
                    UserWarning,
                    stacklevel=2,
                )
        self._step_count += 1
        self._get_sl_called_within_step = True
        try:
            self.last_epoch += 1
            values = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for i, (group, level) in enumerate(zip(self.sparsifier.groups, values)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, i, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var):
        """A value for each group.

        Raises:
            ValueError: for as many as there are not groups.
        """
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)
