"""Takes loads and stores of variables out of a graph: results of branches and values that loops carry."""

from __future__ import annotations

from ..program.types import Type, unify
from .ir import Graph, clone_node, is_meaningful

__all__ = ["to_ssa"]


def to_ssa(graph: Graph) -> None:
    """Gives variables values: what branches and loops change becomes their results."""
    _Variables(graph).block(graph)
    _continue_loops(graph, graph, None, [])
    _inline_conditions(graph, graph)
    _erase(graph)


class _Variables:
    """Adds loads and stores at the beginning and end of nested blocks, and around their nodes."""

    def __init__(self, graph):
        self.graph = graph
        self.frames: list[dict] = []

    def find(self, name, *more):
        for frame in (*more, *reversed(self.frames)):
            if name in frame:
                return frame[name]
        return None

    def block(self, block) -> dict:
        self.frames.append({})
        for node in list(block.body):
            if node.op == "prim::If":
                self.branches(node)
            elif node.op == "prim::Loop":
                self.loop(node)
            elif node.op == "prim::Store":
                self.frames[-1][node.attributes["name"]] = node.operands[0].kind
        return self.frames.pop()

    def load(self, block, index, name, kind):
        node = self.graph.create("prim::Load", (), [kind], None, name=name)
        block.insert(len(block.body) if index is None else index, node)
        return node.results[0]

    def store(self, block, index, name, value):
        block.insert(index, self.graph.create("prim::Store", [value], (), None, name=name))

    def after(self, node, name, kind):
        value = node.add_result(kind)
        if is_meaningful(name):
            value.rename(name)
        self.store(node.block, node.block.body.index(node) + 1, name, value)
        self.frames[-1][name] = kind

    def branches(self, node):
        yes, no = (self.block(b) for b in node.nested)
        changed = {n for n in yes if self.find(n, no) is not None} | {n for n in no if self.find(n, yes) is not None}
        for name in sorted(changed):
            kinds = self.find(name, yes), self.find(name, no)
            kind = unify(kinds)
            if kind is None:
                if "Optional" not in (kinds[0].name, kinds[1].name):
                    continue
                kind = kinds[0] if kinds[0].name == "Optional" else kinds[1]
            for block, one in zip(node.nested, kinds):
                block.returned.append(self.load(block, None, name, one))
            self.after(node, name, kind)

    def loop(self, node):
        body = node.nested[0]
        changed = self.block(body)
        self.frames.append({})
        self.frames.pop()
        for name in sorted(changed):
            kind = self.find(name)
            if kind is None:
                continue
            node.operands.append(self.load(node.block, node.block.body.index(node), name, kind))
            value = body.add_parameter(kind, name)
            self.store(body, 0, name, value)
            body.returned.append(self.load(body, None, name, kind))
            self.after(node, name, kind)


def _continue_loops(graph, block, loop, names) -> None:
    """``break`` and ``continue`` become exits with the condition and the variables that the loop carries."""
    for node in list(block.body):
        if node.op == "prim::If":
            for inner in node.nested:
                _continue_loops(graph, inner, loop, names)
        elif node.op == "prim::Loop":
            carried = [_loaded_name(v) for v in node.nested[0].returned]
            _continue_loops(graph, node.nested[0], node, carried)
        elif node.op in ("prim::BreakStmt", "prim::ContinueStmt") and loop is not None:
            at = block.body.index(node)
            made = graph.create("prim::LoopContinuation")
            before = len(block.body)
            if node.op == "prim::ContinueStmt":
                made.operands.append(_copied_condition(graph, loop, block, at))
            else:
                constant = graph.create("prim::Constant", (), [Type("bool")], None, value=False)
                block.insert(at, constant)
                made.operands.append(constant.results[0])
            at += len(block.body) - before
            for name, v in zip(names, loop.nested[0].returned):
                load = graph.create("prim::Load", (), [v.kind], None, name=name)
                block.insert(at, load)
                at += 1
                made.operands.append(load.results[0])
            block.insert(at, made)
            graph.forget(node)


def _loaded_name(value):
    return value.producer.attributes.get("name")


def _copied_condition(graph, loop, block, at):
    """Copies what computes a loop's condition to a place; returns the condition there."""
    condition = loop.nested[1]
    known: dict = {}
    for node in condition.body:
        block.insert(at, clone_node(graph, node, known))
        at += 1
    return known.get(condition.returned[0], condition.returned[0])


def _inline_conditions(graph, block) -> None:
    """Puts each loop's condition before the loop and at the end of its body."""
    for node in list(block.body):
        for inner in list(node.nested):
            _inline_conditions(graph, inner)
        if node.op == "prim::Loop" and len(node.nested) == 2:
            first = _copied_condition(graph, node, node.block, node.block.body.index(node))
            node.operands.insert(1, first)
            body, condition = node.nested
            # the loads of what the body carries stand at its end; the condition comes behind them
            for inner in list(condition.body):
                condition.body.remove(inner)
                body.append(inner)
            body.returned.insert(0, condition.returned[0])
            node.nested.pop()


def _erase(graph) -> None:
    changed: dict = {}
    dead: list = []

    def current(v):
        while v in changed:
            v = changed[v]
        return v

    def walk(block, scope):
        scope = dict(scope)
        for node in block.body:
            if node.op == "prim::Store":
                scope[node.attributes["name"]] = current(node.operands[0])
                dead.append(node)
            elif node.op == "prim::Load":
                found = scope.get(node.attributes["name"])
                if found is not None:
                    changed[node.results[0]] = found
                dead.append(node)
            for inner in node.nested:
                walk(inner, scope)

    walk(graph, {})
    graph.replace(changed)
    for node in dead:
        graph.forget(node)
