"""What the user's code decides by sizes, put into symbols and guards."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from typing import Any

from ..fx.experimental.symbolic_shapes import Expr, Guard
from ._size_comparisons import (
    Shown,
    bounds,
    equals,
    guard_code,
    normal,
    order,
    range_line,
)
from ._size_expressions import fit, fit_floor
from ._symbols import Symbol, at, base, holds, own, points
from .dynamic_shapes import constant_line, violation

_ROUNDS = 8
_SCANNED = 2048  # sizes at which a comparison is tried that has no simple form


def settled(trace, leaves, symbols, names):
    """(symbols, guards) after what the example's run decides.

    Args:
        trace: from inputs and `Shown` to traces.
        names: of the inputs in traces.

    Raises:
        UserError: a symbol with a name cannot be what its specification says.
    """
    guards: list[Guard] = []
    sizes = _of_inputs(leaves, symbols, names)
    is_last = False  # whether nothing more is to be known of the sizes
    for _ in range(_ROUNDS):
        shown = Shown(sizes, notes_all=is_last)
        with contextlib.suppress(Exception):  # the program's own errors show without sizes' symbols
            at(trace, leaves, symbols, base(symbols, guards), shown)
        symbols, found = _applied(symbols, guards, shown.env.guards)
        changed = found != guards
        guards = found
        if not shown.asked or not symbols or is_last:
            break
        more = _of_nodes(trace, leaves, symbols, guards)
        if more is None:  # it does not take all of these sizes
            symbols = inferred(trace, leaves, symbols, guards)
            guards = fixed(guards, symbols)
            more = _of_nodes(trace, leaves, symbols, guards) or {}
            changed = True
        is_last = len(more) <= len(sizes) and not changed
        sizes = {**more, **_of_inputs(leaves, symbols, names)}
    return symbols, guards


def _of_inputs(leaves, symbols, names):
    """The sizes of the inputs, by their names."""
    sizes = {
        name: list(leaf.shape) for name, leaf in zip(names, leaves) if hasattr(leaf, "shape")
    }
    for s in symbols:
        for i, d, factor, offset in s.uses:
            sizes[names[i]][d] = Expr.symbol(s.name) * factor + offset
    return sizes


def _of_nodes(trace, leaves, symbols, guards):
    """The sizes of what is computed, as far as runs at several points do the same; None if only the example's runs."""
    tried = [base(symbols, guards), *points(symbols, guards, 2 + len(symbols), False)]
    rows, kept = [], []
    for point in tried:
        with contextlib.suppress(Exception):
            rows.append(list(at(trace, leaves, symbols, point).seen.items()))
            kept.append(point)
    if len(kept) < 2:
        return None
    values = {s.name: [p[k] for p in kept] for k, s in enumerate(symbols)}
    sizes: dict[str, list] = {}
    for row in zip(*rows):
        if len({(name, *call) for name, (*call, _) in row}) != 1:
            break
        shapes = [shape for _, (*_, shape) in row]
        found = [_size(numbers, values) for numbers in zip(*shapes)]
        if None not in found and len(set(map(len, shapes))) == 1:
            sizes[row[0][0]] = found
    return sizes


def _size(numbers, values):
    numbers = [int(n) for n in numbers]
    if len(set(numbers)) == 1:
        return numbers[0]
    return fit(numbers, values) or fit_floor(numbers, values)


# --- comparisons ----------------------------------------------------------------------


def _applied(symbols, guards, noted):
    """(symbols, guards) with more comparisons."""
    kept, wrong = list(guards), []
    symbols = [dataclasses.replace(s, uses=list(s.uses)) for s in symbols]
    became: dict[str, Expr] = {}  # what a comparison above joined or fixed
    for guard in noted:
        (guard,) = fixed([_replaced(guard, became)], symbols) or (None,)
        if guard is None or guard in kept or guard.left == guard.right:
            continue
        by_name = {s.name: s for s in symbols}
        pair = equals(guard)
        if pair is not None:
            symbols, kept, gone = _joined(symbols, kept, *(by_name[n] for n in pair))
            became = {**{k: e.replaced(gone) for k, e in became.items()}, **gone}
            continue
        found = bounds(guard) or _scanned(guard, by_name)
        if found is None:
            followed = [r for r in order(guard, by_name) if _narrow(*r, wrong)]
            if not _is_implied(guard, by_name) and not (followed and wrong):
                _keep(guard, by_name, kept)
            continue
        symbol, low, high = by_name[found[0]], found[1], found[2]
        if low == high:
            if not symbol.is_auto:
                fix = [] if symbol.is_hint else [f"{symbol.label} = {symbol.hint}"]
                raise violation([symbol.label], [constant_line(symbol.label, symbol.hint)], fix)
            symbols = [s for s in symbols if s is not symbol]
            gone = {symbol.name: Expr.of(low)}
            became = {**{k: e.replaced(gone) for k, e in became.items()}, **gone}
            kept = fixed([_replaced(g, gone) for g in kept], symbols)
        else:
            _narrow(symbol, low, high, wrong)
    if wrong:
        before = {s.name: s for s in symbols}
        raise _narrower(list(dict.fromkeys(s.name for s in wrong)), before, noted)
    return symbols, kept


