"""Numbers of an exported program that values decide: ``item``, the positions of a mask, ``nonzero``.

As sizes of inputs, they are tried at several values (`ftorch.export._generalize`): a run is told which numbers it draws,
in order. What the graph says of them has to follow from the nodes that give them.
"""

from __future__ import annotations

import math
import operator
import sys
from dataclasses import dataclass, field
from typing import Any

from .._ops import OpOverload, ops
from ..eager.core import places
from ..fx.experimental.symbolic_shapes import (
    Expr,
    Guard,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    SymBool,
    SymFloat,
    SymInt,
    ValueRanges,
    is_symbolic,
)
from ..fx.graph import Graph
from ..fx.node import Node
from ._size_comparisons import bounds
from ._size_expressions import fit

_CHECKS = places.own_file("_toplevel/basics.py")
_MOST = 2**63 - 2  # what ranges call the greatest number of elements

# Ops whose results have as many rows as values say: the first size of which of their results.
SIZED = {
    "nonzero": (0,), "argwhere": (0,), "masked_select": (0,), "_unique2": (0, 2), "unique_dim": (0, 2),
    "unique_consecutive": (0, 2), "bincount": (0,), "repeat_interleave": (0,),
}


@dataclass
class Drawn:
    """A number that values decide.

    Attributes:
        name: its symbol, ``u0``.
        value: what it is in this run.
        node: what gives it; None for a mask that is no index of a result.
        dim: of which size of the node it is; None where the node is the number.
        low, high: what is known of it.
        counted: the node whose elements it counts, of which there are at most ``high`` in the example.
        checks: (comparison, number) of what the program checks.
    """

    name: str
    value: Any
    node: Node | None = None
    dim: int | None = None
    low: float = -math.inf
    high: float = math.inf
    counted: Node | None = None
    checks: list[tuple[str, int]] = field(default_factory=list)


class Number:
    """A number that a tensor's value is, as `Level.known` gives it."""

    def __init__(self, value):
        self.value = value

    def item(self):
        """The number."""
        return self.value

    def __index__(self):
        return self.value


class NumberList:
    """A tensor's values as numbers of the program, in nested lists."""

    def __init__(self, t):
        self.t = t

    def tolist(self):
        """The lists; a tensor without dimensions gives a number."""
        return [NumberList(part).tolist() for part in self.t.unbind()] if self.t.dim() else self.t.item()


