"""What Python decides by sizes: the comparisons of one run, and what they ask of the symbols.

The example's run is repeated with sizes that know how they follow from the symbols
(`ftorch.fx.experimental.symbolic_shapes.SymInt`). Where the user's code compares them, the outcome is written
down. It narrows a symbol's range, makes symbols equal or constant, or stays a guard of the program.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field

from ..eager.core import places
from ..fx.experimental.symbolic_shapes import Expr, Guard, ShapeEnv, SymInt
from ._indices import decide

_ASKING = places.own_file("export/_trace.py"), places.own_file("export/_indices.py")
_CHECKS = places.own_file("_toplevel/basics.py")
_OPPOSITES = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BETWEEN = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/", "pow": "**"}


def _is_own(frame) -> bool:
    """Whether code is the package's, but for ``torch._check``."""
    name = frame.f_code.co_filename
    return name.startswith(places.PACKAGE) and name != _CHECKS


def _reader():
    """The frame that reads a tensor's sizes."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename in _ASKING:  # properties that ask each other
        frame = frame.f_back
    return frame


class Decisions(ShapeEnv):
    """The comparisons of sizes that the user's code made; the package's own are left out."""

    for_user = False  # whether the package compares what the user asked for
    is_over = False  # whether a size was not known, so that what is compared may be one of its numbers

    def note(self, guard):
        if self.is_over:
            return
        if (self.for_user or not _is_own(sys._getframe(2))) and guard not in self.guards:
            self.guards.append(guard)


@dataclass
class Shown:
    """The sizes that a run shows to Python.

    Attributes:
        sizes: {name of a node: its sizes, numbers and `Expr`}.
        asked: whether the user's code looked at a size that is not among them.
        notes_all: whether what is compared after that is noted, too.
    """

    sizes: dict[str, list]
    env: Decisions = field(default_factory=Decisions)
    asked: bool = False
    notes_all: bool = False

    def __call__(self, node, shape):
        """The sizes of a node as Python sees them."""
        found = self._known(node, shape)
        if found is None and not _is_own(_reader()):
            self._note_asked()
        return shape if found is None else found

    def _known(self, node, shape):
        known = self.sizes.get(node.name)
        if known is None or len(known) != len(shape):
            return None
        return tuple(
            SymInt(n, e, self.env) if isinstance(e, Expr) else n for n, e in zip(shape, known)
        )

    def _note_asked(self):
        self.asked = True
        self.env.is_over = not self.notes_all

    def indexed(self, node, shape, items):
        """Notes what an index asks of the sizes of a node."""
        sizes = self._known(node, shape)
        if sizes is None:
            if any(isinstance(item, slice) and item != slice(None) for item in items):
                self._note_asked()
            sizes = shape
        self.env.for_user = True
        try:
            decide(sizes, items)
        finally:
            self.env.for_user = False


# --- what a comparison asks -----------------------------------------------------------


def linear(expr: Expr):
    """{symbol: factor} of a sum of multiples, with the constant at None; or None."""
    if expr.kind == "number":
        return {None: expr.parts[0]}
    if expr.kind == "symbol":
        return {expr.parts[0]: 1, None: 0}
    if expr.kind == "neg":
        inner = linear(expr.parts[0])
        return inner and {k: -v for k, v in inner.items()}
    if expr.kind not in ("add", "sub", "mul"):
        return None
    left, right = (linear(part) for part in expr.parts)
    if left is None or right is None:
        return None
    if expr.kind == "mul":
        if len(left) > 1:
            left, right = right, left
        return {k: left[None] * v for k, v in right.items()} if len(left) == 1 else None
    sign = 1 if expr.kind == "add" else -1
    keys = dict.fromkeys([*left, *right])
    made = {k: left.get(k, 0) + sign * right.get(k, 0) for k in keys}
    return {k: v for k, v in made.items() if v or k is None}


def bounds(guard: Guard):
    """(symbol, least, greatest) of a comparison of one symbol with a number; None if it is another."""
    kind, left, right = normal(guard)
    form = linear(left - right if kind in _OPPOSITES else left)
    if form is None or len(form) != 2 or kind == "ne":
        return None
    (symbol, factor), constant = next((k, v) for k, v in form.items() if k is not None), form[None]
    if factor < 0:
        factor, constant = -factor, -constant
        kind = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(kind, kind)
    value = -constant / factor
    if kind == "eq":
        return (symbol, int(value), int(value)) if value == int(value) else None
    if kind in ("lt", "le"):
        return symbol, -math.inf, math.ceil(value) - 1 if kind == "lt" else math.floor(value)
    return symbol, math.floor(value) + 1 if kind == "gt" else math.ceil(value), math.inf


def equals(guard: Guard):
    """(first, second) of the symbols that a comparison says are equal, or None."""
    kind, left, right = normal(guard)
    if kind == "eq" and left.kind == right.kind == "symbol":
        return left.parts[0], right.parts[0]
    return None


def order(guard: Guard, symbols):
    """[(symbol, least, greatest)] of a comparison that says which of two symbols is larger.

    Args:
        symbols: {name: symbol with its range}.
    """
    kind, left, right = normal(guard)
    if kind in ("gt", "ge"):
        kind, left, right = {"gt": "lt", "ge": "le"}[kind], right, left
    form = linear(left - right) if kind in ("lt", "le") else None
    if form is None or sorted(v for k, v in form.items() if k is not None) != [-1, 1]:
        return []
    small, large = (symbols[next(k for k, v in form.items() if k and v == sign)] for sign in (1, -1))
    apart = form[None] + (kind == "lt")
    return [(large, max(small.low, 2) + apart, math.inf), (small, -math.inf, large.high - apart)]


def normal(guard: Guard):
    """(relation, left, right) that holds."""
    kind = guard.comparison if guard.result else _OPPOSITES[guard.comparison]
    return kind, guard.left, guard.right


# --- text -----------------------------------------------------------------------------


def code(expr: Expr, sources, inner=False) -> str:
    """Python's text of an expression.

    Args:
        sources: {symbol: text}.
    """
    if expr.kind == "symbol":
        return sources[expr.parts[0]]
    if expr.kind == "number":
        return str(expr.parts[0])
    if expr.kind in ("min", "max"):
        return f"{expr.kind}({', '.join(code(p, sources) for p in expr.parts)})"
    if expr.kind == "neg":
        return f"-{code(expr.parts[0], sources, True)}"
    parts = [code(p, sources, True) for p in expr.parts]
    if expr.kind == "mul" and expr.parts[1].kind == "number":
        parts.reverse()
    sign = _BETWEEN.get(expr.kind, _SIGNS.get(expr.kind))
    if sign is None:
        return f"{expr.kind}({', '.join(parts)})"
    text = sign.join(parts) if expr.kind == "mul" else f" {sign} ".join(parts)
    return f"({text})" if inner else text


def guard_code(guard: Guard, sources) -> str:
    """Python's text of the comparison that holds: ``(L['x'].size()[0] % 2) == 0``."""
    kind, left, right = normal(guard)
    return f"{code(left, sources, True)} {_SIGNS[kind]} {code(right, sources, True)}"


def range_line(symbol, low, high) -> tuple[str, str]:
    """(what is wrong with a range, the range that is right)."""
    source, top = symbol.source, "IntInfinity()" if high == math.inf else int(high)
    if symbol.low > 2 and symbol.high < math.inf:
        given = f" {int(symbol.low)} <= {symbol.label} <= {int(symbol.high)}"
    else:
        given = ""
    line = (
        f"Not all values of {symbol.label} = {source} in the specified range{given} satisfy the "
        f"generated guard {int(low)} <= {source} and {source} <= {top}"
    )
    ends = ([f"min={int(low)}"] if low > 2 else []) + ([f"max={int(high)}"] if high < math.inf else [])
    return line, f"{symbol.label} = Dim('{symbol.label}', {', '.join(ends)})"


__all__ = [
    "Decisions", "Shown", "bounds", "code", "equals", "guard_code", "linear",
    "order", "range_line",
]
