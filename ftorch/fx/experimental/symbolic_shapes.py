"""Symbolic sizes (``torch.fx.experimental.symbolic_shapes``).

A `SymInt` is an int, the size of the example, that knows how it was computed from symbols. So code
that was written for ints runs unchanged, arithmetic keeps the expression, and a comparison is decided
by the example and written down as a guard of the `ShapeEnv`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_FUNCTIONS: dict[str, Callable] = {name: getattr(operator, name) for name in _SIGNS}


@dataclass(frozen=True, repr=False)
class Expr:
    """A symbol, a number, or an operation on two expressions.

    >>> from ftorch.fx.experimental.symbolic_shapes import Expr
    >>> size = Expr.symbol("s0") * 2 + 1
    >>> str(size), size.evaluate({"s0": 3})
    ('2*s0 + 1', 7)
    """

    kind: str  # "symbol", "number", or a name in `operator`
    parts: tuple = ()

    @staticmethod
    def symbol(name: str) -> Expr:
        """A symbol."""
        return Expr("symbol", (name,))

    @staticmethod
    def of(value) -> Expr:
        """The expression of an int or a `SymInt`."""
        if isinstance(value, Expr):
            return value
        return value.expr if isinstance(value, SymInt) else Expr("number", (int(value),))

    def evaluate(self, values: dict[str, Any]):
        """The value for values of the symbols."""
        if self.kind == "symbol":
            return values[self.parts[0]]
        if self.kind == "number":
            return self.parts[0]
        left, right = (part.evaluate(values) for part in self.parts)
        return _FUNCTIONS[self.kind](left, right)

    @property
    def free_symbols(self) -> set[str]:
        """The names of its symbols."""
        if self.kind == "symbol":
            return {self.parts[0]}
        if self.kind == "number":
            return set()
        return set().union(*(part.free_symbols for part in self.parts))

    def _with(self, kind, other, reverse=False):
        left, right = (Expr.of(other), self) if reverse else (self, Expr.of(other))
        if left.kind == right.kind == "number":
            return Expr("number", (_FUNCTIONS[kind](left.parts[0], right.parts[0]),))
        neutral = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1}.get(kind)
        if right.kind == "number" and right.parts[0] == neutral:
            return left
        if left.kind == "number" and left.parts[0] == neutral and kind in ("add", "mul"):
            return right
        return Expr(kind, (left, right))

    def __add__(self, other):
        return self._with("add", other)

    def __sub__(self, other):
        return self._with("sub", other)

    def __mul__(self, other):
        return self._with("mul", other)

    def __floordiv__(self, other):
        return self._with("floordiv", other)

    def __str__(self):
        if self.kind in ("symbol", "number"):
            return str(self.parts[0])
        left, right = self.parts
        if self.kind == "mul" and right.kind == "number":
            left, right = right, left
        sign = _SIGNS[self.kind]
        if self.kind in ("add", "sub"):
            return f"{left} {sign} {right}"
        shown = [f"({p})" if p.kind in ("add", "sub") else str(p) for p in (left, right)]
        return sign.join(shown) if self.kind == "mul" else f"({sign.join(shown)})"

    __repr__ = __str__


class SymInt(int):
    """An int that knows its expression.

    Args:
        value: the size in the example.
        expr: how it was computed.
        env: where comparisons are written down.
    """

    expr: Expr
    env: ShapeEnv | None

    def __new__(cls, value: int, expr: Expr | str, env: ShapeEnv | None = None):
        made = super().__new__(cls, value)
        made.expr = Expr.symbol(expr) if isinstance(expr, str) else expr
        made.env = env
        return made

    @property
    def node(self):
        """The object with the expression, as PyTorch's ``SymInt`` has it."""
        return self

    hint = property(lambda self: int(self))

    def __repr__(self):
        return str(self.expr)

    __str__ = __repr__

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return SymInt, (int(self), self.expr)

    def __hash__(self):
        return int.__hash__(self)


def _arithmetic(name, kind, reverse):
    function = _FUNCTIONS[kind]

    def method(self, other):
        if not isinstance(other, int) or isinstance(other, bool):
            return getattr(int(self), name)(other)
        pair = (int(other), int(self)) if reverse else (int(self), int(other))
        value = function(*pair)
        return SymInt(value, self.expr._with(kind, other, reverse), self.env)

    return method


