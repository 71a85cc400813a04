"""Optimizers against PyTorch's: trajectories, states that can be exchanged, options, errors."""

import copy

import numpy as np
import pytest
import torch as reference

import ftorch as torch

CONFIGURATIONS = {
    "ASGD": [{}, {"t0": 3, "weight_decay": 0.1, "lambd": 0.1}],
    "Adadelta": [{}, {"weight_decay": 0.1, "rho": 0.8}],
    "Adafactor": [{}, {"weight_decay": 0.1, "d": 1.5}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}],
    "Adam": [{}, {"weight_decay": 0.1, "amsgrad": True}, {"maximize": True, "foreach": True}],
    "AdamW": [{"lr": 0.01}, {"amsgrad": True, "fused": True}],
    "Adamax": [{}, {"weight_decay": 0.1}],
    "LBFGS": [{}, {"line_search_fn": "strong_wolfe", "history_size": 3}],
    "Muon": [{}, {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}],
    "NAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RMSprop": [{}, {"momentum": 0.9, "centered": True, "weight_decay": 0.1}],
    "Rprop": [{}, {"etas": (0.4, 1.5)}],
    "SGD": [
        {"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True},
    ],
}
CASES = [(name, options) for name, many in CONFIGURATIONS.items() for options in many]
STEPS = 8


class Problem:
    """A few parameters and a loss, in one of the two libraries."""

    def __init__(self, package, name, options):
        self.package = package
        shapes = [(4, 3), (3, 2)] + ([(3,), ()] if name != "Muon" else [])
        rng = np.random.default_rng(0)
        draw = [rng.normal(size=(2, *shape)).astype(np.float32) for shape in shapes]
        self.parameters = [package.nn.Parameter(package.tensor(d[0])) for d in draw]
        self.targets = [package.tensor(d[1]) for d in draw]
        self.optimizer = getattr(package.optim, name)(self.parameters, **options)

    def loss(self):
        self.optimizer.zero_grad()
        pairs = zip(self.parameters, self.targets, strict=True)
        loss = sum(((p - t) ** 2).sum() for p, t in pairs)
        loss.backward()
        return loss

    def values(self):
        return [p.detach().numpy().copy() for p in self.parameters]


def _assert_close(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-6)


def _converted(package, value):
    if isinstance(value, reference.Tensor):
        return package.tensor(value.numpy())
    if isinstance(value, dict):
        return {k: _converted(package, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_converted(package, v) for v in value)
    return value


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_trajectory(name, options):
    expected, actual = (Problem(package, name, options) for package in (reference, torch))
    assert repr(actual.optimizer) == repr(expected.optimizer)
    for _ in range(STEPS):
        for problem in (expected, actual):
            problem.optimizer.step(problem.loss)
        _assert_close(actual.values(), expected.values())


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_continues_from_a_state_of_torch(name, options):
    expected, actual = (Problem(package, name, options) for package in (reference, torch))
    for _ in range(3):
        expected.optimizer.step(expected.loss)
    with torch.no_grad():
        for p, value in zip(actual.parameters, expected.values(), strict=True):
            p.copy_(torch.tensor(value))
    state = copy.deepcopy(expected.optimizer.state_dict())
    actual.optimizer.load_state_dict(_converted(torch, state))
    for problem in (expected, actual):
        problem.optimizer.step(problem.loss)
    _assert_close(actual.values(), expected.values())
    saved = (problem.optimizer.state_dict() for problem in (expected, actual))
    first, second = (
        {k: {n: getattr(v, "shape", None) for n, v in s.items()} for k, s in each["state"].items()}
        for each in saved
    )
    assert second == first


def test_a_new_rate_compiles_nothing():
    problem = Problem(torch, "Adam", {})
    problem.optimizer.step(problem.loss)
    from ftorch.eager.call import op

    plans = len(op._updates)
    for rate in (0.1, 0.2, 0.3):
        problem.optimizer.param_groups[0]["lr"] = rate
        problem.optimizer.step(problem.loss)
    assert len(op._updates) == plans


def test_rate_as_a_tensor():
    expected, actual = (
        Problem(package, "Adam", {"lr": package.tensor(0.05)}) for package in (reference, torch)
    )
    for _ in range(3):
        for problem in (expected, actual):
            problem.optimizer.step(problem.loss)
    _assert_close(actual.values(), expected.values())


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "NAdam"])
def test_differentiable(name):
    gradients = []
    for package in (reference, torch):
        p = package.tensor([1.0, 2.0], requires_grad=True)
        moved = p.clone()
        options = {"lr": 0.1, "differentiable": True}
        optimizer = getattr(package.optim, name)([moved], **options)
        moved.grad = (p * p).detach() + p * 0.5
        optimizer.step()
        moved.sum().backward()
        gradients.append(p.grad.numpy())
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-4)


