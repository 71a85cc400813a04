"""Optimizers' states by the parameters' names: what is missing, what stays, layouts with and without levels."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.oracle import both, both_with_text

OPTIMIZERS = {
    "sgd": lambda t, p: t.optim.SGD(p, 0.1),
    "momentum": lambda t, p: t.optim.SGD(p, 0.1, momentum=0.9),
    "adam": lambda t, p: t.optim.Adam(p, 0.1),
}


def made(t, name, grouped=False):
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 1))
    for p in model.parameters():
        t.nn.init.constant_(p, 0.5)
    parameters = model.parameters()
    if grouped:
        parameters = [{"params": model[0].parameters(), "lr": 0.3}, {"params": list(model[1].parameters())}]
    return model, OPTIMIZERS[name](t, parameters)


def step(t, model, optimizer, used=0):
    model[used:](t.ones(3, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def moved(t, name, used=0, frozen=False, loads_frozen=False, grouped=False, fresh=False, **options):
    """The states and rates of an optimizer that is given those of another one."""
    sd = import_module(f"{t.__name__}.distributed.checkpoint.state_dict")
    options = sd.StateDictOptions(**options)
    model, optimizer = made(t, name, grouped)
    model[0].weight.requires_grad_(not frozen)
    step(t, model, optimizer, used)
    given = sd.get_optimizer_state_dict(model, optimizer, options=options)
    again, other = made(t, name, grouped)
    if not fresh:
        step(t, again, other)
        step(t, again, other)
    again[1].bias.requires_grad_(not loads_frozen)
    sd.set_optimizer_state_dict(again, other, given, options=options)
    states = {i: v for i, v in other.state_dict()["state"].items() if v}
    return sorted(given), states, [(g["lr"], len(g["params"])) for g in other.param_groups]


@pytest.mark.parametrize("options", [
    {}, {"flatten_optimizer_state_dict": True}, {"full_state_dict": True}, {"strict": False, "used": 1},
    {"strict": False, "frozen": True}, {"loads_frozen": True}, {"grouped": True}, {"fresh": True},
    {"fresh": True, "grouped": True, "flatten_optimizer_state_dict": True}, {"full_state_dict": True, "loads_frozen": True},
], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_states_that_are_set(name, options):
    if name == "sgd" and options.get("full_state_dict"):
        pytest.skip("PyTorch asserts that there is a tensor")
    both(lambda t: moved(t, name, **options))


@pytest.mark.parametrize("options", [{"used": 1}, {"frozen": True}, {"used": 1, "grouped": True}], ids=str)
@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_states_that_are_missing(name, options):
    assert "Missing optimizer state" in both_with_text(lambda t: moved(t, name, **options))


def test_states_with_levels():
    """States may have dicts in them; in the flat layout names have points."""
    def program(t):
        sd = import_module(f"{t.__name__}.distributed.checkpoint.state_dict")
        options = sd.StateDictOptions(flatten_optimizer_state_dict=True)
        given = []
        for value in (1.0, 2.0):
            model, optimizer = made(t, "momentum")
            step(t, model, optimizer)
            for p in model.parameters():
                optimizer.state[p]["more"] = {"a": t.full((2,), value), "b": {"c": value}}
            given.append(sd.get_optimizer_state_dict(model, optimizer, options=options))
        sd.set_optimizer_state_dict(model, optimizer, given[0], options=options)
        return sorted(given[0]), optimizer.state[model[0].weight]["more"]

    both(program)


def of_rank0(t, d, rank):
    """State dicts that rank 0 alone has change nothing elsewhere; ones that are missing are said."""
    from tests.oracle import outcome

    sd = import_module(f"{t.__name__}.distributed.checkpoint.state_dict")
    model, optimizer = made(t, "momentum")
    options = sd.StateDictOptions(full_state_dict=True, cpu_offload=True)
    of_model = sd.get_model_state_dict(model, options=options)
    states = sd.get_optimizer_state_dict(model, optimizer, options=options)
    calls = [
        (sd.set_optimizer_state_dict, (model, optimizer, states)), (sd.set_model_state_dict, (model, of_model)),
        (sd.set_model_state_dict, (model, {})), (sd.set_optimizer_state_dict, (model, optimizer, {})),
        (lambda m, o, **named: sd.set_state_dict(
            m, o, model_state_dict={}, optim_state_dict=sd.get_optimizer_state_dict(m, o), **named), (model, optimizer)),
    ]
    found = []
    for function, given in calls:
        for named in ({}, {"options": options}, {"options": sd.StateDictOptions(strict=False)}):
            result, error = outcome(function, *given, **named)
            found.append((str(result), type(error).__name__, str(error)))
    step(t, model, optimizer)
    return found, optimizer.param_groups[0]["lr"], [p.detach() for p in model.parameters()]


def test_of_rank0(two):
    two.run(of_rank0)


def test_parts_of_models_and_states_of_optimizers():
    """Modules within, dicts of these, an optimizer's own state dict, and methods that give and take such dicts."""

    def program(t):
        sd = import_module(f"{t.__name__}.distributed.checkpoint.state_dict")
        model, optimizer = made(t, "adam")
        step(t, model, optimizer)
        with pytest.warns(FutureWarning) as said:
            found = [
                sorted(sd.get_model_state_dict(model, submodules={model[0]})),
                sorted(sd.get_model_state_dict(
                    model, submodules={model[0]}, options=sd.StateDictOptions(keep_submodule_prefixes=False))),
                sorted(sd.get_optimizer_state_dict(model, optimizer, submodules={model[0]})["state"]),
                str(sd.set_model_state_dict(
                    model, {model[1]: {"bias": t.zeros(1)}}, options=sd.StateDictOptions(strict=False))),
            ]
        found.append([str(w.message) for w in said])
        sd.set_optimizer_state_dict(model, optimizer, optimizer.state_dict())
        other, another = made(t, "adam")
        sd._patch_model_state_dict(other)
        sd._patch_optimizer_state_dict(other, optimizers=another)
        other.load_state_dict(model.state_dict())
        another.load_state_dict(sd.get_optimizer_state_dict(model, optimizer))
        states = another.state_dict()["state"]
        return found, [p.detach() for p in other.parameters()], sorted(states), states["0.weight"]["exp_avg"]

    both(program)
