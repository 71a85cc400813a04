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
import dataclasses
import itertools
import math
import operator
from fractions import Fraction

from .._ops import ops
from .._subclasses.fake_tensor import FakeTensor, fake_like
from ..fx._sources import argument_names
from ..fx.experimental.symbolic_shapes import (
    Expr,
    Guard,
    GuardOnDataDependentSymNode,
    SymBool,
    SymFloat,
    SymInt,
)
from ..fx.graph import Graph
from ..fx.node import Node
from ..utils import _pytree as pytree
from . import _indices
from ._size_expressions import fit, fit_floor
from ._specialize import divisors, fixed, inferred, joined, renamed, settled
from ._symbols import Dynamic, Symbol, at, base, extremes, named, points, symbols_of
from ._trace import Traces, trace_module
from ._value_sizes import Draws, add_checks, forced, varying
from .dynamic_shapes import UserError, constant_line, violation
from .graph_signature import ConstantArgument, SymIntArgument

# --- the export -----------------------------------------------------------------------


def trace_dynamic(module, args, kwargs, dims, names, whole=True) -> tuple[Traces, Dynamic]:
    """The graph of a module for all sizes of a specification.

    Args:
        whole: as in `trace_module`.

    Raises:
        UserError: a size that should vary is constant for the program, or decides what it does.
    """
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def trace(new, shown=None, forced=()):
        return trace_module(module, *pytree.tree_unflatten(new, spec), whole, shown, forced)

    sources = argument_names(module.forward, args, kwargs)
    symbols = symbols_of(leaves, dims, names)
    for s in symbols:
        s.is_checked = not whole
    made = generalized(trace, leaves, symbols, names if whole else None, sources)
    _indices.settle(made[0].graph, made[0].outputs)
    return made


def generalized(trace, leaves, symbols, names=None, sources=None) -> tuple[Traces, Dynamic]:
    """The graph for all sizes.

    Args:
        trace: from inputs (and `Shown`, if there are names) to `Traces`.
        leaves: the example's inputs.
        sources: where the inputs come from, which gives symbols PyTorch's names.
        names: of the inputs in traces; then it is looked at what the user's code decides by sizes.

    Raises:
        UserError: see `trace_dynamic`.
    """
    if not symbols:
        attempt = _attempt(trace, leaves, [], [])
        if isinstance(attempt, Exception):
            raise _undecided(attempt) from attempt
        return attempt
    for s, name in zip(symbols, named(symbols, sources)):
        s.name = name
    guards: list[Guard] = []
    if names is not None:
        symbols, guards = settled(trace, leaves, symbols, names)
    attempt = _attempt(trace, leaves, symbols, guards)
    if isinstance(attempt, Exception) and any(s.is_hint or s.is_auto for s in symbols):
        symbols = _inferred(trace, leaves, symbols, guards)
        attempt = _attempt(trace, leaves, symbols, guards)
    if isinstance(attempt, Exception):
        raise _violation(trace, leaves, symbols, guards) from attempt
    own_names = named(symbols, sources)
    if [s.name for s in symbols] != own_names:
        guards = renamed(symbols, guards, own_names)
        attempt = _attempt(trace, leaves, symbols, guards)
    return attempt


def _attempt(trace, leaves, symbols, guards):
    """(traces, symbols), or the error of the first way that failed."""
    guards = fixed(guards, symbols)
    first = None
    count = 2 if len(symbols) < 2 else 2 + len(symbols)
    start = base(symbols, guards) if symbols else []
    main = at(trace, leaves, symbols, start)  # the program's own errors are its own
    dynamic = Dynamic(symbols, len(leaves), guards, main.drawn)
    if any(d.node is not None for d in main.drawn):
        return _at_other_values(trace, leaves, start, main, dynamic)
    if not symbols:
        return main, dynamic
    # Division rounds, so an expression with it is believed only after more sizes.
    for multiples, more in ((False, 0), (False, 5), (True, 0), (True, 5)):
        tried, others = [], []
        for p in extremes(symbols, guards, multiples):
            with contextlib.suppress(Exception):  # the program's own limits
                others.append(at(trace, leaves, symbols, p))
                tried.append(p)
        near = points(symbols, guards, max(count + more - len(tried), 1), multiples)
        try:
            others += [at(trace, leaves, symbols, p) for p in near]
            tried += near
            values = {s.name: [p[k] for p in (start, *tried)] for k, s in enumerate(symbols)}
            _generalize(main, others, values, dynamic, rounding=more > 0)
            if multiples:
                dynamic.guards = guards + divisors(trace, leaves, symbols, guards)
            return main, dynamic
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001  (a module can raise anything at another size)
            if isinstance(error, _Branches):
                return error
            first = first or error
            main = at(trace, leaves, symbols, start)
    return first