def _narrow(symbol, low, high, wrong) -> bool:
    """Narrows a range, and notes symbols whose specification had another; whether it was wider."""
    if low <= max(symbol.low, 2) and high >= symbol.high:
        return False
    symbol.constrain(low, high)
    if not symbol.is_hint:
        wrong.append(symbol)
    return True


def _narrower(names, by_name, noted):
    """The error that symbols have narrower ranges than was specified."""
    lines, fixes = [], []
    for name in names:
        symbol = by_name[name]
        given = dataclasses.replace(symbol, low=symbol.given[0], high=symbol.given[1])
        line, fix = range_line(given, max(symbol.low, 2), symbol.high)
        lines.append(line)
        fixes.append(fix)
    return violation([by_name[n].label for n in names], lines, fixes)


def _joined(symbols, guards, a, b):
    if not a.is_hint and not b.is_hint:
        line = f"The values of {b.label} = {b.source} and {a.label} = {a.source} must always be equal."
        raise violation([b.label], [line], [f"{b.label} = {a.label}"])
    keep, drop = (b, a) if a.is_hint and not b.is_hint else (a, b)
    keep.uses += drop.uses
    keep.constrain(drop.low, drop.high)
    symbols = [s for s in symbols if s is not drop]
    gone = {drop.name: Expr.symbol(keep.name)}
    return symbols, [_replaced(g, gone) for g in guards], gone


def _is_implied(guard, by_name):
    """Whether a comparison holds for all sizes that are allowed, as far as trials tell."""
    symbols = [by_name[n] for n in sorted(guard.left.free_symbols | guard.right.free_symbols)]
    if len(symbols) != 1:
        return False
    (s,) = symbols
    top = int(min(s.high, _SCANNED))
    return all(holds([guard], [s], [n]) for n in range(int(max(s.low, 2)), top))


def _scanned(guard, by_name):
    """`bounds` of a comparison that holds from some size on, or up to one; None for others."""
    names = guard.left.free_symbols | guard.right.free_symbols
    if len(names) != 1 or normal(guard)[0] in ("eq", "ne"):
        return None
    symbol = by_name[next(iter(names))]
    fits = [holds([guard], [symbol], [n]) for n in range(2, _SCANNED)]
    changes = [n for n in range(1, len(fits)) if fits[n] != fits[n - 1]]
    if len(changes) != 1:
        return None
    at_change = changes[0] + 2
    return (symbol.name, at_change, math.inf) if fits[-1] else (symbol.name, -math.inf, at_change - 1)


def _keep(guard, by_name, kept):
    """Keeps a comparison as a guard, where the symbols' specifications leave that open."""
    names = guard.left.free_symbols | guard.right.free_symbols
    named = [by_name[n] for n in names if not by_name[n].is_hint and not by_name[n].is_checked]
    if not named or len(names) > 1:  # what compares several sizes is no constraint of one
        kept.append(guard)
        return
    sources = {s.name: s.source for s in by_name.values()}
    last = named[-1]
    line = (
        f"Not all values of {last.label} = {last.source} in the specified range satisfy the "
        f"generated guard {guard_code(guard, sources)}."
    )
    fixes, (kind, left, right) = [], normal(guard)
    if kind == "eq" and left.kind == "mod" and left.parts[0].kind == "symbol" and right.parts == (0,):
        factor = left.parts[1]
        fixes = [f"_{last.label} = Dim('_{last.label}', min=1, max=oo)",
                 f"{last.label} = {factor}*_{last.label}"]
    raise violation([last.label], [line], fixes)


