"""Backed symbols: integers and sizes that vary from call to call are symbols of a backend's graph, as in PyTorch.

A call is recorded with its numbers as they are. When a graph comes again that differs from an earlier one in integers
alone, those that follow from what varied (arguments, sizes of inputs) are inputs of the next graph that the backend
gets: `Varying`. A later call takes the same function if its recorded graph has just the integers that these inputs
give, so a guess that was wrong costs a compilation and never a result.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any

from ...eager.core.dtype import float64
from ...eager.tensor import Tensor, TensorBase
from ...eager.tensor_api.from_data import tensor
from ...fx import GraphModule
from ...fx.experimental.symbolic_shapes import Expr, ShapeEnv, SymInt
from ...fx.node import Node, map_aggregate
from .graph_builder import input_name

_BY_NUMBER = (
    (operator.add, lambda a, b: b - a),
    (operator.mul, lambda a, b: b // a if a and b % a == 0 else None),
    (operator.floordiv, lambda a, b: a // b if b and a // b > 1 else None),
)
_NUMBERS = (int, float)
_LIKELY = 5  # a number of at least this is taken for the one size that equals it


class Sample:
    """A recorded graph with its numbers taken out.

    Attributes:
        skeleton: what is left of the graph. ``numbers``: the integers among its arguments, in order.
        values: {("leaf", i) or ("size", input, dimension): number} of what may vary.
    """

    def __init__(self, module: GraphModule, takes, leaves):
        self.numbers: list[int] = []

        def taken(a):
            if type(a) in _NUMBERS:
                self.numbers.append(a)
                return "#"
            return a.name if isinstance(a, Node) else a

        self.skeleton = tuple(
            (n.op, n.name, str(n.target), str(map_aggregate(n.args, taken)), str(map_aggregate(n.kwargs, taken)))
            for n in module.graph.nodes
        )
        inputs = [s.get(leaves) for s in takes]
        self.dtypes = tuple(t.dtype for t in inputs)
        self.values = {("leaf", i): v for i, v in enumerate(leaves) if type(v) in _NUMBERS}
        self.sources = [(s.key if s.kind == "argument" else id(s.holder)) for s in takes]
        for k, t in enumerate(inputs):
            self.values.update({("size", k, d): n for d, n in enumerate(t.shape)})

    def place_in(self, history, place):
        """The values that a place has had in earlier calls of the function, whatever their graphs."""
        where = place if place[0] == "leaf" else ("size", self.sources[place[1]], place[2])
        return history.setdefault(where, [])

    @property
    def key(self):
        """Graphs of equal keys differ in numbers alone."""
        return self.skeleton, self.dtypes, tuple(self.values)


class Varying:
    """Which numbers of a graph are symbols, and how its other numbers follow from these.

    Attributes:
        symbols: the groups of varying numbers, each of equal ones; a group's first member is its value's place.
        rules: {place among the graph's numbers: (function, places of operands or numbers)}.
    """

    def __init__(self, sample: Sample, varying, others):
        groups: dict[Any, list] = {}
        for place in varying:
            by = sample.values[place] if place[0] == "size" else place
            groups.setdefault(by, []).append(place)
        self.symbols = list(groups.values())
        self.sample = sample
        self.rules: dict[int, tuple] = {}
        for at, number in enumerate(sample.numbers):
            rule = self._rule(at, number, others)
            if rule is not None:
                self.rules[at] = rule

    def _rule(self, at, number, others):
        seen = [(o.values, o.numbers[at]) for o in others]
        heads = [group[0] for group in self.symbols]
        if not others:
            found = [p for p in heads if self.sample.values[p] == number and (p[0] == "leaf" or number >= _LIKELY)]
            return ("same", found[0]) if len(found) == 1 else None
        if all(_same(n, number) for _, n in seen):
            return None
        now = self.sample.values
        for head in heads:
            if now[head] == number and all(v[head] == n for v, n in seen):
                return "same", head
        heads = [h for h in heads if type(now[h]) is int and type(number) is int]
        for head in heads:
            for function, solved in _BY_NUMBER:
                other = solved(now[head], number)
                if other is not None and function(now[head], other) == number and (
                    all(function(v[head], other) == n for v, n in seen)
                ):
                    return function, head, other
        for i, a in enumerate(heads):
            for b in heads[i:]:
                for function in (operator.mul, operator.add):
                    if function(now[a], now[b]) == number and all(function(v[a], v[b]) == n for v, n in seen):
                        return function, a, b
        return None

    def fits(self, sample: Sample) -> bool:
        """Whether a graph is this one with other values of the symbols."""
        values, free = sample.values, set()
        for group in self.symbols:
            value = values[group[0]]
            if len({values[p] for p in group}) > 1 or value in (0, 1) or type(value) is not type(self.sample.values[group[0]]):
                return False
            free.update(group)
        if any(not _same(values[p], v) for p, v in self.sample.values.items() if p not in free):
            return False
        return all(
            _same(n, self._value(self.rules[at], values) if at in self.rules else self.sample.numbers[at])
            for at, n in enumerate(sample.numbers)
        )

    @staticmethod
    def _value(rule, values):
        operands = [values[o] if isinstance(o, tuple) else o for o in rule[1:]]
        return operands[0] if rule[0] == "same" else rule[0](*operands)

    def module(self, module: GraphModule, takes, names):
        """(the graph with its symbols as inputs, where each input comes from: a symbol's place or a tensor's number)."""
        graph, values = module.graph, self.sample.values
        inputs = graph.find_nodes(op="placeholder")
        sources = [names.of(s) for s in takes]
        places = [group[0] for group in self.symbols]
        sizes = [p for p in places if p[0] == "size"]
        titles = dict(zip(sizes, _named([f"{sources[p[1]]}.size()[{p[2]}]" for p in sizes])))
        nodes, floats, order = {}, [], []
        numbers = {node: i for i, node in enumerate(graph.nodes)}
        uses = self._first_uses(graph, numbers)
        for place in places:
            if place[0] == "size":
                before, title = inputs[place[1]], titles[place]
            else:
                used = uses.get(place, len(numbers))
                later = [n for n in inputs if min((numbers[u] for u in n.users), default=0) > used]
                before = later[0] if later else inputs[-1].next if inputs else next(iter(graph.nodes))
                title = input_name(names.arguments[place[1]])
            is_float = type(values[place]) is float
            with graph.inserting_before(before):
                node = graph.placeholder(title, Tensor if is_float else SymInt)
            if is_float:  # PyTorch's graphs take floats as tensors
                floats.append(node)
            else:
                node.meta["example_value"] = SymInt(values[place], Expr.symbol(titles.get(place, title)), ShapeEnv())
            nodes[place] = node
        of = {node: place for place, node in nodes.items()} | {node: k for k, node in enumerate(inputs)}
        order = [of[n] for n in graph.find_nodes(op="placeholder")]
        first = next(n for n in graph.nodes if n.op != "placeholder")
        for node in floats:
            with graph.inserting_before(first):
                nodes[of[node]] = graph.call_method("item", (node,))
        self._use(graph, nodes, floats)
        return GraphModule(module, graph, "GraphModule"), order

    def _first_uses(self, graph, numbers):
        """{place: the number of the first node that uses it}: inputs come in the order of their uses."""
        found: dict = {}
        at = 0
        for node in graph.nodes:

            def seen(a, node=node):
                nonlocal at
                if type(a) in _NUMBERS:
                    for place in self.rules.get(at, ())[1:]:
                        found.setdefault(place, numbers[node])
                    at += 1
                return a

            map_aggregate(node.args, seen)
            map_aggregate(node.kwargs, seen)
        return found

    def _use(self, graph, nodes, floats):
        at = 0
        for node in list(graph.nodes):
            if node in nodes.values() or node.op == "call_method" and node.target == "item" and node.args[0] in floats:
                continue

            def used(a, node=node):
                nonlocal at
                if type(a) not in _NUMBERS:
                    return a
                rule, at = self.rules.get(at), at + 1
                if rule is None:
                    return a
                operands = tuple(nodes[o] if isinstance(o, tuple) else o for o in rule[1:])
                if rule[0] == "same":
                    return operands[0]
                with graph.inserting_before(node):
                    return graph.call_function(rule[0], operands)

            node.args = map_aggregate(node.args, used)
            node.kwargs = map_aggregate(node.kwargs, used)

    def examples(self, order, tensors):
        """The inputs that a backend is shown: symbols and tensors."""
        shown = []
        for place in order:
            if isinstance(place, tuple) and type(self.sample.values[place]) is float:
                shown.append(_of_float(self.sample.values[place]))
            elif isinstance(place, tuple):
                shown.append(SymInt(self.sample.values[place], Expr.symbol(f"s{len(shown)}"), ShapeEnv()))
            else:
                shown.append(tensors[place])
        return shown


def _named(sources):
    """PyTorch's names of the sizes of some places."""
    names: list[str] = []
    for source in sources:
        number = int(hashlib.sha256(source.encode()).hexdigest(), 16) % 100
        while f"s{number}" in names:
            number += 1
        names.append(f"s{number}")
    return names


def inputs_of(order, tensors, leaves):
    """The inputs of a graph's function: numbers and tensors, in order."""
    if order is None:
        return tensors
    found = []
    for place in order:
        if not isinstance(place, tuple):
            found.append(tensors[place])
        elif place[0] == "leaf":
            value = leaves[place[1]]
            found.append(_of_float(value) if type(value) is float else value)
        else:
            found.append(int(tensors[place[1]].shape[place[2]]))
    return found


def _of_float(value):
    return tensor(value, dtype=float64)


def _same(a, b):
    return type(a) is type(b) and (a == b and (a != 0 or str(a) == str(b)) or a != a and b != b)


def varied(sample: Sample, history, leaves, takes, everything=False) -> list:
    """The places of numbers that are not those of earlier calls, or that the user said vary.

    Args:
        history: {place: the values it has had}, which gets this call's.
    """
    found = []
    for place, value in sample.values.items():
        earlier = sample.place_in(history, place)
        has_varied = any(not _same(v, value) for v in earlier)
        is_one = type(value) is int and value in (0, 1)
        # A size of one may broadcast: it stays what it is.
        if has_varied and (place[0] == "leaf" or not is_one) or not is_one and (
            everything or _is_marked(place, leaves, takes)
        ):
            found.append(place)
        if not (is_one and place[0] == "size") and not any(_same(v, value) for v in earlier) and len(earlier) < 2:
            earlier.append(value)
    return found


def _is_marked(place, leaves, takes):
    if place[0] != "size":
        return False
    t = takes[place[1]].get(leaves)
    return isinstance(t, TensorBase) and place[2] in (getattr(t, "_dynamo_dynamic_indices", None) or ())


__all__ = ["Sample", "Varying", "inputs_of", "varied"]
