"""`LRScheduler`, and what all schedulers need."""

from __future__ import annotations

import types
from functools import wraps
from weakref import ref

from .._old_names import place_in
from ..eager.core.user_warnings import warn_user
from ..eager.native.contexts import contextmanager
from ..eager.runtime import capture_trace
from ..eager.tensor import Tensor
from .optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch "
    "is different from None, the closed form is used instead of the new chainable form, where "
    "available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_HOW_TO = (
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)


def _copied(value):
    return value.clone() if isinstance(value, Tensor) else value


def group_values(optimizer, key) -> list:
    """A hyperparameter of every group; tensors are copied, since they change in place."""
    return [_copied(group[key]) for group in optimizer.param_groups]


def set_group_value(group, key, value) -> None:
    """Sets a hyperparameter; a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def per_group(name, optimizer, value) -> list:
    """``value`` for every group: the same, or one each.

    Raises:
        ValueError: a list of another length.
    """
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * groups
    elif len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
            f"values, param_groups has {groups}."
        )
    return [_copied(v) for v in value]


def check_optimizer(optimizer) -> None:
    """Raises TypeError unless it is an `Optimizer`."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


@contextmanager
def _set_for_now(obj, name):
    setattr(obj, name, True)
    try:
        yield
    finally:
        setattr(obj, name, False)


class LRScheduler:
    """The base class of schedulers: a subclass's `get_lr` gives the groups' next learning rates.

    Args:
        optimizer: whose groups' ``lr`` is changed.
        last_epoch: of a run that is continued; -1 begins.

    Raises:
        TypeError: not an optimizer.
        KeyError: a continued run's groups do not have ``initial_lr``.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0.\nThis typically happens when:\n1. You're trying "
                    "to resume training from a checkpoint but haven't properly loaded the optimizer "
                    "state\n2. You're using last_epoch >= 0 for a fresh training run (not "
                    "recommended)"
                )
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        with _set_for_now(self, "_is_initial"):
            self.step()

    def state_dict(self):
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict) -> None:
        """Takes over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list:
        """The learning rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list:
        """The learning rates of the epoch ``last_epoch``; called by `step`."""
        raise NotImplementedError

    def _ftorch_warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warn_user(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
            )

    def __init_subclass__(cls, **kwargs):
        """A compiled step goes to the next epoch anew each time it runs."""
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _replayed(cls.__dict__["step"])

    def step(self, epoch=None) -> None:
        """Goes to the next epoch (or, deprecated, to a given one) and sets the rates."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warn_user(
                    "Seems like `optimizer.step()` has been overridden after learning rate "
                    "scheduler initialization. Please, make sure to call `optimizer.step()` before "
                    f"`lr_scheduler.step()`. See more details at {_HOW_TO}",
                )
            elif not getattr(self.optimizer, "_opt_called", False):
                warn_user(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                    "1.1.0 and later, you should call them in the opposite order: "
                    "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will "
                    "result in PyTorch skipping the first value of the learning rate schedule. See "
                    f"more details at {_HOW_TO}",
                )
        self._step_count += 1
        if epoch is not None:
            warn_user(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._ftorch_set_lrs(closed_form or self.get_lr)

    def _ftorch_set_lrs(self, compute):
        with _set_for_now(self, "_get_lr_called_within_step"):
            rates = compute()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", rate)
        self._last_lr = group_values(self.optimizer, "lr")


def _replayed(step):
    @wraps(step)
    def replayed(self, *args, **kwargs):
        capture = capture_trace.capturing()
        if capture is None:
            return step(self, *args, **kwargs)
        if any(isinstance(a, Tensor) for a in (*args, *kwargs.values())):
            capture.flush()  # a metric: the rates depend on its value
        if any(isinstance(g["lr"], Tensor) for g in self.optimizer.param_groups):
            capture.end("a scheduler writes to a learning rate that is a tensor")
            return step(self, *args, **kwargs)
        capture.actions.append(("do", lambda: step(self, *args, **kwargs)))
        with capture_trace.outside_capture():
            return step(self, *args, **kwargs)

    return replayed


LRScheduler.step = _replayed(LRScheduler.step)


class _LRScheduler(LRScheduler):
    """The older name of `LRScheduler`."""


def _track_steps(optimizer):
    """Lets the optimizer remember that it has stepped, for the warning about the order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function, reference = optimizer.step.__func__, ref(optimizer)

    @wraps(function)
    def wrapper(*args, **kwargs):
        self = reference()
        self._opt_called = True
        return function.__get__(self, type(self))(*args, **kwargs)

    wrapper._wrapped_by_lr_sched = True
    optimizer.step = wrapper


def saved_function(function):
    """What is saved of a callable: its attributes; of plain functions nothing."""
    is_plain = function is None or isinstance(function, types.FunctionType)
    return None if is_plain else function.__dict__.copy()


class Chainable(LRScheduler):
    """A scheduler that multiplies the groups' current rates, so that several can be combined.

    Subclasses define ``factor_of_step()`` for the step to ``last_epoch`` (None: the rates stay), and
    ``total_factor()``, which is with respect to the initial rates.
    """

    def get_lr(self):
        self._ftorch_warn_outside_step()
        factor = self._ftorch_factor_of_step()
        if factor is None:
            return group_values(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self):
        factor = self._ftorch_total_factor()
        return [base * factor for base in self.base_lrs]

place_in("optim.lr_scheduler", LRScheduler)
