"""The graph of modules that need each other (``torch.package._digraph``)."""

from __future__ import annotations

from collections import deque


class DiGraph:
    """A graph of directed edges between hashable nodes with attributes, in the order in which they came."""

    def __init__(self):
        self._node: dict = {}
        self._succ: dict = {}
        self._pred: dict = {}

    def add_node(self, n, **attributes) -> None:
        """Adds a node, or attributes to one that is there."""
        if n not in self._node:
            self._node[n], self._succ[n], self._pred[n] = {}, {}, {}
        self._node[n].update(attributes)

    def add_edge(self, u, v) -> None:
        """Adds an edge, and its nodes where they are missing."""
        self.add_node(u)
        self.add_node(v)
        self._succ[u][v] = self._pred[v][u] = True

    def _of(self, table, n):
        if n not in table:
            raise ValueError(f"The node {n} is not in the digraph.")
        return iter(table[n])

    def successors(self, n):
        """The nodes that edges of a node lead to. Raises ValueError for no node."""
        return self._of(self._succ, n)

    def predecessors(self, n):
        """The nodes whose edges lead to a node. Raises ValueError for no node."""
        return self._of(self._pred, n)

    @property
    def edges(self):
        """(from, to) of each edge."""
        return ((u, v) for u, after in self._succ.items() for v in after)

    @property
    def nodes(self) -> dict:
        """{node: its attributes}."""
        return self._node

    def __iter__(self):
        return iter(self._node)

    def __contains__(self, n):
        return n in self._node

    def forward_transitive_closure(self, src: str) -> set:
        """The nodes that can be reached from one, itself among them."""
        return self._closure(src, self.successors)

    def backward_transitive_closure(self, src: str) -> set:
        """The nodes from which one can be reached, itself among them."""
        return self._closure(src, self.predecessors)

    def _closure(self, start, neighbours):
        found, waiting = {start}, deque([start])
        while waiting:
            for n in neighbours(waiting.popleft()):
                if n not in found:
                    found.add(n)
                    waiting.append(n)
        return found

    def all_paths(self, src: str, dst: str) -> str:
        """The part of the graph that lies on paths between two nodes, as text for Graphviz."""
        between = self.forward_transitive_closure(src) & self.backward_transitive_closure(dst)
        part = DiGraph()
        for n in sorted(between & {src, dst}):
            part.add_node(n)
        for u, v in self.edges:
            if u in between and v in between:
                part.add_edge(u, v)
        return part.to_dot()

    def first_path(self, dst: str) -> list[str]:
        """A path to a node from one that nothing leads to."""
        path = [dst]
        while True:
            before = next(self.predecessors(path[-1]), None)
            if before is None or before in path:
                return path[::-1]
            path.append(before)

    def to_dot(self) -> str:
        """The graph as text for Graphviz."""
        edges = "\n".join(f'"{u}" -> "{v}";' for u, v in self.edges)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}\n}}\n"
