"""Schedulers against PyTorch's, and resuming from a saved state."""

import warnings

import pytest
import torch as reference

import ftorch as torch

CASES = {
    "ConstantLR": {}, "CosineAnnealingLR": {"T_max": 7, "eta_min": 0.001},
    "CosineAnnealingWarmRestarts": {"T_0": 4, "T_mult": 2},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4, "mode": "exp_range",
                 "gamma": 0.9},
    "ExponentialLR": {"gamma": 0.9}, "LambdaLR": {"lr_lambda": lambda e: 0.95**e},
    "LinearLR": {"start_factor": 0.1, "end_factor": 0.7, "total_iters": 12},
    "MultiStepLR": {"milestones": [3, 3, 9], "gamma": 0.3},
    "MultiplicativeLR": {"lr_lambda": lambda e: 0.95},
    "OneCycleLR": {"max_lr": 0.5, "total_steps": 40, "three_phase": True},
    "PolynomialLR": {"total_iters": 15, "power": 2.0}, "StepLR": {"step_size": 3},
}


def _optimizer(package):
    groups = [{"params": [package.nn.Parameter(package.ones(1))]} for _ in range(2)]
    groups[1]["lr"] = 0.02
    return package.optim.SGD(groups, lr=0.1, momentum=0.9)


def _rates(scheduler, steps):
    scheduler.optimizer.step()
    for _ in range(steps):
        scheduler.step()
        yield [(g["lr"], g["momentum"]) for g in scheduler.optimizer.param_groups]


def _make(package, name):
    return getattr(package.optim.lr_scheduler, name)(_optimizer(package), **CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_rates(name):
    expected, actual = (list(_rates(_make(package, name), 30)) for package in (reference, torch))
    assert actual == expected


@pytest.mark.parametrize("name", CASES)
def test_resume(name):
    whole = _make(torch, name)
    list(_rates(whole, 5))
    resumed = _make(torch, name)
    resumed.load_state_dict(whole.state_dict())
    resumed.optimizer.load_state_dict(whole.optimizer.state_dict())
    assert list(_rates(resumed, 5)) == list(_rates(whole, 5))


def test_the_order_of_steps():
    scheduler = _make(torch, "StepLR")
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


def test_plateau():
    losses = [1.0, 0.9, 0.91, 0.92, 0.93, 0.5, 0.6, 0.6, 0.6]

    def rates(package):
        scheduler = package.optim.lr_scheduler.ReduceLROnPlateau(
            _optimizer(package), patience=1, cooldown=1, factor=0.5
        )
        for loss in losses:
            scheduler.step(loss)
            yield scheduler.get_last_lr()

    assert list(rates(torch)) == list(rates(reference))


def test_swa():
    def values(package):
        optimizer = _optimizer(package)
        scheduler = package.optim.swa_utils.SWALR(optimizer, 0.05, anneal_epochs=5)
        model = package.nn.Linear(1, 1)
        averaged = package.optim.swa_utils.AveragedModel(model)
        optimizer.step()
        for value in range(4):
            with package.no_grad():
                model.weight.fill_(float(value))
            averaged.update_parameters(model)
            scheduler.step()
            yield from (averaged.module.weight.item(), *scheduler.get_last_lr())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(values(torch)) == pytest.approx(list(values(reference)))
