"""``torch.optim.swa_utils``: averages of weights, and the learning rates that go with them."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import chain

from ..autograd import no_grad
from ..eager.core import api as torch
from ..eager.core import dtype as dtypes
from ..eager.tensor import Tensor as Tensor
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm
from ._lr_base import LRScheduler, per_group

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _lerp_or(tensors, others, weight, otherwise):
    """Moves tensors towards others; numbers that are not floating point go another way."""
    for averaged, current in zip(tensors, others, strict=True):
        if averaged.is_floating_point() or averaged.is_complex():
            averaged.lerp_(current, weight)
        else:
            averaged.copy_(otherwise(averaged, current))


def get_ema_multi_avg_fn(decay=0.999):
    """A function for `AveragedModel` that keeps an exponential moving average.

    Raises:
        ValueError: a decay outside [0, 1].
    """
    average = get_ema_avg_fn(decay)

    @no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        _lerp_or(
            ema_param_list, current_param_list, 1 - decay, lambda a, c: average(a, c, None)
        )

    return ema_update


def get_swa_multi_avg_fn():
    """A function for `AveragedModel` that keeps the mean."""
    average = get_swa_avg_fn()

    @no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        weight = 1 / (float(num_averaged) + 1)
        _lerp_or(
            averaged_param_list, current_param_list, weight,
            lambda a, c: average(a, c, num_averaged),
        )

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """The same as `get_ema_multi_avg_fn`, for one parameter at a time."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """The same as `get_swa_multi_avg_fn`, for one parameter at a time."""

    @no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's over the training.

    Args:
        model: what is averaged.
        device: of the copy.
        avg_fn: ``avg_fn(averaged, current, num_averaged)``; the mean by default.
        multi_avg_fn: the same for lists, in place.
        use_buffers: whether buffers are averaged too, instead of copied.

    Raises:
        AssertionError: both functions are given.

    >>> import ftorch as torch
    >>> model = torch.nn.Linear(1, 1)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> averaged.update_parameters(model); averaged.n_averaged.item()
    1
    """

    def __init__(
        self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False
    ):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model) -> None:
        """Takes the model's present parameters into the average."""
        if self.use_buffers:
            pairs = zip(
                chain(self.module.parameters(), self.module.buffers()),
                chain(model.parameters(), model.buffers()), strict=False,
            )
        else:
            pairs = zip(self.parameters(), model.parameters(), strict=False)
        pairs = [(old.detach(), new.detach().to(old.device)) for old, new in pairs]
        if int(self.n_averaged) == 0:
            for old, new in pairs:
                old.copy_(new)
        elif self.avg_fn is not None:
            for old, new in pairs:
                old.copy_(self.avg_fn(old, new, self.n_averaged.to(old.device)))
        else:
            groups = {}
            for old, new in pairs:
                group = groups.setdefault((old.device, old.dtype), ([], []))
                group[0].append(old)
                group[1].append(new)
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for (device, _), (olds, news) in groups.items():
                update(olds, news, self.n_averaged.to(device))
        if not self.use_buffers:
            for old, new in zip(self.module.buffers(), model.buffers(), strict=True):
                old.detach().copy_(new.detach().to(old.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader, model, device=None) -> None:
    """Computes the running statistics of batch normalisations anew, from the data of ``loader``.

    Args:
        loader: batches, or lists and tuples whose first element is one.
        device: where the batches go.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = {norm: norm.momentum for norm in norms}
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for norm, momentum in momenta.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the current rate to ``swa_lr`` in some epochs, and stays there.

    Args:
        swa_lr: one rate, or one per group.
        anneal_epochs: how many epochs it takes.
        anneal_strategy: ``"cos"`` or ``"linear"``.

    Raises:
        ValueError: an unknown strategy or a negative number of epochs.
    """

    def __init__(
        self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1
    ):
        rates = per_group("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t):
        return t

    @staticmethod
    def _cosine_anneal(t):
        return (1 - math.cos(math.pi * t)) / 2

    def _set_anneal_func(self, anneal_strategy):
        self._anneal_strategy = anneal_strategy
        is_cosine = anneal_strategy == "cos"
        self.anneal_func = self._cosine_anneal if is_cosine else self._linear_anneal

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def get_lr(self):
        self._ftorch_warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (
            self.anneal_func(max(0, min(1, s / max(1, self.anneal_epochs))))
            for s in (step - 1, step)
        )
        rates = []
        for group in self.optimizer.param_groups:
            first = self._get_initial_lr(group["lr"], group["swa_lr"], before)
            rates.append(group["swa_lr"] * now + first * (1 - now))
        return rates

    def state_dict(self):
        """Everything but the optimizer."""
        state = super().state_dict()
        del state["anneal_func"]
        return state

    def load_state_dict(self, state_dict) -> None:
        """Takes over what `state_dict` gave."""
        self.__dict__.update(state_dict)
        self._set_anneal_func(self._anneal_strategy)
