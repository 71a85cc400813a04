"""Optimizers as functions of lists: parameters and states are PyTorch's after each step."""

import importlib

import pytest
import torch as reference

import ftorch

# (function, what the states begin with, hyperparameters)
_ADAM = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.01, "eps": 1e-6}
_CASES = {
    "sgd": ("sgd", ["none"], {"weight_decay": 0.01, "momentum": 0.9, "lr": 0.1, "dampening": 0.5, "nesterov": False,
                              "maximize": False}),
    "plain": ("sgd", ["none"], {"weight_decay": 0, "momentum": 0, "lr": 0.1, "dampening": 0, "nesterov": False,
                                "maximize": True}),
    "adam": ("adam", ["zeros", "zeros", "empty", "step"], {**_ADAM, "amsgrad": False, "maximize": False}),
    "amsgrad": ("adam", ["zeros", "zeros", "zeros", "step"], {**_ADAM, "amsgrad": True, "maximize": True}),
    "adamw": ("adamw", ["zeros", "zeros", "empty", "step"], {**_ADAM, "amsgrad": False, "maximize": False}),
    "adadelta": ("adadelta", ["zeros", "zeros", "step"], {"lr": 0.5, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1,
                                                         "maximize": False}),
    "adagrad": ("adagrad", ["zeros", "step"], {"lr": 0.5, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-6,
                                              "maximize": False}),
    "adamax": ("adamax", ["zeros", "zeros", "step"], _ADAM),
    "asgd": ("asgd", ["zeros", "ones", "etas", "step"], {"lambd": 0.01, "lr": 0.1, "t0": 1.0, "alpha": 0.75,
                                                         "weight_decay": 0.1}),
    "nadam": ("nadam", ["zeros", "zeros", "ones", "step"], {**_ADAM, "momentum_decay": 0.01}),
    "radam": ("radam", ["zeros", "zeros", "step"], _ADAM),
    "rmsprop": ("rmsprop", ["zeros", "zeros", "zeros", "step"], {
        "lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.5, "centered": True}),
    "rprop": ("rprop", ["zeros", "sizes", "step"], {
        "step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2}),
}


def _state(t, kind, params):
    if kind in ("none", "empty"):
        return [None] * len(params) if kind == "none" else []
    if kind in ("step", "ones", "etas"):
        fill = {"step": 0.0, "ones": 1.0, "etas": 0.1}[kind]
        return [t.tensor(fill) for _ in params]
    return [t.full_like(p, 0.01 if kind == "sizes" else 0.0) for p in params]


@pytest.mark.parametrize("case", _CASES)
def test_steps(case):
    name, kinds, numbers = _CASES[case]
    results = []
    for t in (reference, ftorch):
        function = getattr(importlib.import_module(f"{t.__name__}.optim.{name}"), name)
        assert function is getattr(importlib.import_module(f"{t.__name__}.optim._functional"), name)
        params = [t.linspace(-1, 1, 6).reshape(2, 3), t.ones(4)]
        states = [_state(t, kind, params) for kind in kinds]
        for i in range(3):
            function(params, [(p * (i + 1)).cos() for p in params], *states, **numbers)
        results.append([x.reshape(-1).tolist() if isinstance(x, t.Tensor) else x for x in [*params, *sum(states, [])]])
    for expected, found in zip(*results, strict=True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-7) if expected is not None else found is None


def test_counts_are_tensors():
    for t in (reference, ftorch):
        adam = importlib.import_module(f"{t.__name__}.optim.adam").adam
        with pytest.raises(RuntimeError, match="API has changed, `state_steps`"):
            adam([t.ones(1)], [t.ones(1)], [t.zeros(1)], [t.zeros(1)], [], [1], **_ADAM, amsgrad=False, maximize=False)
