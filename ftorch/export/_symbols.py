"""The sizes that vary: symbols, and the points at which a program is tried."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from dataclasses import dataclass, field
from typing import Any

from ..eager.tensor import TensorBase
from ..fx.experimental.symbolic_shapes import Expr, Guard, ValueRanges
from ..random import fork_rng
from ._value_sizes import Drawn, ranges
from .dynamic_shapes import ConstraintViolationError, UserError, _DerivedDim, _DimHint


@dataclass
class Symbol:
    """A size that varies.

    Attributes:
        label: how messages call it.
        hint: its value in the example.
        uses: (leaf, dimension, factor, offset) of the inputs' sizes that it gives.
        is_auto: it may turn out to be constant.
        is_hint: it has no name of its own, so that its range may turn out narrower.
        is_checked: the program's own checks say what it may be: it is one of a program that was exported before.
        source: the input's size that it is.
    """

    label: str
    hint: int
    low: int = 0
    high: float = math.inf
    uses: list[tuple[int, int, int, int]] = field(default_factory=list)
    is_auto: bool = False
    is_hint: bool = False
    is_checked: bool = False
    source: str = ""
    name: str = ""
    given: tuple[float, float] = (0, math.inf)  # the range of the specification
    shown: tuple[int, int, int, int] | None = None  # the use that it is named after
    order: int = -1  # of that use among all sizes that vary

    def constrain(self, low, high):
        self.low, self.high = max(self.low, low), min(self.high, high)


@dataclass
class Dynamic:
    """The symbols of an exported program, and which sizes of the inputs they give."""

    symbols: list[Symbol]
    leaf_count: int = 0
    guards: list[Guard] = field(default_factory=list)
    drawn: list[Drawn] = field(default_factory=list)

    @property
    def sources(self) -> dict[str, str]:
        """{symbol: the input's size that it is}."""
        return {s.name: s.source for s in self.symbols}

    @property
    def derived_ranges(self) -> dict[Expr, ValueRanges]:
        """{size of an input that is derived from a symbol: its range}."""
        found = {}
        for s in self.symbols:
            for _, _, factor, offset in s.uses:
                if (factor, offset) != (1, 0):
                    size = Expr.symbol(s.name) * factor + offset
                    found[size] = ValueRanges(s.low * factor + offset, s.high * factor + offset)
        return found

    @property
    def range_constraints(self) -> dict[Expr, ValueRanges]:
        """{symbol: its range}."""
        own = {Expr.symbol(s.name): ValueRanges(s.low, s.high) for s in self.symbols}
        return {**own, **{Expr.symbol(name): found for name, found in ranges(self.drawn).items()}}

    def size(self, leaf: int, dim: int) -> Expr | None:
        """The expression of an input's size; None if it is constant."""
        for s in self.symbols:
            for i, d, factor, offset in s.uses:
                if (i, d) == (leaf, dim):
                    return Expr.symbol(s.name) * factor + offset
        return None


def symbols_of(leaves, dims, names) -> list[Symbol]:
    """The symbols of a specification.

    Args:
        dims: {dimension: `Dim` or hint} of each leaf.
        names: of the leaves, for messages.

    Raises:
        UserError: the example does not fit it.
    """
    found: dict[Any, Symbol] = {}
    for i, (leaf, spec) in enumerate(zip(leaves, dims)):
        for d, dim in spec.items():
            size = leaf.shape[d]
            if isinstance(dim, _DimHint):
                source = f"L['{names[i]}'].size()[{d}]"
                symbol = Symbol(source, size, is_auto=dim.kind == "AUTO", is_hint=True, source=source)
                symbol.constrain(dim.min or 2, math.inf if dim.max is None else dim.max)
                symbol.uses.append((i, d, 1, 0))
                found[(i, d)] = symbol
                continue
            root, factor, offset = dim, 1, 0
            if isinstance(dim, _DerivedDim):
                root, factor, offset = dim.root, dim.factor, dim.offset
            hint = dim.root_of(size) if isinstance(dim, _DerivedDim) else size
            symbol = found.setdefault(root.__name__, Symbol(root.__name__, hint))
            if factor == 1 and offset == 0 and not symbol.source:
                symbol.source = f"L['{names[i]}'].size()[{d}]"
            if symbol.hint != hint:
                raise UserError(
                    f"Constraints violated ({root.__name__})! The values of {root.__name__} = "
                    f"{symbol.hint} and {root.__name__} = {hint} must always be equal, but the "
                    f"example has both."
                )
            if not root.min <= hint <= root.max:
                high = "int_oo" if root.max == math.inf else root.max
                raise ConstraintViolationError(f"{hint} not in range [{max(root.min, 2)}, {high}]")
            symbol.constrain(root.min, root.max)
            symbol.given = symbol.low, symbol.high
            symbol.uses.append((i, d, factor, offset))
    return list(found.values())


def named(symbols, sources) -> list[str]:
    """PyTorch's names of symbols, which are made of where their sizes come from.

    Args:
        sources: where each leaf comes from, ``L['x']``; None for names in order.
    """
    if sources is None:
        return [f"s{i}" for i in range(len(symbols))]
    numbers: dict[tuple, str] = {}
    for leaf, dim in sorted({use[:2] for s in symbols for use in s.uses}):
        source = f"{sources[leaf]}.size()[{dim}]"
        number = int(hashlib.sha256(source.encode()).hexdigest(), 16) % 100
        while f"s{number}" in numbers.values():
            number += 1
        numbers[leaf, dim] = f"s{number}"
    names = []
    for s in symbols:
        whole = [use for use in s.uses if use[2:] == (1, 0)] or s.uses
        s.shown = min(whole, key=lambda use: numbers[use[:2]])
        s.order = list(numbers).index(s.shown[:2])
        names.append(numbers[s.shown[:2]])
    return names


def _resized(leaf, sizes: dict[int, int]):
    """The example with other sizes: its elements repeated or cut."""
    from ..eager.core import api

    for d, n in sizes.items():
        have = leaf.shape[d]
        if have != n:
            index = api.arange(n, device=leaf.device)
            leaf = (
                leaf.index_select(d, index % have) if have else leaf.new_zeros(
                    [n if i == d else m for i, m in enumerate(leaf.shape)]
                )
            )
    return leaf


def at(trace, leaves, symbols, point, *shown):
    """A trace at the sizes of a point: one value for each symbol."""
    sizes: list[dict[int, int]] = [{} for _ in leaves]
    for s, value in zip(symbols, point):
        for i, d, factor, offset in s.uses:
            sizes[i][d] = factor * value + offset
    new = [
        _resized(leaf.detach(), size).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, TensorBase) and size else leaf
        for leaf, size in zip(leaves, sizes)
    ]
    with fork_rng(devices=[]):  # what it draws is drawn when the program runs
        return trace(new, *shown)