def _at_other_values(trace, leaves, start, main, dynamic):
    """(traces, symbols) of a program with numbers that values decide, or the error of the first way that failed."""
    symbols, guards, first = dynamic.symbols, dynamic.guards, None
    for runs in forced(main.drawn):
        near = points(symbols, guards, len(runs) + len(symbols), False) if symbols else []
        try:
            tried, numbers = [], []
            for k in range(max(len(near), len(runs))):
                tried.append(near[k % len(near)] if near else start)
                numbers.append(runs[k % len(runs)])
            others, kept = [], []
            for p, row in zip(tried, numbers):
                with contextlib.suppress(Exception):  # the program's own limits
                    others.append(at(trace, leaves, symbols, p, None, row))
                    kept.append((p, row))
            if len(kept) < 2:
                first = first or _Differs("it takes no other numbers")
                continue
            tried, numbers = map(list, zip(*kept))
            values = {s.name: [p[k] for p in (start, *tried)] for k, s in enumerate(symbols)}
            for k, d in enumerate(main.drawn):
                values[d.name] = [d.value, *(row[k] for row in numbers)]
            whole = {name: row for name, row in values.items() if isinstance(row[0], int)}
            main = at(trace, leaves, symbols, start, varying(main, others, whole))
            dynamic.drawn = main.drawn
            nodes = _generalize(main, others, values, dynamic, True)
            main.graph.eliminate_dead_code()
            add_checks(main.graph, main.drawn, nodes)
            return main, dynamic
        except (UserError, GuardOnDataDependentSymNode):
            raise
        except Exception as error:  # noqa: BLE001  (as above)
            first = first or error
            main = at(trace, leaves, symbols, start)
            dynamic.drawn = main.drawn
    return first or _Differs("no other number fits what is known of it")


def _undecided(error):
    """The error that the program does something else for other values."""
    return GuardOnDataDependentSymNode(
        f"Could not guard on data-dependent expression: {error} (unhinted: Eq(u0, 1)).  (Size-like symbols: none)"
    )


def _inferred(trace, leaves, symbols, guards):
    """The symbols with those that the program needs equal joined, and constant ones dropped."""
    for made in (inferred(trace, leaves, symbols, guards), joined(symbols, {})):
        if not isinstance(_attempt(trace, leaves, made, guards), Exception):
            return made
    kept = [s for s in made if not s.is_auto]
    for s in made:
        if s.is_auto and not isinstance(_attempt(trace, leaves, [*kept, s], guards), Exception):
            kept.append(s)
    return kept


def _violation(trace, leaves, symbols, guards):
    related = _related(trace, leaves, symbols, guards)
    if related is not None:
        return related
    bad = [
        s for s in symbols if isinstance(_attempt(trace, leaves, [s], guards), Exception)
    ] or symbols
    return violation(
        [s.label for s in bad], [constant_line(s.label, s.hint) for s in bad],
        [f"{s.label} = {s.hint}" for s in bad if "[" not in s.label],
    )


