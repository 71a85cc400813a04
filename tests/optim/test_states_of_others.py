"""States of another optimizer, and damaged ones: what is taken and which error says what is missing."""

import pytest

from tests.oracle import LIBRARIES

NAMES = [
    "SGD", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "NAdam", "RAdam", "ASGD", "LBFGS",
    "Adafactor", "Muon",
]
DAMAGES = {
    "no groups": lambda s: s.pop("param_groups"), "fewer": lambda s: s["param_groups"][0]["params"].pop(),
    "no state": lambda s: s["state"].clear(), "mean": lambda s: s["state"][0].pop("exp_avg"),
    "step": lambda s: s["state"][0].pop("step"), "number": lambda s: s["state"][0].__setitem__("step", 3),
    "rate": lambda s: s["param_groups"][0].pop("lr"), "pair": lambda s: s["param_groups"][0].__setitem__("betas", (0.5,)),
    "single": lambda s: s["param_groups"][0].__setitem__("betas", 0.5), "unknown": lambda s: s["state"].__setitem__(99, {}),
}


def _made(t, name):
    parameters = [t.nn.Parameter(t.ones(2, 2)) for _ in range(2)]
    return getattr(t.optim, name)(parameters, lr=0.1), parameters


def _step(t, optimizer, parameters):
    for p in parameters:
        p.grad = t.ones(2, 2)
    optimizer.step(lambda: sum((p**2).sum() for p in parameters))


def _tried(action):
    try:
        return action()
    except Exception as error:  # noqa: BLE001
        return type(error).__name__, str(error)


@pytest.mark.parametrize("taken", NAMES)
@pytest.mark.parametrize("given", NAMES)
def test_states_of_another_optimizer(given, taken):
    def program(t):
        source, parameters = _made(t, given)
        _step(t, source, parameters)
        target, parameters = _made(t, taken)

        def action():
            target.load_state_dict(source.state_dict())
            _step(t, target, parameters)
            return [round(x, 4) for x in parameters[0].flatten().tolist()]

        return _tried(action)

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_states(damage):
    def program(t):
        optimizer, parameters = _made(t, "Adam")
        _step(t, optimizer, parameters)

        def action():
            state = optimizer.state_dict()
            DAMAGES[damage](state)
            optimizer.load_state_dict(state)
            _step(t, optimizer, parameters)
            return [round(x, 4) for x in parameters[0].flatten().tolist()]

        return _tried(action)

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
