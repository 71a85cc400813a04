"""A fixed part of each family's programs; ``python -m tests.differential`` runs any other."""

from __future__ import annotations

import random

import pytest
import torch as reference

from .families import FAMILIES
from .mended import MENDED
from .observing import compare

# Whether a result is called a view, and how often a gradient was written to, are not looked at here;
# nor warnings, of which PyTorch gives many once per process only.
OVERLOOKED = {"is_view", "version", "warning"}
COUNT = 8
MORE = {"python_state": 60, "changed_state": 30, "training": 10, "sizes": 6, "graph_state": 40,
        "modules": 20, "schedules": 24, "streams": 50, "data": 60,
        "distribution_state": 24}  # quick ones
CHOSEN = ["conversions", "numpy", "special", "printing", "modes", "captured", "forward", "strided", "quantized",
          "quantized_dynamic", "python_state",
          "changed_state", "training", "sizes", "inference", "generation", "graph_state", "modules",
          "schedules", "streams", "data", "distribution_state", "exports"]
REFUSED = {"inference", "exports"}  # of whose programs PyTorch does not trace or export all that run


@pytest.fixture(autouse=True)
def _validated(monkeypatch):
    """PyTorch's compiler switches the checks of distributions off for the whole process."""
    monkeypatch.setattr(reference.distributions.Distribution, "_validate_args", True)


def differences(program, seed=0):
    """The differences that count, as text."""
    return [f"[{kind}] {text}" for kind, text in compare(program, seed=seed) if kind not in OVERLOOKED]


@pytest.mark.parametrize("family", CHOSEN)
def test_random_programs_agree(family):
    for seed in range(MORE.get(family, COUNT)):
        program = FAMILIES[family](random.Random(seed))
        found = [d for d in differences(program, seed) if family not in REFUSED or not d.startswith("[accepted]")]
        assert not found, f"seed {seed}:\n{program}"


@pytest.mark.parametrize("number", range(len(MENDED)))
def test_what_was_mended_stays(number):
    found = differences(MENDED[number])
    assert not found, "\n".join(found)
