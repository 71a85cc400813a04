"""Which of the ways in which a call's tensors may lie is taken: the one to which they are moved most cheaply.

A rule (`_rules`) answers for given placements. `listed` asks it for each placement that an input may have, which gives the
choices of one dimension of the mesh; `cheapest` looks at all combinations over the mesh. What moves nothing comes first,
then what takes the least time, by bytes and steps of each collective (a part of a whole takes none).
"""

from __future__ import annotations

import itertools
import math

from ._rules import Decision, Input, R
from .placement_types import Partial, Shard, divides

# Of a network between hosts: seconds for each GiB, microseconds for a collective and for each step of one.
_RATE, _START, _STEP = 1 / (87.7 * 0.22), 6.6, 2.7
_GIB = 2**30
_MOST = 4096  # combinations that are looked at


def _time(size, count, rounds=1):
    """Microseconds of a collective that gives everybody an array of some bytes."""
    hops = rounds * (count - 1)
    return _START + hops * _STEP + size / _GIB * hops / count * _RATE * 1e6


def placement_cost(now, to, mesh_shape, size: int) -> float:
    """What it costs to move a tensor of ``size`` bytes between placements; infinitely much where no collective does it."""
    if all(p.is_replicate() for p in now) or now == to:
        return 0.0
    size_now = size / math.prod(n for n, p in zip(mesh_shape, now) if divides(p))
    cost = 0.0
    for m, (count, a, b) in enumerate(zip(mesh_shape, now, to)):
        if a == b:
            continue
        dims = [p.dim for p in (a, b) if divides(p)]
        for again, p, kept in zip(mesh_shape[m + 1 :], now[m + 1 :], to[m + 1 :]):
            if p == kept and divides(p) and p.dim in dims:  # what divides these further is undone before
                cost += _time(size_now * again, again)
        if divides(a) and b.is_replicate():
            size_now *= count
            cost += _time(size_now, count)
        elif divides(a) and divides(b):
            cost += _time(size_now, count) + 1.0
        elif a.is_partial() and b.is_replicate():
            cost += _time(size_now, count, 2)
        elif a.is_partial() and divides(b):
            cost += _time(size_now, count)
            size_now /= count
        elif a.is_replicate() and divides(b):
            size_now /= count
        elif not a.is_replicate():
            return math.inf
    return cost


def listed(rule, name, inputs, args, kwargs, count, divided) -> list[Decision]:
    """The choices of a rule for one dimension of a mesh, over ``count`` processes.

    Args:
        inputs: the tensors with their placements.
        divided: whether they may be divided: where nothing is on any dimension, as in PyTorch nothing becomes so.
    """
    kinds = list(dict.fromkeys(i.placement for i in inputs if i.placement.is_partial()))
    asked = [[R] * len(inputs)]
    shards = [[Shard(d) for d in range(len(i.shape)) if divided and i.shape[d] >= count] for i in inputs]
    for at, placement in [*((at, p) for at, own in enumerate(shards) for p in own),
                          *((at, p) for at in range(len(inputs)) for p in kinds)]:
        asked.append([placement if k == at else R for k in range(len(inputs))])
    asked += [*([kind] * len(inputs) for kind in kinds), [i.placement for i in inputs]]
    found: dict = {}
    for placements in asked:
        supposed = [
            i if p is i.placement or p == i.placement else Input(
                i.shape, p, derived=i.derived, even=not divides(p) or i.shape[p.dim] % count == 0)
            for i, p in zip(inputs, placements)
        ]
        decision = rule(name, supposed, args, kwargs)
        if decision is None or len(decision.inputs) > len(inputs):
            decision = Decision([R] * len(inputs), R)
        decision.inputs = [*decision.inputs, *[R] * (len(inputs) - len(decision.inputs))]
        found.setdefault((*decision.inputs, decision.output), decision)
    return list(found.values())


def _is_possible(placements, now, shape, mesh_shape):
    """Whether each process gets some of each dimension, and terms are of one kind."""
    if placements == now:
        return True
    counts: dict = {}
    for p, n in zip(placements, mesh_shape):
        if divides(p):
            counts[p.dim] = counts.get(p.dim, 1) * n
            if shape[p.dim] < counts[p.dim] * getattr(p, "split_factor", 1):
                return False
    return _is_one_kind(placements)


def _is_one_kind(placements):
    kinds = {p for p in placements if p.is_partial()}
    return len(kinds) < 2 or kinds <= {Partial("sum"), Partial("avg")}


def cheapest(choices, tensors, mesh_shape) -> list[Decision]:
    """One of the choices for each dimension of a mesh.

    Args:
        choices: for each dimension its `Decision`s.
        tensors: (placements, shape, bytes) of each input.
    """
    if math.prod(map(len, choices)) > _MOST:  # by the first answers of the rules alone
        choices = [[found[0], found[-1]] for found in choices]
    best: tuple = (math.inf, None)
    for combined in itertools.product(*choices):
        if not _is_one_kind([d.output for d in combined if not isinstance(d.output, list)]):
            continue
        cost, moves = 0.0, False
        for i, (now, shape, size) in enumerate(tensors):
            to = tuple(d.inputs[i] for d in combined)
            if not _is_possible(to, now, shape, mesh_shape):
                cost = math.inf
                break
            moves = moves or to != now
            cost += placement_cost(now, to, mesh_shape, size)
        if not moves and cost == 0:
            return list(combined)
        if cost < best[0]:
            best = cost, combined
    return list(best[1]) if best[1] is not None else [
        Decision([R] * len(tensors), R) for _ in mesh_shape
    ]
