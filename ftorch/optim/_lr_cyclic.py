"""Schedulers that go up and down, and those that begin again."""

from __future__ import annotations

import math
from functools import partial

from .._old_names import place_in
from ._lr_base import (
    LRScheduler,
    check_optimizer,
    per_group,
    saved_function,
    set_group_value,
)


def _set_momentum(group, value, is_beta):
    """Sets a group's momentum, which is the first of the betas in optimizers like Adam."""
    if is_beta:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class _MomentumCycle(LRScheduler):
    """A scheduler that also cycles the momentum, against the learning rate."""

    def _ftorch_init_momentum(self, optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch):
        self.cycle_momentum = cycle_momentum
        if not cycle_momentum:
            return [], []
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        bases = per_group("base_momentum", optimizer, base_momentum)
        tops = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for top, base, group in zip(tops, bases, optimizer.param_groups, strict=True):
                _set_momentum(group, top, self.use_beta1)
                group["max_momentum"] = top
                group["base_momentum"] = base
        return bases, tops


class CyclicLR(_MomentumCycle):
    """Goes up and down between two rates.

    Args:
        base_lr, max_lr: the two rates, each one number or one per group.
        step_size_up, step_size_down: steps of each half of the cycle.
        mode: ``"triangular"``; ``"triangular2"`` halves the height with each cycle;
            ``"exp_range"`` multiplies it by ``gamma`` in each step.
        scale_fn, scale_mode: a function for the height instead, of ``"cycle"`` or ``"iterations"``.
        cycle_momentum, base_momentum, max_momentum: whether the momentum goes the other way.

    Raises:
        ValueError: an unknown mode, or an optimizer without momentum.
    """

    def __init__(
        self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None,
        mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle", cycle_momentum=True,
        base_momentum=0.8, max_momentum=0.9, last_epoch=-1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_group_value(group, "lr", rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        bases, tops = self._ftorch_init_momentum(
            optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch
        )
        if cycle_momentum:
            self.base_momentums, self.max_momentums = bases, tops
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self):
        if self._scale_fn_custom is not None:
            return
        self._scale_fn_ref = {
            "triangular": self._triangular_scale_fn,
            "triangular2": self._triangular2_scale_fn,
            "exp_range": partial(self._exp_range_scale_fn, self.gamma),
        }[self.mode]
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x) -> float:
        """The height of a cycle (or at an iteration)."""
        return (self._scale_fn_custom or self._scale_fn_ref)(x)

    @staticmethod
    def _triangular_scale_fn(x):
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x):
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma, x):
        return gamma**x

    def get_lr(self):
        self._ftorch_warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        if x <= self.step_ratio:
            rise = x / self.step_ratio
        else:
            rise = (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            bounds = zip(self.base_momentums, self.max_momentums, groups, strict=True)
            for base, top, group in bounds:
                _set_momentum(group, top - (top - base) * rise * height, self.use_beta1)
        bounds = zip(self.base_lrs, self.max_lrs, strict=True)
        return [base + (top - base) * rise * height for base, top in bounds]

    def state_dict(self):
        """Everything but the optimizer; of ``scale_fn`` only a callable object's attributes."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        state["_scale_fn_custom"] = saved_function(state.pop("_scale_fn_custom"))
        return state

    def load_state_dict(self, state_dict) -> None:
        """Takes over what `state_dict` gave."""
        function = state_dict.pop("_scale_fn_custom")
        super().load_state_dict(state_dict)
        if function is not None:
            self._scale_fn_custom.__dict__.update(function)
        self._init_scale_fn()


class OneCycleLR(_MomentumCycle):
    """One cycle over the whole training: up to ``max_lr``, then down far below the first rate.

    Args:
        max_lr: the highest rate, one or one per group.
        total_steps: of the training; or ``epochs`` and ``steps_per_epoch``.
        pct_start: the share of steps that go up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum, base_momentum, max_momentum: whether the momentum goes the other way.
        div_factor, final_div_factor: how much lower the first rate is, and the last than it.
        three_phase: come down to the first rate before going below it.

    Raises:
        ValueError: no number of steps, a share out of range, an unknown strategy, an optimizer
            without momentum; or, when stepping, too many steps.
    """

    def __init__(
        self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None,
        pct_start=0.3, anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85,
        max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = self._ftorch_count_steps(total_steps, epochs, steps_per_epoch)
        if three_phase:
            phases = (
                (float(pct_start * self.total_steps) - 1, "initial_lr", "max_lr", "max", "base"),
                (float(2 * pct_start * self.total_steps) - 2, "max_lr", "initial_lr", "base", "max"),
                (self.total_steps - 1, "initial_lr", "min_lr", "max", "max"),
            )
        else:
            phases = (
                (float(pct_start * self.total_steps) - 1, "initial_lr", "max_lr", "max", "base"),
                (self.total_steps - 1, "max_lr", "min_lr", "base", "max"),
            )
        self._schedule_phases = [
            {
                "end_step": end, "start_lr": start_lr, "end_lr": end_lr,
                "start_momentum": f"{first}_momentum", "end_momentum": f"{last}_momentum",
            }
            for end, start_lr, end_lr, first, last in phases
        ]
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must be one of 'cos' or 'linear', instead got "
                f"{anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for rate, group in zip(max_lrs, optimizer.param_groups, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self._ftorch_init_momentum(optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _ftorch_count_steps(total_steps, epochs, steps_per_epoch):
        def checked(name, value):
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"Expected positive integer {name}, but got {value}")
            return value

        if total_steps is not None:
            return checked("total_steps", total_steps)
        if epochs is None or steps_per_epoch is None:
            raise ValueError(
                "You must define either total_steps OR (epochs AND steps_per_epoch)"
            )
        return checked("epochs", epochs) * checked("steps_per_epoch", steps_per_epoch)

    def _ftorch_anneal(self, start, end, share):
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self):
        self._ftorch_warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start, phase = 0.0, None
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            start = end
        share = (step - start) / (end - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._ftorch_anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                first, last = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._ftorch_anneal(first, last, share), self.use_beta1)
        return rates


class CosineAnnealingWarmRestarts(LRScheduler):
    """Follows a cosine down to ``eta_min``, then begins again.

    Args:
        T_0: epochs of the first cycle.
        T_mult: by how much each cycle is longer than the one before.
        eta_min: the least rate.

    Raises:
        ValueError: a length or factor that is not a positive integer.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._ftorch_warn_outside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch=None) -> None:
        """Goes to the next epoch, or to a given one, which may be a fraction.

        Raises:
            ValueError: a negative epoch.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        self._ftorch_set_lrs(self.get_lr)

place_in("optim.lr_scheduler", CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR)
