"""TorchScript's functions say that they are deprecated, as PyTorch's do, and only those that a user calls."""

import io
import typing

import pytest

from tests.oracle import assert_says_same


def plus_one(x):
    return x + 1


def saved(t):
    buffer = io.BytesIO()
    t.jit.script(t.nn.Identity()).save_to_buffer()
    t.jit.save(module(t), buffer)
    return io.BytesIO(buffer.getvalue())


def module(t):
    return t.jit.trace(t.nn.Linear(2, 3).eval(), t.ones(1, 2), check_trace=False)


PROGRAMS = {
    "script": lambda t: t.jit.script(plus_one)(t.ones(1)),
    "script twice": lambda t: t.jit.script(t.jit.script(plus_one))(t.ones(1)),
    "script module": lambda t: t.jit.script(t.nn.Identity()).training,
    "trace": lambda t: t.jit.trace(plus_one, t.ones(1), check_trace=False)(t.ones(2)),
    "trace module": lambda t: module(t)(t.ones(1, 2)).shape,
    "save": lambda t: t.jit.save(t.jit.script(plus_one), io.BytesIO()),
    "load": lambda t: t.jit.load(saved(t))(t.ones(1, 2)).shape,
    "freeze": lambda t: len(list(t.jit.freeze(module(t)).parameters())),
    "fork": lambda t: t.jit.wait(t.jit.fork(plus_one, t.ones(1))),
    "fusion": lambda t: len(t.jit.set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 10)])) > 0,
    "ignored": lambda t: t.jit.ignore(plus_one) is not None,
    "in a trace": lambda t: t.jit.trace(t.jit.script_if_tracing(plus_one), t.ones(1), check_trace=False)(t.ones(2)),
    "list": lambda t: t.jit.isinstance([1], list),
    "dict": lambda t: t.jit.isinstance([1], dict),
    "Optional": lambda t: t.jit.isinstance([1], typing.Optional),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_said(name):
    assert_says_same(PROGRAMS[name])
