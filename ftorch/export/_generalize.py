"""Graphs for all sizes, from graphs for a few: the module is traced at several sizes and compared.

The engine keeps shapes as plain interned ints, in the keys of its plans and caches, so symbols cannot
travel through it. Instead the same module is traced at the example's sizes and at two or three others.
The graphs have to be the same but for numbers; each number that differs is expressed by the symbolic
sizes (``2*s0 + 1``, ``s0*s1``, ``s0//2``) or by the sizes of the node's own operands, and the expression
has to be right in every trace. So whatever the engine does with sizes is covered, and a program whose
control flow depends on them is found out rather than specialised silently.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .._ops import ops
from .._subclasses.fake_tensor import FakeTensor, fake_like
from ..eager.tensor import TensorBase
from ..fx.experimental.symbolic_shapes import Expr, SymInt, ValueRanges
from ..fx.graph import Graph
from ..fx.node import Node
from ..random import fork_rng
from ..utils import _pytree as pytree
from ._fit import fit, fit_floor
from ._trace import Traces, trace_module
from .dynamic_shapes import UserError, _DerivedDim, _DimHint
from .graph_signature import ConstantArgument, SymIntArgument


@dataclass
class Symbol:
    """A size that varies.

    Attributes:
        label: how messages call it.
        hint: its value in the example.
        uses: (leaf, dimension, factor, offset) of the inputs' sizes that it gives.
        is_auto: it may turn out to be constant.
    """

    label: str
    hint: int
    low: int = 0
    high: float = math.inf
    uses: list[tuple[int, int, int, int]] = field(default_factory=list)
    is_auto: bool = False
    name: str = ""

    def constrain(self, low, high):
        self.low, self.high = max(self.low, low), min(self.high, high)


@dataclass
class Dynamic:
    """The symbols of an exported program, and which sizes of the inputs they give."""

    symbols: list[Symbol]
    leaf_count: int = 0

    @property
    def range_constraints(self) -> dict[Expr, ValueRanges]:
        """{symbol: its range}."""
        return {Expr.symbol(s.name): ValueRanges(s.low, s.high) for s in self.symbols}

    def size(self, leaf: int, dim: int) -> Expr | None:
        """The expression of an input's size; None if it is constant."""
        for s in self.symbols:
            for i, d, factor, offset in s.uses:
                if (i, d) == (leaf, dim):
                    return Expr.symbol(s.name) * factor + offset
        return None


# --- symbols --------------------------------------------------------------------------


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
                symbol = Symbol(f"L['{names[i]}'].size()[{d}]", size, is_auto=dim.kind == "AUTO")
                symbol.constrain(dim.min or 2, math.inf if dim.max is None else dim.max)
                symbol.uses.append((i, d, 1, 0))
                found[(i, d)] = symbol
                continue
            root, factor, offset = dim, 1, 0
            if isinstance(dim, _DerivedDim):
                root, factor, offset = dim.root, dim.factor, dim.offset
            hint = dim.root_of(size) if isinstance(dim, _DerivedDim) else size
            symbol = found.setdefault(root.__name__, Symbol(root.__name__, hint))
            if symbol.hint != hint:
                raise UserError(
                    f"Constraints violated ({root.__name__})! The values of {root.__name__} = "
                    f"{symbol.hint} and {root.__name__} = {hint} must always be equal, but the "
                    f"example has both."
                )
            if not root.min <= hint <= root.max:
                raise UserError(
                    f"Constraints violated ({root.__name__})! The example's size {hint} is not in "
                    f"the range [{root.min}, {root.max}]."
                )
            symbol.constrain(root.min, root.max)
            symbol.uses.append((i, d, factor, offset))
    return list(found.values())


def _resized(leaf, sizes: dict[int, int]):
    """The example with other sizes: its elements repeated or cut."""
    from ..eager import api

    for d, n in sizes.items():
        have = leaf.shape[d]
        if have != n:
            index = api.arange(n, device=leaf.device)
            leaf = (
                leaf.index_select(d, index % have) if have else leaf.new_zeros(
                    [n if i == d else m for i, m in enumerate(leaf.shape)]
                )
            )  # fmt: skip
    return leaf


