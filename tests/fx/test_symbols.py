"""Symbolic numbers: what they print and compute, as PyTorch's do inside ``make_fx``."""

import math
import re

import pytest
import torch as pt
from torch.fx.experimental.proxy_tensor import make_fx

import ftorch as ft
from ftorch.fx.experimental.symbolic_shapes import ShapeEnv, free_symbols, guard_int

from .both import module

OPERATIONS = {
    "half": lambda torch, s: s / 2,
    "reciprocal": lambda torch, s: 2 / s,
    "square": lambda torch, s: s**2,
    "negative": lambda torch, s: -s,
    "rounds down": lambda torch, s: s // 3,
    "remainder": lambda torch, s: s % 3,
    "rounds": lambda torch, s: round(s / 3),
    "floor": lambda torch, s: math.floor(s / 3),
    "ceil": lambda torch, s: math.ceil(s / 3),
    "float": lambda torch, s: torch.sym_float(s),
    "int": lambda torch, s: torch.sym_int(s / 2),
    "either": lambda torch, s: torch.sym_ite(s == 4, s, s + 1),
    "equal": lambda torch, s: s == 4,
    "both": lambda torch, s: (s == 4) & (s < 7),
    "less": lambda torch, s: s < 7,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_symbols_as_pytorchs(name):
    operation, theirs = OPERATIONS[name], []

    def record(x):
        result = operation(pt, x.shape[0])
        theirs.append((str(result), type(result).__name__, result.node.hint))
        return x

    make_fx(record, tracing_mode="symbolic")(pt.ones(5))
    mine = operation(ft, ShapeEnv().create_symint(5))
    text, kind, hint = theirs[0]
    assert (str(mine), type(mine).__name__) == (re.sub(r"s\d+", "s0", text), kind)
    assert mine.hint == mine.node.hint == hint
    assert isinstance(mine, (ft.SymInt, ft.SymFloat, ft.SymBool))


def test_guards_are_written_down_where_a_condition_decides():
    env = ShapeEnv()
    size = env.create_symint(5)
    conditions = size == 5, ft.sym_not(size > 9), (size > 2) | (size == 1), ft.sym_max(size, 3) == 5
    assert not env.guards
    assert all(conditions) and len(env.guards) == 4
    assert env.holds({"s0": 5}) and not env.holds({"s0": 10})
    assert guard_int(size) == 5 and type(guard_int(size)) is int
    assert free_symbols(size * 2) == {"s0"} == free_symbols([1, size / 2])
    assert env.evaluate(ft.sym_sum([size, size, 1]), {"s0": 7}) == 15


@pytest.mark.parametrize("call", [
    lambda torch: torch.sym_max(1, 2.0), lambda torch: torch.sym_max(2, 1.0),
    lambda torch: torch.sym_int(-2.7), lambda torch: torch.sym_not(True),
    lambda torch: torch.sym_ite(True, 1, 2), lambda torch: torch.sym_sum((1, 2)),
    lambda torch: torch.sym_ite(1, 2, 3), lambda torch: torch.sym_ite(True, 2, 3.0),
])
def test_functions_of_plain_numbers(call):
    results = []
    for torch in (pt, ft):
        try:
            results.append(repr(call(torch)))
        except Exception as error:
            results.append((type(error), str(error)))
    assert results[0] == results[1]


def test_conditions_of_several_sizes():
    theirs, mine = (
        [m.sym_and(True, False), m.sym_or(True, False), m.sym_eq((1, 2), (1, 2)), m.sym_eq([1], [2]),
         m.statically_known_false(1 > 2), m.has_free_unbacked_symbols(3)]
        for m in (module(pt, "fx.experimental.symbolic_shapes"), module(ft, "fx.experimental.symbolic_shapes"))
    )
    assert mine == theirs


@pytest.mark.parametrize("call", [
    lambda x: x.view(x.shape[0] * 2, -1), lambda x: x.reshape(x.shape[0] // 2, -1), lambda x: x.view(-1, x.shape[0] // 2)])
def test_sizes_that_must_be_multiples_can_be_traced(call):
    """PyTorch keeps a guard for them; only programs for export ask for a specification."""
    def code(trace, library):
        traced = trace(call, tracing_mode="symbolic")(library.ones(4, 6))
        assert traced(library.ones(8, 6)).shape == call(library.ones(8, 6)).shape
        return re.sub(r"_size_int_\d+", "_size_int", traced.code)

    assert code(module(ft, "fx.experimental.proxy_tensor").make_fx, ft) == code(make_fx, pt)