def divisors(trace, leaves, symbols, guards):
    """The guards that sizes are multiples, where the program runs at no others.

    Raises:
        UserError: such a size has a name, so that it can be specified as a multiple.
    """
    found: list[Guard] = []
    start = base(symbols, guards)
    for k, s in enumerate(symbols):
        for d in (d for d in range(1, s.hint + 1) if s.hint % d == 0):
            tries = [[n + d * m if i == k else n for i, n in enumerate(start)] for m in (1, 3)]
            if all(_runs(trace, leaves, symbols, p) for p in tries):
                break
        if d > 1:
            _keep(Guard("eq", Expr.call("mod", Expr.symbol(s.name), d), Expr.of(0), True),
                  {s.name: s for s in symbols}, found)
    return [g for g in found if g not in guards]


def inferred(trace, leaves, symbols, guards):
    """The symbols with those joined that the program takes only if they are equal, without those that it takes at one size."""
    keys = _together(trace, leaves, symbols, guards)
    return joined([s for s in symbols if s.name in keys or not s.is_auto], keys)


def _together(trace, leaves, symbols, guards) -> dict[str, str]:
    """{symbol: one of those that it has to equal} of symbols; what has to be constant is not in it.

    A size that the program takes alone, whatever the others are, equals none. Of the others of the same size as many are
    left as they are as the program allows.
    """
    start = base(symbols, guards)
    calls = _calls(trace, leaves, symbols, start)

    def runs(moved):
        """Whether the program does the same with other values of some symbols, the same for all of them."""
        tried = ([n + step if k in moved else n for k, n in enumerate(start)] for step in range(1, 41))
        fits = itertools.islice((p for p in tried if holds(guards, symbols, p)), 2)
        return all([_calls(trace, leaves, symbols, p) == calls for p in fits] or [False])

    keys: dict[str, str] = {}
    for k, symbol in enumerate(symbols):
        if symbol.name in keys:
            continue
        if not runs({k}):
            same = next((moved for moved in _alike(leaves, symbols, start, k) if runs(moved)), None)
            if same is None:
                continue
            for other in sorted(same - {k}):
                if runs(same - {other}):
                    same.remove(other)
        else:
            same = {k}
        keys.update((symbols[n].name, symbol.name) for n in same)
    return keys


def _alike(leaves, symbols, start, k):
    """Sets of symbols of one's size that it may have to equal, likely ones first."""
    same = [n for n in range(len(symbols)) if start[n] == start[k]]
    places = [{d for _, d, *_ in s.uses} for s in symbols]
    behind = [{d - leaves[i].dim() for i, d, *_ in s.uses} for s in symbols]
    yield from ({n for n in same if of[n] & of[k]} for of in (places, behind))
    yield from ({k, n} for n in same)
    yield set(same)


def joined(symbols, keys):
    """The symbols with those of one key joined, of which one may have a name. Where there is none it is hint or name."""
    found: dict[Any, Symbol] = {}
    for s in symbols:
        is_free = s.is_hint or s.is_auto
        key = keys.get(s.name, ("hint", s.hint) if is_free else s.label)
        other = found.get(key)
        if other is None:
            found[key] = dataclasses.replace(s, uses=list(s.uses))
        elif is_free or other.is_hint or other.is_auto:
            first, second = (other, s) if is_free else (s, other)
            found[key] = dataclasses.replace(first, uses=[*other.uses, *s.uses])
            found[key].constrain(second.low, second.high)
        else:
            found[s.label] = s
    return list(found.values())


def _runs(trace, leaves, symbols, point):
    return _calls(trace, leaves, symbols, point) is not None


def _calls(trace, leaves, symbols, point):
    """What a program calls at a point; None where it does not run."""
    try:
        return [(node.op, str(node.target)) for node in at(trace, leaves, symbols, point).graph.nodes]
    except Exception:  # noqa: BLE001  (a module can raise anything at another size)
        return None


# --- symbols in guards ----------------------------------------------------------------


def _replaced(guard, values):
    return dataclasses.replace(guard, left=guard.left.replaced(values), right=guard.right.replaced(values))


def fixed(guards, symbols):
    """The comparisons that are left when all other symbols are the example's sizes."""
    names = {s.name for s in symbols}
    return [g for g in guards if (free := g.left.free_symbols | g.right.free_symbols) and free <= names]


def renamed(symbols, guards, names):
    """The comparisons with other names of the symbols, which the symbols get."""
    values = {s.name: Expr.symbol(name) for s, name in zip(symbols, names)}
    guards = [_replaced(g, values) for g in guards]
    for s, name in zip(symbols, names):
        s.name = name
    return guards


__all__ = ["divisors", "fixed", "inferred", "joined", "own", "renamed", "settled"]