def _comparison(name):
    function = getattr(operator, name)

    def method(self, other):
        result = getattr(int, f"__{name}__")(int(self), int(other) if isinstance(other, int) else other)
        if self.env is not None and result is not NotImplemented and other is not self:
            self.env.guards.append(Guard(name, self.expr, Expr.of(other), bool(result)))
        return result

    method.__name__ = function.__name__
    return method


for _kind in _SIGNS:
    setattr(SymInt, f"__{_kind}__", _arithmetic(f"__{_kind}__", _kind, False))
    setattr(SymInt, f"__r{_kind}__", _arithmetic(f"__r{_kind}__", _kind, True))
for _kind in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymInt, f"__{_kind}__", _comparison(_kind))


@dataclass(frozen=True)
class Guard:
    """A comparison that was decided by the example."""

    comparison: str
    left: Expr
    right: Expr
    result: bool

    def holds(self, values: dict[str, int]) -> bool:
        """Whether it comes out the same for other values of the symbols."""
        compare = getattr(operator, self.comparison)
        return bool(compare(self.left.evaluate(values), self.right.evaluate(values))) == self.result


@dataclass(frozen=True, repr=False)
class ValueRanges:
    """The values that a symbol can take, both ends included; ``math.inf`` is no end."""

    lower: float
    upper: float

    def __str__(self):
        low, high = ("int_oo" if v == math.inf else str(v) for v in (self.lower, self.upper))
        return f"VR[{low}, {high}]"

    __repr__ = __str__

    def __contains__(self, value):
        return self.lower <= value <= self.upper


@dataclass
class ShapeEnv:
    """Symbols, their ranges, and what was decided about them.

    >>> from ftorch.fx.experimental.symbolic_shapes import ShapeEnv
    >>> env = ShapeEnv()
    >>> batch = env.create_symint(4, lower=2)
    >>> rows = batch * 3
    >>> rows, int(rows), env.evaluate(rows, {"s0": 5})
    (3*s0, 12, 15)
    """

    var_to_val: dict[str, int] = field(default_factory=dict)
    var_to_range: dict[str, ValueRanges] = field(default_factory=dict)
    var_to_sources: dict[str, tuple[str, int]] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)

    def create_symbol(self, value: int, source=None, lower=0, upper=math.inf) -> Expr:
        """A new symbol with the example's value.

        Args:
            source: (input, dimension) that it is the size of.
        """
        name = f"s{len(self.var_to_val)}"
        self.var_to_val[name] = value
        self.var_to_range[name] = ValueRanges(lower, upper)
        if source is not None:
            self.var_to_sources[name] = source
        return Expr.symbol(name)

    def create_symint(self, value: int, source=None, lower=0, upper=math.inf) -> SymInt:
        """A size that is a new symbol."""
        return SymInt(value, self.create_symbol(value, source, lower, upper), self)

    def evaluate(self, size, values: dict[str, int] | None = None) -> int:
        """A size for values of the symbols (the example's by default)."""
        return Expr.of(size).evaluate({**self.var_to_val, **(values or {})})

    def holds(self, values: dict[str, int]) -> bool:
        """Whether all comparisons come out the same for other values."""
        return all(g.holds({**self.var_to_val, **values}) for g in self.guards)


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision that needs the value of a tensor, while the program is traced."""


def is_symbolic(value) -> bool:
    """Whether a size depends on symbols."""
    return isinstance(value, SymInt) and bool(value.expr.free_symbols)


def statically_known_true(condition) -> bool:
    """The condition as a bool; sizes have the example's values."""
    return bool(condition)


guard_or_false = guard_or_true = guard_size_oblivious = statically_known_true


def hint_int(value, fallback=None) -> int:
    """The example's value of a size."""
    return int(value)


__all__ = [
    "Expr", "Guard", "GuardOnDataDependentSymNode", "ShapeEnv", "SymInt", "ValueRanges",
    "guard_or_false", "guard_or_true", "guard_size_oblivious", "hint_int", "is_symbolic",
    "statically_known_true",
]  # fmt: skip