class Draws(ShapeEnv):
    """The numbers that a run draws; what Python asks of them is known from their ranges, or refused.

    Args:
        forced: what the numbers are to be, in order; then what values say.
    """

    of_values = True

    def __init__(self, forced=()):
        super().__init__()
        self.drawn: list[Drawn] = []
        self.forced = forced
        self.is_over = False  # the run: its numbers may be keys of what is kept, which later calls are compared with

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.is_over = True

    def draw(self, value, node=None, dim=None, low=-math.inf, high=math.inf) -> Drawn:
        """The next number."""
        k = len(self.drawn)
        value = self.forced[k] if k < len(self.forced) else value
        letter = "zuf" if isinstance(value, float) else "u"
        number = sum(d.name.startswith(letter) for d in self.drawn)
        self.drawn.append(Drawn(f"{letter}{number}", value, node, dim, low, high))
        return self.drawn[-1]

    def symbolic(self, drawn: Drawn):
        """A number as Python sees it."""
        return (SymFloat if isinstance(drawn.value, float) else SymInt)(drawn.value, drawn.name, self)

    def note(self, guard: Guard) -> None:
        """Takes in what ``torch._check`` checks, and refuses what cannot be told without the value.

        Raises:
            GuardOnDataDependentSymNode: the user's code decides by the number.
        """
        if self.is_over:
            return
        file = _asking(sys._getframe(2))
        found = bounds(Guard(guard.comparison, guard.left, guard.right, True)) if guard.comparison in _TOLD else None
        drawn = None if found is None else next((d for d in self.drawn if d.name == found[0]), None)
        if file == _CHECKS:
            if drawn is not None and found is not None and guard.result:
                drawn.low, drawn.high = max(drawn.low, found[1]), min(drawn.high, found[2])
                right = guard.right.parts[0] if guard.right.kind == "number" and guard.left.kind == "symbol" else None
                drawn.checks.append((guard.comparison, right))
            return
        if file is None:
            return
        if drawn is not None and found is not None:
            inside = drawn.low >= found[1] and drawn.high <= found[2]
            if inside or drawn.high < found[1] or drawn.low > found[2]:
                return
        sign = {"eq": "Eq({}, {})", "ne": "Ne({}, {})"}.get(guard.comparison, f"{{}} {_TOLD.get(guard.comparison, '?')} {{}}")
        frame = sys._getframe(2)
        self._refuse(
            sign.format(guard.left, guard.right),
            f'\n\nThe following call raised this error:\n  File "{file}", line {frame.f_lineno}, in {frame.f_code.co_name}\n'
        )

    def refuse_parts(self, size: SymInt, most) -> None:
        """Refuses to divide a size into as many parts as values say.

        Args:
            most: of how many parts there are that many from that size on; None if there are always more.

        Raises:
            GuardOnDataDependentSymNode: see above.
        """
        drawn = next((d for d in self.drawn if d.name == str(size.expr)), None)
        if not self.is_over and (drawn is None or most is None or drawn.low < most) and (
            drawn is None or drawn.low < drawn.high
        ):
            self._refuse(f"Eq({size.expr}, 0)")

    @staticmethod
    def _refuse(text, where=""):
        raise GuardOnDataDependentSymNode(
            f"Could not guard on data-dependent expression {text} (unhinted: {text}).  (Size-like symbols: none)\n\n"
            "consider using data-dependent friendly APIs such as guard_or_false, guard_or_true and statically_known_true."
            + where
        )

    def note_plain(self, number) -> None:
        """Refuses to make a number one of Python's own, for the user's code.

        Raises:
            GuardOnDataDependentSymNode: see above.
        """
        if not self.is_over and _asking(sys._getframe(2)) is not None:
            raise GuardOnDataDependentSymNode(
                f"Could not extract specialized integer from data-dependent expression {number} (unhinted: {number}).  "
                "(Size-like symbols: none)"
            )


def _asking(frame):
    """The file of the code that asks; None for the package's own, other than what answers for a tensor."""
    code = frame.f_code
    if code.co_filename in _ANSWERING and code.co_name in ("__bool__", "__int__", "__float__", "__len__"):
        return _asking(frame.f_back)
    if code.co_filename in _ANSWERING and code.co_name == "is_same_size":  # the method, or what the function calls
        while frame.f_code.co_filename.startswith(places.PACKAGE):
            frame = frame.f_back
        return frame.f_code.co_filename
    return None if code.co_filename.startswith(places.PACKAGE) and code.co_filename != _CHECKS else code.co_filename


@dataclass
class Varying:
    """Sizes that follow from numbers that values decide, as a run shows them to Python.

    Attributes:
        sizes: {name of a node: an expression for each of its sizes, None for one that stays}.
        draws: those of the run.
    """

    sizes: dict[str, list]
    draws: Draws | None = None

    def __call__(self, node, shape):
        """The sizes of a node as Python sees them."""
        known = self.sizes.get(node.name)
        if known is None or len(known) != len(shape):
            return shape
        return tuple(n if e is None else SymInt(n, e, self.draws) for n, e in zip(shape, known))

    def indexed(self, node, shape, items):
        """Nothing: what values decide is not compared."""


def varying(main, others, values) -> Varying:
    """The sizes that runs with other numbers have otherwise.

    Args:
        main, others: `Traces`.
        values: {symbol: its values}, of integers, also of those that are no values'.
    """
    numbers = {d.name for d in main.drawn}
    found = {}
    for name, (op, target, sizes) in main.seen.items():
        rows = [t.seen.get(name) for t in others]
        if any(r is None or r[:2] != (op, target) or len(r[2]) != len(sizes) for r in rows):
            found[name] = [Expr.symbol(f"{name}_{d}") for d in range(len(sizes))]  # others have no such call
            continue
        exprs: list = []
        for d, n in enumerate(sizes):
            column = [n, *(r[2][d] for r in rows)]
            made = None if len(set(column)) == 1 else fit(column, values) or Expr.symbol(f"{name}_{d}")
            exprs.append(made if made is None or made.free_symbols - (values.keys() - numbers) else None)
        if any(exprs):
            found[name] = exprs
    return Varying(found)


