"""Rules for calls, loops and branches (`ftorch.eager.dynamic_shapes.padded`)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core.jax_internals import scan_counts
from ..core.jaxprs import CALLS, meaning
from ..native import computed_once
from .padded import Unknown, Value, varies
from .padded_rules import rule


@rule(*CALLS)
def _call(p, pair, given):
    one, other = (params[CALLS[pair.name]] for params in (pair.one.params, pair.other.params))
    name = str(pair.params.get("name", ""))
    if name != computed_once.__name__:
        return _within(p, one, other, given)
    given = [p.settled(v) for v in given]
    found: list[Any] = []

    def function(*arrays):
        results = _within(p, one, other, [Value(a, v.dims) for a, v in zip(arrays, given)])
        found[:] = [v.dims for v in results]
        return [v.array for v in results]

    function.__name__ = name
    arrays = jax.jit(function)(*[v.array for v in given])
    return [Value(a, dims) for a, dims in zip(arrays, found)]


@rule("ftorch_lstm", "ftorch_lstm_gradient")
def _lstm(p, pair, given):
    """Of more sequences: those behind the true ones are some of their own. Of more times: the loop step by step."""
    given = [p.settled(v) for v in given]
    gates, first = given[0], given[2]
    if varies(gates.dims[0]):
        return _within(p, meaning(pair.one), meaning(pair.other), given)
    results = pair.bind(*[v.array for v in given])
    if pair.name == "ftorch_lstm":
        states = (*gates.dims[:2], first.dims[1])
        dims = [gates.dims, states, states]
    else:
        dims = [gates.dims, first.dims, first.dims]
    return [Value(r, d) for r, d in zip(results, dims, strict=True)]


def _within(p, one, other, given):
    consts = getattr(one, "consts", ())
    return p.run(getattr(one, "jaxpr", one), getattr(other, "jaxpr", other), consts, given)


def _body(p, one, other, dims, found):
    """A function of arrays that have the given dimensions; notes those of its results."""

    def function(*arrays):
        given = [Value(a, d) for a, d in zip(arrays, dims, strict=True)]
        results = [p.settled(v) for v in _within(p, one, other, given)]
        found[:] = [v.dims for v in results]
        return [v.array for v in results]

    return function


def _keeps(found, dims):
    if list(found) != list(dims):
        raise Unknown("a loop whose state changes its size")


@rule("scan")
def _scan(p, pair, given):
    consts, carry = scan_counts(pair.one.params)
    if (consts, carry) != scan_counts(pair.other.params):
        raise Unknown("a scan of another state")
    one, other = pair.both("jaxpr")
    steps = p.factors(pair.both("length"))
    given = [
        p.settled(v) if i < consts + carry else
        p.settled(p.spread(p.plain(v, [0]), (steps, *v.dims[1:]))) for i, v in enumerate(given)
    ]
    dims = [v.dims if i < consts + carry else v.dims[1:] for i, v in enumerate(given)]
    arrays = [v.array for v in given]
    found: list[Any] = []
    body = _body(p, one, other, dims, found)

    def step(state, xs):
        true, *xs = xs
        results = body(*arrays[:consts], *state, *xs)
        after = results[:carry]
        if varies(steps):  # a step behind the last changes nothing
            after = [jnp.where(true, a, b) for a, b in zip(after, state)]
        return after, results[carry:]

    state, ys = lax.scan(
        step, arrays[consts : consts + carry], [p.inside(steps), *arrays[consts + carry :]],
        length=p.padded(steps), reverse=pair.unchanging("reverse"), unroll=pair.unchanging("unroll"),
    )
    _keeps(found[:carry], dims[consts : consts + carry])
    rows = [Value(a, d) for a, d in zip(state, found)]
    return rows + [Value(a, (steps, *d)) for a, d in zip(ys, found[carry:])]


@rule("while")
def _while(p, pair, given):
    of_cond, of_body = pair.unchanging("cond_nconsts"), pair.unchanging("body_nconsts")
    given = [p.settled(v) for v in given]
    arrays, dims = [v.array for v in given], [v.dims for v in given]
    first = of_cond + of_body
    found: list[Any] = []
    asks = _body(p, *pair.both("cond_jaxpr"), dims[:of_cond] + dims[first:], [])
    body = _body(p, *pair.both("body_jaxpr"), dims[of_cond:], found)
    state = lax.while_loop(
        lambda s: asks(*arrays[:of_cond], *s)[0],
        lambda s: body(*arrays[of_cond:first], *s), arrays[first:],
    )
    _keeps(found, dims[first:])
    return [Value(a, d) for a, d in zip(state, dims[first:])]


@rule("cond")
def _cond(p, pair, given):
    which, *given = [p.settled(v) for v in given]
    dims = [v.dims for v in given]
    found: list[list] = []
    functions = []
    for one, other in zip(*pair.both("branches"), strict=True):
        found.append([])
        functions.append(_body(p, one, other, dims, found[-1]))
    arrays = lax.switch(which.array, functions, *[v.array for v in given])
    for own in found[1:]:
        _keeps(own, found[0])
    return [Value(a, d) for a, d in zip(arrays, found[0])]