def holds(guards, symbols, point) -> bool:
    """Whether the comparisons come out as in the example."""
    values = {s.name: n for s, n in zip(symbols, point)}
    try:
        return all(g.holds(values) for g in guards)
    except ZeroDivisionError:
        return False


def own(guards, symbol):
    """The comparisons of a symbol with numbers."""
    return [
        g for g in guards if g.left.free_symbols | g.right.free_symbols == {symbol.name}
    ]


def _choices(symbol: Symbol, guards, multiples: bool, start: int) -> list[int]:
    """Other values to try: near the example's, or its multiples; never 0 and 1."""
    hint = max(symbol.hint, 2)
    near = range(hint + 1, hint + 40) if not multiples else range(2 * hint, 12 * hint, hint)
    below = range(hint - 1, 1, -1) if not multiples else ()
    mine = own(guards, symbol)
    fits = [n for n in itertools.chain(near, below)
            if symbol.low <= n <= symbol.high and holds(mine, [symbol], [n])]
    fits = fits[start % max(len(fits), 1) :] + fits[: start % max(len(fits), 1)]
    return fits


_ANYWHERE = 300

# How far each symbol is from the example's value, trial by trial: no two are in proportion.
_STEPS = ((0, 1, 3, 6, 4, 8, 2, 5, 9), (2, 0, 4, 1, 7, 3, 9, 6, 5), (1, 4, 0, 7, 2, 9, 5, 3, 8),
          (3, 2, 7, 0, 5, 1, 8, 4, 6))


def points(symbols, guards, count, multiples):
    """``count`` points beside the example's, or as many as are found; the example's if there are none."""
    start, found = base(symbols, guards), []
    for trial in range(count):
        for point in itertools.chain(_near(symbols, guards, multiples, trial), _anywhere(symbols, multiples, trial)):
            if point != start and point not in found and holds(guards, symbols, point):
                found.append(point)
                break
    return found or [start]


def _near(symbols, guards, multiples, trial):
    """Points in steps from the example's."""
    for shift in range(12):
        point = []
        for k, s in enumerate(symbols):
            steps = _STEPS[k % len(_STEPS)]
            step = steps[(trial + shift) % len(steps)] + trial * (k // len(_STEPS))
            choices = _choices(s, guards, multiples, step + shift // len(steps) * (k + 1))
            point.append(choices[0] if choices else s.hint)
        yield point


def _anywhere(symbols, multiples, trial):
    """Points that may be far from the example's and lie in no order: what compares several symbols leaves few of the near."""
    drawn = random.Random(trial)
    for _ in range(_ANYWHERE):
        point = []
        for s in symbols:
            low, high = max(s.low, 2), min(s.high, 4 * s.hint + 16)
            if multiples:
                low, high = -(-low // s.hint), high // s.hint
            number = drawn.randint(int(low), int(high)) if low <= high else 1
            point.append(number * s.hint if multiples else number if low <= high else s.hint)
        yield point


def extremes(symbols, guards, multiples):
    """Points where a branch, a bound or a rounding shows that nearby sizes do not: the least, and a large one."""
    least = [max(s.low, 2) for s in symbols]
    far = [s.hint * (13 + k) if multiples else s.hint + 37 + 2 * k for k, s in enumerate(symbols)]
    both = [far] if multiples else [least, far]
    tried = [
        [int(min(n, max(s.high - 1, s.low))) for n, s in zip(point, symbols)] for point in both
    ]
    return [point for point in tried if holds(guards, symbols, point)]


def base(symbols, guards=()):
    """The example's point, away from 0 and 1."""
    return [
        s.hint if s.hint > 1 else next(iter(_choices(s, guards, False, 0)), s.hint) for s in symbols
    ]


__all__ = [
    "Dynamic", "Symbol", "at", "base", "extremes", "holds", "named", "own", "points", "symbols_of",
]
