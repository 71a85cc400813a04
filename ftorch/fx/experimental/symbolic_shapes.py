"""Symbolic sizes (``torch.fx.experimental.symbolic_shapes``).

A `SymInt` is an int, the size of the example, that knows how it was computed from symbols. So code
that was written for ints runs unchanged and arithmetic keeps the expression; a quotient is a `SymFloat`, a
comparison a `SymBool`. Where Python asks for its truth, it is decided by the example and written down as a
guard of the `ShapeEnv`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//"}
_RELATIONS = {"eq": "Eq", "ne": "Ne", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTIONS: dict[str, Callable] = {
    **{name: getattr(operator, name) for name in (
        *_SIGNS, *_RELATIONS, "mod", "truediv", "pow", "neg", "abs", "and_", "or_", "not_",
    )},
    "max": max, "min": min, "sqrt": math.sqrt, "float": float, "trunc": math.trunc, "floor": math.floor,
    "ceil": math.ceil, "round": round, "ite": lambda b, t, f: t if b else f,
}
_NAMES = {  # as PyTorch writes them
    "mod": "Mod", "truediv": "IntTrueDiv", "abs": "Abs", "max": "Max", "min": "Min",
    "sqrt": "OpaqueUnaryFn_sqrt", "float": "ToFloat", "trunc": "TruncToInt", "floor": "FloorToInt",
    "ceil": "CeilToInt", "round": "RoundToInt", "not_": "Not", "eq": "Eq", "ne": "Ne",
}


@dataclass(frozen=True, repr=False)
class Expr:
    """A symbol, a number, or an operation on expressions.

    >>> from ftorch.fx.experimental.symbolic_shapes import Expr
    >>> size = Expr.symbol("s0") * 2 + 1
    >>> str(size), size.evaluate({"s0": 3})
    ('2*s0 + 1', 7)
    """

    kind: str  # "symbol", "number", or a name in `_FUNCTIONS`
    parts: tuple = ()

    @staticmethod
    def symbol(name: str) -> Expr:
        """A symbol."""
        return Expr("symbol", (name,))

    @staticmethod
    def of(value) -> Expr:
        """The expression of a number, symbolic or not."""
        if isinstance(value, Expr):
            return value
        if isinstance(value, _Symbolic):
            return value.expr
        return Expr("number", (value if isinstance(value, (bool, float)) else int(value),))

    @staticmethod
    def call(kind: str, *values) -> Expr:
        """An operation on numbers and expressions."""
        if kind in _SIGNS:
            return Expr.of(values[0])._with(kind, values[1])
        return Expr(kind, tuple(map(Expr.of, values)))

    def evaluate(self, values: dict[str, Any]):
        """The value for values of the symbols."""
        if self.kind == "symbol":
            return values[self.parts[0]]
        if self.kind == "number":
            return self.parts[0]
        return _FUNCTIONS[self.kind](*(part.evaluate(values) for part in self.parts))

    def replaced(self, values: dict[str, Expr]) -> Expr:
        """The expression with others in place of symbols."""
        if self.kind == "symbol":
            return values.get(self.parts[0], self)
        if self.kind == "number":
            return self
        return Expr(self.kind, tuple(part.replaced(values) for part in self.parts))

    @property
    def free_symbols(self) -> set[str]:
        """The names of its symbols."""
        if self.kind == "symbol":
            return {self.parts[0]}
        if self.kind == "number":
            return set()
        return set().union(*(part.free_symbols for part in self.parts))

    def _with(self, kind, other):
        left, right = self, Expr.of(other)
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
        name = _NAMES.get(self.kind)
        if name is not None:
            return f"{name}({', '.join(map(str, self.parts))})"
        if self.kind == "neg":
            return f"-{self.parts[0]}"
        if self.kind == "ite":
            condition, yes, no = self.parts
            return f"Piecewise(({yes}, {condition}), ({no}, True))"
        left, right = self.parts
        between = {**_RELATIONS, "and_": "&", "or_": "|"}.get(self.kind)
        if between is not None:
            shown = [f"({p})" if p.kind in ("lt", "le", "gt", "ge") and between in "&|" else str(p)
                     for p in (left, right)]
            return f" {between} ".join(shown)
        if self.kind == "pow":
            return f"{left}**{right}"
        if self.kind == "mul" and right.kind == "number":
            left, right = right, left
        sign = _SIGNS[self.kind]
        if self.kind in ("add", "sub"):
            return f"{left} {sign} {right}"
        shown = [f"({p})" if p.kind in ("add", "sub") else str(p) for p in (left, right)]
        return sign.join(shown) if self.kind == "mul" else f"({sign.join(shown)})"

    __repr__ = __str__


class _Symbolic:
    """What `SymInt`, `SymFloat` and `SymBool` have in common.

    Attributes:
        expr: how it was computed.
        env: where decisions are written down.
        hint: the value for the example.
    """

    __slots__ = ()
    expr: Expr
    env: ShapeEnv | None
    hint: Any

    @property
    def node(self):
        """The object with the expression, as PyTorch's symbols have it."""
        return self

    def __repr__(self):
        return str(self.expr)

    __str__ = __repr__

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return type(self), (self.hint, self.expr)


