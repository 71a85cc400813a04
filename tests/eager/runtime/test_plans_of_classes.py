"""Plans of size classes are what their kernels' traces at the same sizes are: step by step, number by number."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import random
import sys

import jax
import pytest

import ftorch as torch
from ftorch.eager.call import kernel_functions, planning
from ftorch.eager.core.jax_scope import scope
from ftorch.eager.runtime import size_classes

_FILE = pathlib.Path(__file__).parents[3] / "benchmarks" / "new_sizes.py"
_STEPS = 12
_LONG = {"packed_gru", "policy", "suppression_of_boxes", "encoder_decoder"}  # many calls of what others have, too


@functools.cache
def _programs():
    spec = importlib.util.spec_from_file_location("new_sizes", _FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["new_sizes"] = module
    spec.loader.exec_module(module)
    return module.CASES


def _is_right(plan):
    """Whether a plan of a class does what its kernel does at its sizes, traced with inner calls written out or not."""
    one = plan.instance.of
    structs = [jax.ShapeDtypeStruct(g.shape, g.dtype.numpy) for g in plan.inputs]
    for inline in (getattr(one, "inline", False), False, True):
        with jax.disable_jit(inline):
            closed, _ = size_classes.traced(
                plan.raw, structs, plan.scalars, kernel_functions.weak, kernel_functions.SCALAR_STRUCTS
            )
        if one.program.is_at(closed, plan.instance.sizes):
            return True
    return False


@pytest.mark.parametrize("name", sorted({*_programs()} - _LONG))
def test_plans_are_their_kernels_traces(name, monkeypatch):
    build, wrong, seen, busy = planning.build, [], [], []

    def checked(op, operands, static, by_class=True, at=None):
        plan = build(op, operands, static, by_class, at)
        if by_class and not busy and plan.instance is not None and getattr(plan.instance.of, "program", None) is not None:
            busy.append(1)
            seen.append(op.name)
            with scope():
                is_right = _is_right(plan)
            if not is_right:
                wrong.append((op.name, [tuple(g.shape) for g in plan.inputs], static))
            busy.clear()
        return plan

    monkeypatch.setattr(planning, "build", checked)
    step, sizes = _programs()[name](torch), random.Random(2)
    for turn in range(_STEPS):
        torch.manual_seed(turn)
        step(sizes)
    assert seen
    assert not wrong