def test_hooks():
    seen, problem = [], Problem(torch, "SGD", {})
    optimizer = problem.optimizer
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    problem.loss()
    optimizer.step()
    assert seen == ["before", "after"]
    assert optimizer.state_dict()["more"] == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -1}), ("SGD", {"nesterov": True}), ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"fused": True, "foreach": True}), ("Rprop", {"etas": (1.0, 0.5)}),
        ("Muon", {"adjust_lr_fn": "x"}), ("Adafactor", {"d": 0.0}), ("RMSprop", {"alpha": -1}),
    ],
    ids=str,
)
def test_errors(name, options):
    caught = []
    for package in (reference, torch):
        with pytest.raises((ValueError, RuntimeError)) as info:
            getattr(package.optim, name)([package.nn.Parameter(package.ones(2, 2))], **options)
        caught.append((info.type, str(info.value)))
    assert caught[1] == caught[0]


def test_group_errors():
    def errors(package):
        p = package.nn.Parameter(package.ones(1))
        sgd = package.optim.SGD
        for params in ([], p, [1], [{"params": {p}}], [p * 2], [{"params": [p]}, {"params": [p]}]):
            with pytest.raises((TypeError, ValueError)) as info:
                sgd(params, lr=0.1)
            yield info.type, str(info.value)

    assert list(errors(torch)) == list(errors(reference))


def test_line_search_of_other_optimizers():
    """Libraries with optimizers of their own (torchmin) call the line search by itself."""
    from importlib import import_module

    def told(t):
        module = import_module(f"{t.__name__}.optim.lbfgs")

        def objective(x, step, direction):
            y = (x + step * direction).detach().requires_grad_()
            loss = ((y - 2) ** 4).sum()
            loss.backward()
            return loss.item(), y.grad

        x = t.tensor([1.0, 8.0], dtype=t.float64)
        loss, gradient = objective(x, 0.0, t.zeros(2, dtype=t.float64))
        found = [module._strong_wolfe(objective, x, step, -gradient, loss, gradient, -gradient.dot(gradient), max_ls=most)
                 for step, most in ((1.0, 25), (1e-5, 25), (0.1, 3))]
        least = module._cubic_interpolate(0.0, 3.0, t.tensor(-1.0), 2.0, 2.5, t.tensor(0.5))
        return [(float(f), g.tolist(), float(step), count) for f, g, step, count in found], float(least)

    (mine, least), (theirs, their_least) = told(torch), told(reference)
    assert least == pytest.approx(their_least)
    for a, b in zip(mine, theirs):
        assert a[3] == b[3]
        assert [a[0], *a[1], a[2]] == pytest.approx([b[0], *b[1], b[2]], rel=1e-9)


@pytest.mark.parametrize("name, options", CASES, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_what_others_keep_in_the_state(name, options):
    """Wrappers (Lookahead, SAM) keep tensors and numbers of their own in an optimizer's states."""
    if name == "LBFGS":
        pytest.skip("one state for all parameters")

    def trained(t):
        parameters = [t.nn.Parameter(t.arange(6.0).reshape(2, 3) / 4 + i) for i in range(1 if name == "Muon" else 2)]
        optimizer = getattr(t.optim, name)(parameters, **options)
        for step in range(6):
            optimizer.zero_grad()
            sum((p ** 2).sum() for p in parameters).backward()
            optimizer.step()
            if step % 2:
                with t.no_grad():
                    for p in parameters:
                        state = optimizer.state[p]
                        slow = state.setdefault("slow", p.detach().clone())
                        slow.add_(p - slow, alpha=0.5)
                        p.copy_(slow)
                        state["count"] = state.get("count", 0) + 1
        return [p.tolist() for p in parameters], sorted(optimizer.state[parameters[0]]), optimizer.state[parameters[0]]["count"]

    mine, theirs = trained(torch), trained(reference)
    assert mine[1:] == theirs[1:]
    for ours, expected in zip(mine[0], theirs[0], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-6)