def _related(trace, leaves, symbols, guards):
    """The error that one symbol is another, or another and a number; None if that is not it."""
    for a, b in itertools.combinations(symbols, 2):
        apart = b.hint - a.hint
        both = dataclasses.replace(a, uses=[
            *a.uses, *((i, d, f, o + f * apart) for i, d, f, o in b.uses)])
        rest = [both if s is a else s for s in symbols if s is not b]
        if isinstance(_attempt(trace, leaves, rest, guards), Exception):
            continue
        sign = "" if not apart else f" {'+' if apart > 0 else '-'} {abs(apart)}"
        first, second = f"{a.label} = {a.source}", f"{b.label} = {b.source}"
        line = f"The values of {second} and {first} must always be equal."
        if apart:
            line = (f"The values of {second} must always be related to the values of {first} by "
                    f"{b.label} = {a.label}{sign}.")
        return violation([b.label], [line], [f"{b.label} = {a.label}{sign}"])
    return None


class _Differs(Exception):
    """Traces that are not the same program."""


class _Branches(_Differs):
    """Traces of which one has calls that the other has not: more sizes do not help."""


def _generalize(main: Traces, others: list[Traces], values, dynamic: Dynamic, rounding) -> dict[str, Node]:
    """Makes the graph of ``main`` one for all sizes; gives the nodes of sizes."""
    nodes = _merge_graphs([(t.graph, t.root) for t in (main, *others)], values, dynamic, rounding)
    for i, spec in enumerate(main.outputs):
        value = main.graph.output_node().args[0][i]
        if isinstance(spec.arg, ConstantArgument) and isinstance(value, Node):
            spec.arg = SymIntArgument(value.name)
    return nodes


def _merge_graphs(graphs, values, dynamic, rounding, kind=None) -> dict[str, Node]:
    """Makes the first of some (graph, what holds the graphs in it) one for all sizes; gives the nodes of sizes."""
    rows = [list(graph.nodes) for graph, _ in graphs]
    if len({len(nodes) for nodes in rows}) != 1:
        raise _Branches("the program does different things for different sizes")
    main = graphs[0][0]
    made = (kind or _Generalizer)(main, list(zip(*rows)), values, dynamic, rounding)
    made.run()
    for row in zip(*rows):
        if row[0].op == "get_attr":
            inner = [getattr(root, n.target) for (_, root), n in zip(graphs, row)]
            if hasattr(inner[0], "graph"):
                _merge_graphs([(m.graph, m) for m in inner], values, dynamic, rounding, _InnerGeneralizer)
                inner[0].recompile()
    for node in reversed(main.nodes):
        if node.op == "call_function" and not node.users and node.meta.get("is_size"):
            main.erase_node(node)
    return made.nodes


