"""``SubgraphMatcher``: finds the parts of a graph that look like a pattern."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, field
from typing import Any

from ....eager.core.public_functions import python_of
from ....eager.tensor import TensorBase
from ...graph import Graph
from ...node import Node


@dataclass
class InternalMatch:
    """One place where a pattern was found.

    Attributes:
        anchors: the ends of the pattern: its nodes, from which the search began.
        nodes_map: {node of the pattern: node (or constant) of the graph}.
        placeholder_nodes: what the pattern's parameters stand for, in order.
        returning_nodes: the graph's nodes for the pattern's results.
        name_node_map: {a name that the pattern gives: node of the graph}.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(list(self.anchors), dict(self.nodes_map), list(self.placeholder_nodes),
                             list(self.returning_nodes), dict(self.name_node_map))


class SubgraphMatcher:
    """Looks for a pattern.

    Args:
        match_output: the pattern's output must be the graph's.
        match_placeholder: the pattern's parameters stand for parameters only.
        remove_overlapping_matches: of matches that share nodes only the first is given.
        ignore_literals: constants of the pattern stand for any constants.

    Raises:
        ValueError: the pattern is empty.
        AssertionError: it has parameters that it does not use.
    """

    def __init__(self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError(
                "SubgraphMatcher cannot be initialized with an empty pattern"
            )
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        self.output = pattern.output_node()
        self.placeholders = [n for n in pattern.nodes if n.op == "placeholder"]
        self.returning = self.output.all_input_nodes
        if match_output:
            self.anchors = [self.output]
        else:
            self.anchors = [n for n in self.returning if len(n.users) == 1]

    # --- nodes and arguments

    def _alike(self, p: Node, g: Node) -> bool:
        if p.op == "placeholder" and not self.match_placeholder:
            return True
        if p.op != g.op:
            return False
        if p.op in ("placeholder", "output"):
            return True
        if p.op == "get_attr":
            return self._attributes_alike(p, g)
        return p.target == g.target

    @staticmethod
    def _attributes_alike(p, g):
        values = []
        for node in (p, g):
            value = node.graph.owning_module
            if value is None:
                return p.target == g.target
            for part in str(node.target).split("."):
                value = getattr(value, part, None)
            values.append(value)
        a, b = values
        if type(a) is not type(b):
            return False
        return isinstance(a, TensorBase) or p.target == g.target or a is b  # tensors need not have the same values

    def _match(self, p: Any, g: Any, match: InternalMatch) -> bool:
        """Whether a pattern's node or argument fits the graph's; extends the match."""
        if isinstance(p, Node):
            return self._match_node(p, g, match)
        if isinstance(g, Node):
            return False
        if isinstance(p, (list, tuple)) and isinstance(g, (list, tuple)):
            return len(p) == len(g) and all(self._match(a, b, match) for a, b in zip(p, g))
        if isinstance(p, dict) and isinstance(g, dict):
            return p.keys() == g.keys() and all(self._match(v, g[k], match) for k, v in p.items())
        if isinstance(p, slice) and isinstance(g, slice):
            parts = lambda s: (s.start, s.stop, s.step)  # noqa: E731
            return self._match(parts(p), parts(g), match)
        return self.ignore_literals or (type(p) is type(g) and p == g)

    def _match_node(self, p, g, match):
        if p in match.nodes_map:
            return match.nodes_map[p] is g or (not isinstance(g, Node) and match.nodes_map[p] == g)
        if not isinstance(g, Node):
            if p.op != "placeholder" or self.match_placeholder:
                return False
            match.nodes_map[p] = g
            return True
        if any(v is g for v in match.nodes_map.values()) or not self._alike(p, g):
            return False
        match.nodes_map[p] = g
        if p.op == "placeholder":
            return True
        before = dict(match.nodes_map)
        args, kwargs = _comparable(p, g)
        if self._match(args[0], args[1], match) and self._match(kwargs[0], kwargs[1], match):
            return True
        match.nodes_map = before
        del match.nodes_map[p]
        return False

    def _is_contained(self, match: InternalMatch) -> bool:
        """Whether nobody outside uses the inside."""
        inside = {v for k, v in match.nodes_map.items() if k.op != "placeholder"}
        for p, g in match.nodes_map.items():
            if p.op in ("placeholder", "get_attr", "output") or p in self.returning:
                continue
            if any(user not in inside for user in g.users):
                return False
        return True

    # --- the search

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places where the pattern is in a graph.

        Args:
            node_name_match: only nodes whose name has this are ends of the pattern.
        """
        found: list[InternalMatch] = []
        self._search(graph, 0, InternalMatch(anchors=self.anchors), found, node_name_match)
        found = [m for m in found if self._is_contained(m)]
        if self.remove_overlapping_matches:
            found = self._without_overlaps(found)
        return found

    def _search(self, graph, i, match, found, name):
        if i == len(self.anchors):
            complete = copy.copy(match)
            complete.placeholder_nodes = [match.nodes_map[p] for p in self.placeholders
                                          if p in match.nodes_map]
            complete.returning_nodes = [match.nodes_map[n] for n in self.returning]
            found.append(complete)
            return
        anchor = self.anchors[i]
        for node in graph.nodes:
            if name and name not in node.name:
                continue
            if anchor.op == "placeholder" or not self._alike(anchor, node):
                continue
            trial = copy.copy(match)
            if self._match_node(anchor, node, trial):
                self._search(graph, i + 1, trial, found, name)

    @staticmethod
    def _without_overlaps(found):
        kept, taken = [], set()
        for match in found:
            inside = {g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")}
            if not inside & taken:
                taken |= inside
                kept.append(match)
        return kept


def _comparable(p: Node, g: Node):
    """The arguments of two calls in one form: ``f(x, 1)`` is ``f(x, dim=1)``."""
    same = len(p.args) == len(g.args) and p.kwargs.keys() == g.kwargs.keys()
    if not same and p.op == "call_function":
        from ...operator_schemas import get_signature_for_torch_op

        signatures = get_signature_for_torch_op(p.target) or _own_signature(p.target)
        for signature in signatures:
            try:
                bound = [signature.bind(*n.args, **n.kwargs) for n in (p, g)]
            except TypeError:
                continue
            for b in bound:
                b.apply_defaults()
            return ((), ()), tuple(dict(b.arguments) for b in bound)
    return (p.args, g.args), (dict(p.kwargs), dict(g.kwargs))


def _own_signature(function):
    try:
        return [inspect.signature(python_of(function))]
    except (TypeError, ValueError):
        return []


__all__ = ["InternalMatch", "SubgraphMatcher"]