_ANSWERING = {places.own_file(name) for name in ("eager/dispatch/levels.py", "export/_trace.py", "export/_indices.py")}
_TOLD = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# How far the numbers of other runs are from the example's, run by run, for one number after the other.
_WAYS = (
    lambda value, k, trial: value + 1 + (trial * (2 * k + 3)) % 11 + k,
    lambda value, k, trial: value + 1 + (trial * (k + 1)) % 3,
    lambda value, k, trial: value - 1 - trial - (k * trial) % 2,
    lambda value, k, trial: value * (2 + trial + k),
    lambda value, k, trial: value + (1, -1, 2)[trial % 3] * (1 + k),
    lambda value, k, trial: (value * 2, value - 1, value - 2, value * 3, value * 4, value + 1)[trial],
)
TRIALS = 6
_TAKE_SIZES = frozenset("zeros ones empty full rand randn arange view reshape expand eye randint randperm unflatten".split())


def forced(drawn: list[Drawn]):
    """Ways to try a program again: for each, the numbers of some runs.

    >>> from ftorch.export._value_sizes import Drawn, forced
    >>> next(forced([Drawn("u0", 3, high=9)]))
    [[4], [7], [5], [8]]
    """
    for way in _WAYS if drawn else ():
        runs: list = []
        for trial in range(TRIALS):
            row = [d.value if d.dim is not None and d.node is None else way(d.value, k, trial) for k, d in enumerate(drawn)]
            known = all(max(d.low, 0 if d.dim is not None else -math.inf) <= n <= d.high for d, n in zip(drawn, row))
            if known and row not in runs and row != [d.value for d in drawn]:
                runs.append(row)
        if runs:
            yield runs


def ranges(drawn: list[Drawn]) -> dict[str, ValueRanges]:
    """{symbol: its range} of those that are integers."""
    return {d.name: ValueRanges(d.low, d.high) for d in drawn if isinstance(d.value, int)}


def add_checks(graph: Graph, drawn: list[Drawn], nodes: dict[str, Node]) -> None:
    """Puts what is known of the program's numbers into the graph, as assertions behind the nodes that give them.

    Args:
        nodes: {symbol: the node of the number}.
    """
    there = set(graph.nodes)
    for d in drawn:
        val = None if d.counted is None else d.counted.meta.get("val")
        if val is not None and d.high == math.prod(map(int, val.shape)) and is_symbolic(list(val.shape)):
            d.high = _MOST
        number = nodes.get(d.name)
        if number is not None and number not in there and d.checks and d.dim is not None:
            with graph.inserting_after(d.node):
                number = graph.call_function(ops.aten.sym_size.int, (d.node, d.dim), name="sym_size_int_1")
        elif number is None or number not in there:
            continue
        if any(isinstance(user.target, OpOverload) and user.target._opname in _TAKE_SIZES for user in number.users):
            d.low = max(d.low, 0)
        if not d.checks and d.low == -math.inf:
            continue
        asked = {kind for kind, _ in d.checks}
        told = [("ge", d.low, f"{d.name} >= {d.low}"), ("le", d.high, f"{d.name} <= {d.high}")]
        told = [(kind, end, text) for kind, end, text in told if abs(end) < _MOST]
        told += [
            (kind, end, f"{d.name} < {end}" if kind == "lt" else f"{end} < {d.name}")
            for kind, end in d.checks if kind in ("lt", "gt") and end is not None
        ]
        after = number
        for kind, end, text in told:
            with graph.inserting_after(after):
                name = f"{kind}_1" if kind in asked else kind
                found = graph.call_function(getattr(operator, kind), (number, end), name=name)
                found.meta["val"] = SymBool(True, Expr.call(kind, Expr.symbol(d.name), end))
            with graph.inserting_after(found):
                text = f"Runtime assertion failed for expression {text} on node '{found.name}'"
                after = graph.call_function(ops.aten._assert_scalar.default, (found, text), name="_assert_scalar_default")


__all__ = ["SIZED", "Drawn", "Draws", "Number", "NumberList", "add_checks", "forced", "ranges"]