def _at(trace, leaves, symbols, point) -> Traces:
    """A trace at the sizes of a point ({symbol's index: value})."""
    sizes: list[dict[int, int]] = [{} for _ in leaves]
    for s, value in zip(symbols, point):
        for i, d, factor, offset in s.uses:
            sizes[i][d] = factor * value + offset
    new = [
        _resized(leaf.detach(), size).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, TensorBase) and size else leaf
        for leaf, size in zip(leaves, sizes)
    ]  # fmt: skip
    with fork_rng(devices=[]):  # what it draws is drawn when the program runs
        return trace(new)


def _choices(symbol: Symbol, multiples: bool, start: int) -> list[int]:
    """Other values to try: near the example's, or its multiples; never 0 and 1."""
    hint = max(symbol.hint, 2)
    near = range(hint + 1, hint + 40) if not multiples else range(2 * hint, 12 * hint, hint)
    below = range(hint - 1, 1, -1) if not multiples else ()
    fits = [n for n in itertools.chain(near, below) if symbol.low <= n <= symbol.high]
    fits = fits[start % max(len(fits), 1) :] + fits[: start % max(len(fits), 1)]
    return fits


# How far each symbol is from the example's value, trial by trial: no two are in proportion.
_STEPS = ((0, 1, 3, 6, 4, 8, 2, 5, 9), (2, 0, 4, 1, 7, 3, 9, 6, 5), (1, 4, 0, 7, 2, 9, 5, 3, 8),
          (3, 2, 7, 0, 5, 1, 8, 4, 6))  # fmt: skip