class _SymbolicNumber(_Symbolic):
    """What `SymInt` and `SymFloat` have in common; ``plain`` is the class of their values."""

    plain: type

    def __new__(cls, value, expr: Expr | str, env: ShapeEnv | None = None):
        made = super().__new__(cls, value)
        made.expr = Expr.symbol(expr) if isinstance(expr, str) else expr
        made.env = env
        return made

    @property
    def hint(self):  # type: ignore[override]
        return int.__int__(self) if self.plain is int else float.__float__(self)  # type: ignore[arg-type]

    def __bool__(self):
        value = self.hint
        if getattr(self.env, "of_values", False):
            self.env.note(Guard("ne", self.expr, Expr.of(0), value != 0))
        return value != 0

    def __int__(self):
        if getattr(self.env, "of_values", False):
            self.env.note_plain(self)  # type: ignore[union-attr]
        return int(self.hint)

    def __float__(self):
        if getattr(self.env, "of_values", False):
            self.env.note_plain(self)  # type: ignore[union-attr]
        return float(self.hint)

    def __hash__(self):
        return self.plain.__hash__(self)


class SymInt(_SymbolicNumber, int):
    """An int that knows its expression.

    Args:
        value: the size in the example.
        expr: how it was computed.
        env: where comparisons are written down.
    """

    plain = int


class SymFloat(_SymbolicNumber, float):
    """A float that knows its expression; see `SymInt`.

    >>> from ftorch.fx.experimental.symbolic_shapes import ShapeEnv
    >>> half = ShapeEnv().create_symint(4) / 2
    >>> type(half).__name__, half, half.hint
    ('SymFloat', IntTrueDiv(s0, 2), 2.0)
    """

    plain = float

    def is_integer(self):
        """Whether it is a whole number, for the example."""
        return self.hint.is_integer()


class SymBool(_Symbolic):
    """A condition on sizes. Asked for its truth it is the example's, which becomes a guard.

    >>> from ftorch.fx.experimental.symbolic_shapes import ShapeEnv
    >>> env = ShapeEnv()
    >>> small = env.create_symint(4) < 5
    >>> small, len(env.guards), not small, len(env.guards)
    (s0 < 5, 0, False, 1)
    """

    __slots__ = ("env", "expr", "hint")

    def __init__(self, value: bool, expr: Expr | str, env: ShapeEnv | None = None):
        self.hint, self.env = bool(value), env
        self.expr = Expr.symbol(expr) if isinstance(expr, str) else expr

    def __bool__(self):
        if self.env is not None:
            guard = (self.expr.kind, *self.expr.parts, self.hint)
            if self.expr.kind not in _RELATIONS:
                guard = ("eq", self.expr, Expr.of(self.hint), True)
            self.env.note(Guard(*guard))
        return self.hint

    def __int__(self):
        return int(bool(self))

    __hash__ = object.__hash__


def _plain(value):
    return value.hint if isinstance(value, _Symbolic) else value


def _symbolic(kind, *values):
    """The result of an operation of which an operand is symbolic."""
    env = next((v.env for v in values if isinstance(v, _Symbolic) and v.env is not None), None)
    result = _FUNCTIONS[kind](*map(_plain, values))
    made = {bool: SymBool, int: SymInt, float: SymFloat}.get(type(result))
    return result if made is None else made(result, Expr.call(kind, *values), env)


def _method(kind, reverse=False, operands=(int, float, _Symbolic)):
    def method(self, *others):
        if not all(isinstance(o, operands) for o in others):
            return NotImplemented
        return _symbolic(kind, *reversed(others), self) if reverse else _symbolic(kind, self, *others)

    return method


for _class in (SymInt, SymFloat):
    for _kind in (*_SIGNS, "mod", "truediv", "pow"):
        setattr(_class, f"__{_kind}__", _method(_kind))
        setattr(_class, f"__r{_kind}__", _method(_kind, reverse=True))
    for _kind in ("neg", "abs", *_RELATIONS):
        setattr(_class, f"__{_kind}__", _method(_kind))
    for _kind in ("max", "min", "sqrt", "float"):
        setattr(_class, f"__sym_{_kind}__", _method(_kind))
