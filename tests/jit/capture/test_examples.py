"""The training steps of examples/, compiled: what PyTorch's eager steps are, and one program each."""

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch.eager.runtime.executor import stats

from ...examples.test_recipes import common

STEPS = 4
# Small, because compiling takes the time here; the whole recipes are compared in tests/examples.
SIZES = {
    "mlp": {"width": 16, "batch": 8}, "cnn": {"width": 2, "batch": 4},
    "resnet": {"width": 2, "batch": 4}, "lstm": {"width": 8, "batch": 2, "length": 4},
    "gpt": {"width": 8, "heads": 2, "depth": 1, "context": 8, "batch": 2},
    "vit": {"width": 8, "heads": 2, "depth": 1, "batch": 4}, "vae": {"width": 16, "batch": 8},
    "gan": {"width": 8, "batch": 8}, "dqn": {"width": 8, "carts": 2, "batch": 8},
    "graph": {"nodes": 30, "width": 4},
}
# Why a step runs in Python, where the deferred executor fuses it.
IN_PYTHON = {
    "lstm": "position is changed by each call",  # a number that no program can keep
    "dqn": "poles.random is of Generator, a class whose state cannot be watched",  # of NumPy
}


def build(recipe, library):
    library.manual_seed(0)
    return common.load(recipe, library.__name__).trainer(**SIZES[recipe])[0]


def held(step, library):
    """The tensors that a step can reach: parameters, buffers, optimizers' state, memories."""
    found, seen, queue = [], set(), [step]
    while queue:
        value = queue.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, library.Tensor):
            found.append(value)
        elif isinstance(value, library.nn.Module):
            queue += value.state_dict(keep_vars=True).values()
        elif isinstance(value, library.optim.Optimizer):
            queue += [t for entry in value.state.values() for _, t in sorted(entry.items())]
        elif isinstance(value, (tuple, list)):
            queue += value
        elif hasattr(value, "columns"):
            queue += value.columns
        else:
            queue += [c.cell_contents for c in getattr(value, "__closure__", None) or ()]
    return found


@pytest.fixture
def double():
    # Adam makes a step of what is left of a gradient that ought to be zero.
    for library in (torch, reference):
        library.set_default_dtype(library.float64)
    yield
    for library in (torch, reference):
        library.set_default_dtype(library.float32)


@pytest.mark.parametrize("recipe", common.RECIPES)
def test_a_compiled_step_is_the_eager_step(recipe, request):
    if recipe != "dqn":  # whose carts are float32
        request.getfixturevalue("double")
    step = build(recipe, reference)
    expected = [step().item() for _ in range(STEPS)]

    other = build(recipe, torch)
    compiled = torch.compile(other)
    found, counts = [], []
    for _ in range(STEPS):
        stats.reset()
        found.append(compiled().item())
        counts.append((stats.compilations, stats.programs))

    tolerance = 1e-5 if recipe == "dqn" else 1e-9
    np.testing.assert_allclose(found, expected, tolerance)
    ours, theirs = held(other, torch), held(step, reference)
    assert len(ours) == len(theirs) > 4
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), tolerance, tolerance)
        assert (a.grad is None) == (b.grad is None)

    assert [e.reason for e in compiled.events] == [IN_PYTHON.get(recipe)]
    assert len(compiled.programs) == (recipe not in IN_PYTHON)
    if recipe not in IN_PYTHON:
        assert counts[1:] == [(0, 1)] * (STEPS - 1), "a steady loop compiles once"
    elif recipe == "lstm":
        # One program in each step, or none while its size class waits for one: that depends on whether other sizes came before.
        assert counts[-1][1] <= 1 and sum(compiled for compiled, _ in counts[2:]) <= 1