def _points(symbols, count, multiples):
    """``count`` points beside the example's."""
    points = []
    for trial in range(count):
        point = []
        for k, s in enumerate(symbols):
            steps = _STEPS[k % len(_STEPS)]
            choices = _choices(s, multiples, steps[trial % len(steps)] + trial * (k // len(_STEPS)))
            point.append(choices[0] if choices else s.hint)
        points.append(point)
    return points


def _extremes(symbols, multiples):
    """Points where a branch, a bound or a rounding shows that nearby sizes do not: the least, and a large one."""
    least = [max(s.low, 2) for s in symbols]
    far = [s.hint * (13 + k) if multiples else s.hint + 37 + 2 * k for k, s in enumerate(symbols)]
    points = [far] if multiples else [least, far]
    return [
        [int(min(n, max(s.high - 1, s.low))) for n, s in zip(point, symbols)] for point in points
    ]


def _base(symbols):
    """The example's point, away from 0 and 1."""
    return [s.hint if s.hint > 1 else next(iter(_choices(s, False, 0)), s.hint) for s in symbols]


# --- the export -----------------------------------------------------------------------


def trace_dynamic(module, args, kwargs, dims, names, whole=True) -> tuple[Traces, Dynamic]:
    """The graph of a module for all sizes of a specification.

    Args:
        whole: as in `trace_module`.

    Raises:
        UserError: a size that should vary is constant for the program, or decides what it does.
    """
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def trace(new):
        return trace_module(module, *pytree.tree_unflatten(new, spec), whole)

    return generalized(trace, leaves, symbols_of(leaves, dims, names))


def generalized(trace, leaves, symbols) -> tuple[Traces, Dynamic]:
    """The graph for all sizes.

    Args:
        trace: from inputs to `Traces`.
        leaves: the example's inputs.

    Raises:
        UserError: see `trace_dynamic`.
    """
    attempt = _attempt(trace, leaves, symbols)
    if isinstance(attempt, Exception) and any(s.is_auto for s in symbols):
        symbols = _inferred(trace, leaves, symbols)
        attempt = _attempt(trace, leaves, symbols)
    if isinstance(attempt, Exception):
        raise _violation(trace, leaves, symbols, attempt) from attempt
    return attempt


def _attempt(trace, leaves, symbols):
    """(traces, symbols), or the error of the first way that failed."""
    for i, s in enumerate(symbols):
        s.name = f"s{i}"
    first = None
    count = 2 if len(symbols) < 2 else 2 + len(symbols)
    if not symbols:
        return _at(trace, leaves, symbols, []), Dynamic([], len(leaves))
    base = _base(symbols)
    main = _at(trace, leaves, symbols, base)  # the program's own errors are its own
    dynamic = Dynamic(symbols, len(leaves))
    # Division rounds, so an expression with it is believed only after more sizes.
    for multiples, more in ((False, 0), (False, 5), (True, 0), (True, 5)):
        points, others = [], []
        for p in _extremes(symbols, multiples):
            with contextlib.suppress(Exception):  # the program's own limits
                others.append(_at(trace, leaves, symbols, p))
                points.append(p)
        near = _points(symbols, max(count + more - len(points), 1), multiples)
        try:
            others += [_at(trace, leaves, symbols, p) for p in near]
            points += near
            values = {s.name: [p[k] for p in (base, *points)] for k, s in enumerate(symbols)}
            _generalize(main, others, values, dynamic, rounding=more > 0)
            return main, dynamic
        except Exception as error:  # noqa: BLE001  (a module can raise anything at another size)
            if isinstance(error, _Branches):
                return error
            first = first or error
            main = _at(trace, leaves, symbols, base)
    return first


def _inferred(trace, leaves, symbols):
    """The symbols with those that the program needs equal joined, and constant ones dropped."""
    joined: dict[Any, Symbol] = {}
    for s in symbols:
        key = ("auto", s.hint) if s.is_auto else s.label
        if key in joined:
            joined[key].uses += s.uses
            joined[key].constrain(s.low, s.high)
        else:
            joined[key] = s
    symbols = list(joined.values())
    if not isinstance(_attempt(trace, leaves, symbols), Exception):
        return symbols
    kept = [s for s in symbols if not s.is_auto]
    for s in symbols:
        if s.is_auto and not isinstance(_attempt(trace, leaves, [*kept, s]), Exception):
            kept.append(s)
    return kept


def _violation(trace, leaves, symbols, error):
    bad = [
        s for s in symbols if isinstance(_attempt(trace, leaves, [s]), Exception)
    ] or symbols  # fmt: skip
    for i, s in enumerate(symbols):
        s.name = f"s{i}"
    labels = ", ".join(s.label for s in bad)
    lines = [
        f"  - You marked {s.label} as dynamic but your code specialized it to be a constant "
        f"({s.hint}). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic. If "
        "you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO."
        for s in bad
    ]
    fixes = [f"  {s.label} = {s.hint}" for s in bad if "[" not in s.label]
    text = f'Constraints violated ({labels})! For more information, run with TORCH_LOGS="+dynamic".\n'
    text += "\n".join(lines)
    if fixes:
        text += "\nSuggested fixes:\n" + "\n".join(fixes)
    return UserError(f"{text}\n\nAt other sizes: {type(error).__name__}: {error}")


class _Differs(Exception):
    """Traces that are not the same program."""


class _Branches(_Differs):
    """Traces of which one has calls that the other has not: more sizes do not help."""


def _generalize(main: Traces, others: list[Traces], values, dynamic: Dynamic, rounding) -> None:
    """Makes the graph of ``main`` one for all sizes."""
    _merge_graphs([(t.graph, t.root) for t in (main, *others)], values, dynamic, rounding)
    for i, spec in enumerate(main.outputs):
        value = main.graph.output_node().args[0][i]
        if isinstance(spec.arg, ConstantArgument) and isinstance(value, Node):
            spec.arg = SymIntArgument(value.name)


def _merge_graphs(graphs, values, dynamic, rounding, kind=None) -> None:
    """Makes the first of some (graph, what holds the graphs in it) one for all sizes."""
    rows = [list(graph.nodes) for graph, _ in graphs]
    if len({len(nodes) for nodes in rows}) != 1:
        raise _Branches("the program does different things for different sizes")
    main = graphs[0][0]
    (kind or _Generalizer)(main, list(zip(*rows)), values, dynamic, rounding).run()
    for row in zip(*rows):
        if row[0].op == "get_attr":
            inner = [getattr(root, n.target) for (_, root), n in zip(graphs, row)]
            if hasattr(inner[0], "graph"):
                _merge_graphs([(m.graph, m) for m in inner], values, dynamic, rounding, _InnerGeneralizer)
                inner[0].recompile()
    for node in reversed(main.nodes):
        if node.op == "call_function" and not node.users and node.meta.get("is_size"):
            main.erase_node(node)


class _Generalizer:
    def __init__(self, graph: Graph, rows, values, dynamic, rounding):
        self.graph, self.rows, self.values, self.dynamic = graph, rows, values, dynamic
        self.rounding = rounding
        self.nodes: dict[str, Node] = {}
        self.twins = {row[0]: row for row in rows}
        placeholders = [row for row in rows if row[0].op == "placeholder"]
        self.top = next((row[0] for row in rows if row[0].op != "placeholder"), None)
        self.inputs = [row[0] for row in placeholders]

    def run(self):
        for row in self.rows:
            self._metadata(row)
        self._sizes_of_inputs()
        for row in self.rows:
            self._row(row)

    # --- what nodes compute

    def _metadata(self, row):
        vals = [node.meta.get("val") for node in row]
        node = row[0]
        if isinstance(vals[0], FakeTensor):
            node.meta["val"] = self._fake(vals)
        elif isinstance(vals[0], tuple):
            node.meta["val"] = tuple(self._fake(v) for v in zip(*vals))

    def _fake(self, vals):
        if any(v.dim() != vals[0].dim() or v.dtype != vals[0].dtype for v in vals):
            raise _Differs("a result has another rank or dtype at another size")
        sizes = []
        for numbers in zip(*(tuple(v.shape) for v in vals)):
            if len(set(numbers)) == 1:
                sizes.append(numbers[0])
                continue
            found = fit(numbers, self.values) or fit_floor(numbers, self.values)
            sizes.append(SymInt(numbers[0], found or f"u{len(self.nodes)}"))
        return fake_like(vals[0], sizes if any(isinstance(n, SymInt) for n in sizes) else None)

    # --- nodes of sizes

    def _sizes_of_inputs(self):
        for s in self.dynamic.symbols:
            i, d, factor, offset = min(s.uses, key=lambda u: (u[2] != 1 or u[3] != 0, u[0], u[1]))
            owner = self.inputs[len(self.inputs) - self.dynamic.leaf_count + i]
            node = self._size(owner, d, Expr.symbol(s.name) * factor + offset, s.hint * factor + offset)
            if offset:
                node = self._operation(operator.sub, node, offset, s)
            if factor != 1:
                node = self._operation(operator.floordiv, node, factor, s)
            self.nodes[str(Expr.symbol(s.name))] = node

    def _size(self, owner, d, expr, value):
        with self.graph.inserting_before(self.top):
            node = self.graph.call_function(ops.aten.sym_size.int, (owner, d), name="sym_size_int")
        node.meta.update(val=SymInt(value, expr), is_size=True)
        return node

    def _operation(self, function, left, right, symbol=None, expr=None, before=None):
        with self.graph.inserting_before(before or self.top):
            node = self.graph.call_function(function, (left, right))
        values = [n.meta["val"] if isinstance(n, Node) else n for n in (left, right)]
        made = function(*values)
        if symbol is not None:
            made = SymInt(int(made), Expr.symbol(symbol.name))
        node.meta.update(val=made, is_size=True)
        return node

    def emit(self, expr: Expr, before=None):
        """The node of an expression; a number as it is."""
        if expr.kind == "number":
            return expr.parts[0]
        found = self.nodes.get(str(expr))
        if found is None:
            left, right = (self.emit(part) for part in expr.parts)
            found = self._operation(getattr(operator, expr.kind), left, right)
            self.nodes[str(expr)] = found
        return found

    # --- numbers in calls

    def _row(self, row):
        node = row[0]
        if any(n.op != node.op or _name(n.target) != _name(node.target) for n in row[1:]):
            raise _Branches(f"the program calls {_name(node.target)} only at some sizes")
        if node.op == "placeholder":
            return
        operands = list(node.all_input_nodes)
        args = self._merge([n.args for n in row], node, operands)
        kwargs = self._merge([dict(n.kwargs) for n in row], node, operands)
        node.args, node.kwargs = args, kwargs

    def _merge(self, values, node, operands):
        first = values[0]
        if isinstance(first, Node):
            return first
        if isinstance(first, (list, tuple)):
            if len({len(v) for v in values}) != 1:
                raise _Differs(f"{node.name} has lists of different lengths at different sizes")
            merged = [self._merge(list(parts), node, operands) for parts in zip(*values)]
            return tuple(merged) if isinstance(first, tuple) else merged
        if isinstance(first, dict):
            return {k: self._merge([v[k] for v in values], node, operands) for k in first}
        if all(type(v) is type(first) and v == first for v in values):
            return first
        if all(type(v) is int for v in values):
            return self._int(values, node, operands)
        if all(type(v) in (int, float) for v in values):
            return self._float(values, node)
        raise _Differs(f"{node.name} has other arguments at other sizes: {values}")

    def _int(self, values, node, operands):
        found = fit(values, self.values)
        if found is not None:
            return self.emit(found)
        by_operand = self._by_operand(values, node, operands)
        if by_operand is not None:
            return by_operand
        found = fit_floor(values, self.values) if self.rounding else None
        if found is not None:
            return self.emit(found)
        raise _Differs(f"{node.name}: cannot tell how {values} depends on the sizes {self.values}")

    def _by_operand(self, values, node, operands):
        """The number as a multiple of a size of an operand, or of a product of its sizes."""
        for operand in operands:
            vals = [n.meta.get("val") for n in self.twins.get(operand, ())]
            if not vals or not all(isinstance(v, FakeTensor) for v in vals):
                continue
            sizes = list(zip(*([int(n) for n in v.shape] for v in vals)))
            for start, stop in itertools.combinations(range(len(sizes) + 1), 2):
                product = [math.prod(s[t] for s in sizes[start:stop]) for t in range(len(values))]
                if 0 in product or len(set(product)) == 1:
                    continue
                ratios = {Fraction(v, p) for v, p in zip(values, product)}
                if len(ratios) == 1:
                    return self._scaled(operand, range(start, stop), ratios.pop(), node)
        return None

    def _scaled(self, operand, dims, ratio, before):
        out = None
        for d in dims:
            with self.graph.inserting_before(before):
                size = self.graph.call_function(
                    ops.aten.sym_size.int, (operand, d), name="sym_size_int"
                )
            size.meta.update(val=operand.meta["val"].shape[d], is_size=True)
            out = size if out is None else self._operation(operator.mul, out, size, before=before)
        if ratio.numerator != 1:
            out = self._operation(operator.mul, out, ratio.numerator, before=before)
        if ratio.denominator != 1:
            out = self._operation(operator.floordiv, out, ratio.denominator, before=before)
        return out

    def _float(self, values, node):
        """A number that is a size's multiple, reciprocal or root."""
        for name, sizes in self.values.items():
            for power in (1, -1, 0.5, -0.5):
                factor = values[0] / sizes[0] ** power
                if all(math.isclose(v, factor * n**power, rel_tol=1e-12) for v, n in zip(values, sizes)):
                    base = self.emit(Expr.symbol(name))
                    if power != 1:
                        with self.graph.inserting_before(self.top):
                            base = self.graph.call_function(operator.pow, (base, power))
                        base.meta.update(val=values[0] / factor, is_size=True)
                    if factor == 1:
                        return base
                    with self.graph.inserting_before(self.top):
                        out = self.graph.call_function(operator.mul, (base, factor))
                    out.meta.update(val=values[0], is_size=True)
                    return out
        raise _Differs(f"{node.name}: cannot tell how {values} depends on the sizes {self.values}")


class _InnerGeneralizer(_Generalizer):
    """The same for a graph in the graph, which finds sizes at its own inputs."""

    def _sizes_of_inputs(self):
        for node in self.inputs:
            shape = getattr(node.meta.get("val"), "shape", ())
            for d, n in enumerate(shape):
                if isinstance(n, SymInt) and n.expr.kind == "symbol" and str(n.expr) not in self.nodes:
                    self.nodes[str(n.expr)] = self._size(node, d, n.expr, int(n))

    def emit(self, expr, before=None):
        if expr.kind == "symbol" and str(expr) not in self.nodes:
            raise _Differs(f"a function of a control flow operator reads the size {expr} of no operand")
        return super().emit(expr, before)


def _name(target):
    return target if isinstance(target, str) else getattr(target, "__name__", repr(target))


__all__ = ["Dynamic", "Symbol", "generalized", "trace_dynamic"]