class _Generalizer:
    def __init__(self, graph: Graph, rows, values, dynamic, rounding):
        self.graph, self.rows, self.values, self.dynamic = graph, rows, values, dynamic
        self.rounding = rounding
        self.reals = {name: row for name, row in values.items() if isinstance(row[0], float)}
        self.values = {name: row for name, row in values.items() if name not in self.reals}
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
            given = self._given(node)
            node.meta["val"] = self._fake(vals) if given is None else given
        elif isinstance(vals[0], (tuple, list)):
            node.meta["val"] = tuple(self._fake(v) for v in zip(*vals))

    def _given(self, node):
        """What an input with sizes that vary is: the specification says it. None for other nodes."""
        leaf = self.inputs.index(node) - len(self.inputs) + self.dynamic.leaf_count if node in self.inputs else -1
        if leaf < 0:
            return None
        val = node.meta["val"]
        found = [self.dynamic.size(leaf, d) for d in range(val.dim())]
        return fake_like(val, [n if e is None else SymInt(n, e) for n, e in zip(val.shape, found)]) if any(found) else None

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
            i, d, factor, offset = s.shown or min(s.uses, key=lambda u: (u[2] != 1 or u[3] != 0, u[0], u[1]))
            owner = self.inputs[len(self.inputs) - self.dynamic.leaf_count + i]
            shown = Expr.symbol(s.name) * factor + offset
            node = self._size(owner, d, shown, s.hint * factor + offset, s.order + 1)
            self.nodes.setdefault(str(shown), node)
            if offset:
                node = self._operation(operator.sub, node, offset, symbol=s if factor == 1 else None)
            if factor != 1:
                node = self._operation(operator.floordiv, node, factor, symbol=s)
            self.nodes[str(Expr.symbol(s.name))] = node
        for d in self.dynamic.drawn:
            if d.node is not None and d.node.graph is self.graph:
                self.nodes[d.name] = d.node if d.dim is None else self._size_of(d)

    def _size_of(self, drawn):
        with self.graph.inserting_after(drawn.node):
            node = self.graph.call_function(ops.aten.sym_size.int, (drawn.node, drawn.dim), name="sym_size_int_1")
        node.meta.update(val=SymInt(drawn.value, drawn.name), is_size=True)
        return node

    def _size(self, owner, d, expr, value, number=0):
        name = f"sym_size_int_{number}" if number else "sym_size_int"
        with self.graph.inserting_before(self.top):
            node = self.graph.call_function(ops.aten.sym_size.int, (owner, d), name=name)
        node.meta.update(val=SymInt(value, expr), is_size=True)
        return node

    def _operation(self, function, *operands, symbol=None, before=None):
        with self.graph.inserting_before(before or self.top):
            node = self.graph.call_function(function, operands)
        values = [n.meta["val"] if isinstance(n, Node) else n for n in operands]
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
            parts = [self.emit(part, before) for part in expr.parts]
            found = self._operation(_function_of(expr.kind), *parts, before=before)
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
        if isinstance(values[0], (SymInt, SymFloat, SymBool)) and isinstance(values[0].env, Draws):
            found = self._computed(values[0].expr, node)
            if found is not None:
                return found
        values = [v.hint if isinstance(v, (SymInt, SymFloat, SymBool)) else v for v in values]
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

    def _computed(self, expr, node):
        """The node of what the program computes of its numbers, or None."""
        if not all(name in self.nodes for name in expr.free_symbols) or not _has_functions(expr):
            return None
        return self.emit(expr, node)

    def _int(self, values, node, operands):
        before = node if self.dynamic.drawn else None  # what values decide is there only then
        found = fit(values, self.values)
        if found is not None:
            return self.emit(found, before)
        by_operand = self._by_operand(values, node, operands)
        if by_operand is not None:
            return by_operand
        found = fit_floor(values, self.values) if self.rounding else None
        if found is not None:
            return self.emit(found, before)
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
        """A number that is a size's multiple, reciprocal or root, or another number's multiple."""
        for name, row in self.reals.items():
            factor = values[0] / row[0] if row[0] else 1.0
            if all(math.isclose(v, factor * n, rel_tol=1e-12) for v, n in zip(values, row)):
                return self.nodes[name] if factor == 1 else self._operation(operator.mul, self.nodes[name], factor, before=node)
        for name, sizes in self.values.items():
            for power in (1, -1, 0.5, -0.5) if all(n > 0 for n in sizes) else ():
                factor = values[0] / sizes[0] ** power
                if all(math.isclose(v, factor * n**power, rel_tol=1e-12) for v, n in zip(values, sizes)):
                    before = node if self.dynamic.drawn else self.top
                    base = self.emit(Expr.symbol(name))
                    if power != 1:
                        with self.graph.inserting_before(before):
                            base = self.graph.call_function(operator.pow, (base, power))
                        base.meta.update(val=values[0] / factor, is_size=True)
                    if factor == 1:
                        return base
                    with self.graph.inserting_before(before):
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


def _function_of(kind):
    """What nodes call for an operation of expressions; None where there is nothing."""
    named = {"round": round, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil}
    return named.get(kind) or getattr(operator, kind, None)


def _has_functions(expr) -> bool:
    """Whether nodes can compute an expression."""
    if expr.kind in ("symbol", "number"):
        return True
    return _function_of(expr.kind) is not None and all(map(_has_functions, expr.parts))


def _name(target):
    return target if isinstance(target, str) else getattr(target, "__name__", repr(target))


__all__ = ["Dynamic", "Symbol", "generalized", "trace_dynamic"]