for _kind in ("trunc", "floor", "ceil"):
    setattr(SymFloat, f"__{_kind}__", _method(_kind))
SymFloat.__round__ = lambda self, n=None: (  # type: ignore[method-assign]
    _symbolic("round", self) if n is None else round(self.hint, n)
)
SymFloat.__sym_int__ = _method("trunc")  # type: ignore[attr-defined]
for _kind in ("and_", "or_"):
    setattr(SymBool, f"__{_kind.strip('_')}__", _method(_kind, operands=(bool, SymBool)))
    setattr(SymBool, f"__r{_kind.strip('_')}__", _method(_kind, True, (bool, SymBool)))
for _kind in ("eq", "ne"):
    setattr(SymBool, f"__{_kind}__", _method(_kind, operands=(bool, SymBool)))
SymBool.__sym_not__ = _method("not_")  # type: ignore[attr-defined]
SymBool.__sym_ite__ = _method("ite")  # type: ignore[attr-defined]
del _class, _kind


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
        low, high = (_ENDS.get(v, str(v)) for v in (self.lower, self.upper))
        return f"VR[{low}, {high}]"

    __repr__ = __str__

    def __contains__(self, value):
        return self.lower <= value <= self.upper


_ENDS = {math.inf: "int_oo", -math.inf: "-int_oo"}


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
    of_values = False  # whether values decide the numbers: nobody may know them then

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

    def note(self, guard: Guard) -> None:
        """Writes down a comparison whose truth Python asked for."""
        self.guards.append(guard)

    def holds(self, values: dict[str, int]) -> bool:
        """Whether all comparisons come out the same for other values."""
        return all(g.holds({**self.var_to_val, **values}) for g in self.guards)


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision that needs the value of a tensor, while the program is traced."""


def is_symbolic(value) -> bool:
    """Whether a size depends on symbols."""
    return bool(free_symbols(value))


def free_symbols(value) -> set[str]:
    """The symbols of a number, of a tensor's sizes, or of all in a list."""
    if isinstance(value, (list, tuple)):
        return set().union(*map(free_symbols, value))
    if hasattr(value, "shape"):
        return free_symbols(tuple(value.shape))
    return value.expr.free_symbols if isinstance(value, _Symbolic) else set()


def has_free_symbols(value) -> bool:
    """Whether `free_symbols` finds one."""
    return bool(free_symbols(value))


def _is_concrete(value) -> bool:
    """Whether a number depends on no symbols."""
    return not free_symbols(value)


is_concrete_int = is_concrete_float = is_concrete_bool = _is_concrete


def guard_scalar(value):
    """The example's value of a number, to which the program is specialised."""
    if not isinstance(value, _Symbolic):
        return value
    if value.env is not None:
        value.env.guards.append(Guard("eq", value.expr, Expr.of(value.hint), True))
    return value.hint


guard_int = guard_float = guard_bool = guard_scalar


def statically_known_true(condition) -> bool:
    """The condition as a bool; sizes have the example's values."""
    return bool(condition)


def statically_known_false(condition) -> bool:
    """Whether a condition does not hold; sizes have the example's values."""
    return not condition


expect_true = statically_known_true


def sym_and(*conditions):
    """Whether all conditions hold, as one condition.

    >>> from ftorch.fx.experimental.symbolic_shapes import ShapeEnv, sym_and
    >>> size = ShapeEnv().create_symint(4)
    >>> sym_and(size > 2, size < 5)
    (s0 > 2) & (s0 < 5)
    """
    return functools.reduce(operator.and_, conditions) if conditions else True


def sym_or(*conditions):
    """Whether one of several conditions holds, as one condition."""
    return functools.reduce(operator.or_, conditions) if conditions else False


def sym_eq(x, y):
    """Whether two sizes, or tuples or lists of sizes, are equal."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and sym_and(*map(sym_eq, x, y))
    return x == y


def free_unbacked_symbols(value) -> set:
    """The symbols that stand for values of tensors: there are none, such values are looked at."""
    return set()


def has_free_unbacked_symbols(value) -> bool:
    """Whether `free_unbacked_symbols` finds one."""
    return False


guard_or_false = guard_or_true = guard_size_oblivious = statically_known_true


def hint_int(value, fallback=None) -> int:
    """The example's value of a size."""
    return int(value)


for _class in (SymInt, SymFloat, SymBool):
    _class.__module__ = "ftorch"  # where users find it

__all__ = [
    "Expr",
    "Guard",
    "GuardOnDataDependentSymNode",
    "ShapeEnv",
    "SymBool",
    "SymFloat",
    "SymInt",
    "ValueRanges",
    "expect_true",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "hint_int",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_symbolic",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]
