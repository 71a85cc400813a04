"""Returns, breaks and continues inside of branches and loops as results of these."""

from __future__ import annotations

from ..program.types import BOOL
from .ir import Graph, Node, clone_node

__all__ = ["transform_exits"]

_WILL, _MIGHT, _WONT, _THROWS = "will", "might", "won't", "throws"


def transform_exits(graph: Graph) -> None:
    """Makes every block end at its end: what leaves it earlier becomes conditions around what follows."""
    _Exits(graph, "prim::LoopContinuation").block(graph)
    _Exits(graph, "prim::ReturnStmt").block(graph)
    _join_branches(graph, graph)


class _Exit:
    """Whether control has left a block, a value, and with what."""

    def __init__(self, status, exited=None, values=()):
        self.status, self.exited, self.values = status, exited, list(values)


class _Exits:
    def __init__(self, graph, kind):
        self.graph, self.kind = graph, kind
        self.missing: dict = {}
        made = [graph.create("prim::Constant", (), [BOOL], None, value=v) for v in (True, False)]
        made.append(graph.create("prim::Uninitialized", (), [BOOL]))
        for i, node in enumerate(made):
            graph.insert(i, node)
        self.true, self.false, self.thrown = (n.results[0] for n in made)
        self.target = graph

    def uninitialized(self, value):
        """A value of a type that nobody looks at."""
        if value.kind not in self.missing:
            node = self.graph.create("prim::Uninitialized", (), [value.kind])
            self.graph.insert(0, node)
            self.missing[value.kind] = node.results[0]
        return self.missing[value.kind]

    def exit(self, status, values=()):
        exited = {_WILL: self.true, _WONT: self.false, _THROWS: self.thrown}[status]
        return _Exit(status, exited, values)

    def block(self, block) -> _Exit:
        outer = self.target
        loop = block.owner is not None and block.owner.op == "prim::Loop"
        if loop and self.kind == "prim::LoopContinuation":
            self.target = block
        found = self.exit(_WONT)
        index = 0
        while index < len(block.body):
            node = block.body[index]
            index += 1
            if node.op == "prim::RaiseException":
                found = self.exit(_THROWS)
            elif node.op == self.kind:
                found = self.exit(_WILL, node.operands)
                self.graph.forget(node)
                index -= 1
            elif node.op == "prim::If":
                found = self.branches(node)
            elif node.op == "prim::Loop":
                found = self.loop(node)
            index = block.body.index(node) + 1 if node.block is block else index  # constants may have come before it
            if found.status in (_WILL, _THROWS):
                for rest in block.body[index:][::-1]:
                    self.graph.forget(rest)
                if found.status == _THROWS and block is not self.graph:  # what it gave may have been made after that
                    block.returned = [self.uninitialized(v) for v in block.returned]
                elif block is not self.graph:
                    block.returned = [self.uninitialized(v) if v.producer is not None and v.producer.block is None else v
                                      for v in block.returned]
                break
            if found.status == _MIGHT:
                if index < len(block.body):
                    found = self.guarded(block, found, index)
                break
        if self.target is block and (loop or block is self.graph):
            if self.kind == "prim::LoopContinuation" and loop or self.kind == "prim::ReturnStmt":
                self.finish(block, found)
                found = self.exit(_WONT)
        self.target = outer
        return found

    def finish(self, block, found):
        """The results of the block that exits lead to."""
        if found.status == _WILL:
            block.returned = list(found.values)
        elif found.status == _THROWS and block is not self.graph:
            block.returned = [self.uninitialized(v) for v in block.returned]
        elif found.status == _THROWS:
            block.returned = []
        elif found.status == _MIGHT:
            node = self.graph.create("prim::If", [found.exited])
            block.append(node)
            yes, no = node.add_block(), node.add_block()
            yes.returned, no.returned = list(found.values), list(block.returned)
            block.returned = [node.add_result(v.kind) for v in found.values]

    def branches(self, node: Node) -> _Exit:
        pairs = [self.block(b) for b in node.nested]
        status = _joined(pairs[0].status, pairs[1].status)
        if status in (_THROWS, _WONT):
            return self.exit(status)
        for i, other in ((0, 1), (1, 0)):
            if pairs[i].status in (_WONT, _THROWS):
                values = [self.uninitialized(v) for v in pairs[other].values]
                pairs[i] = _Exit(pairs[i].status, pairs[i].exited, values)
                break
        exited = self.true
        if status != _WILL:
            exited = self.results(node, [[p.exited] for p in pairs])[0]
        return _Exit(status, exited, self.results(node, [p.values for p in pairs]))

    def results(self, node, values):
        for block, given in zip(node.nested, values):
            block.returned += given
        return [node.add_result(v.kind) for v in values[0]]

    def loop(self, node: Node) -> _Exit:
        body = node.nested[0]
        found = self.block(body)
        if self.kind == "prim::LoopContinuation" or found.status == _WONT:
            return self.exit(_WONT)
        if found.status == _THROWS:
            return self.exit(_WONT)
        # a loop ends where control has left it, and says whether it has, and with what
        if found.status == _WILL:
            body.returned[0] = self.false
        else:
            again = self.graph.create("prim::If", [found.exited])
            body.append(again)
            yes, no = again.add_block(), again.add_block()
            yes.returned, no.returned = [self.false], [body.returned[0]]
            body.returned[0] = again.add_result(BOOL)
        exited = self.carried(node, self.false, found.exited)
        values = [self.carried(node, self.uninitialized(v), v) for v in found.values]
        return _Exit(_MIGHT, exited, values)

    def carried(self, node, before, after):
        node.operands.append(before)
        body = node.nested[0]
        result = node.add_result(after.kind)
        body.add_parameter(after.kind)
        body.returned.append(after)
        return result

    def guarded(self, block, found, index) -> _Exit:
        """What follows a place where control may have left runs only where it has not."""
        node = self.graph.create("prim::If", [found.exited])
        yes, no = node.add_block(), node.add_block()
        rest = block.body[index:]
        del block.body[index:]
        block.append(node)
        for n in rest:
            no.append(n)
        yes.returned = [self.uninitialized(v) for v in block.returned]
        no.returned = list(block.returned)
        block.returned = [node.add_result(v.kind) for v in block.returned]
        leave = self.graph.create(self.kind, found.values)
        yes.append(leave)
        return self.branches(node)


def _joined(one, other):
    if one == _WILL and other == _WILL or one == _THROWS and other == _THROWS:
        return one
    if {one, other} == {_WILL, _THROWS}:
        return _WILL
    if {one, other} <= {_WONT, _THROWS}:
        return _WONT
    return _MIGHT


def _join_branches(graph, block):
    """Puts an ``if`` about whether another one has left into that one."""
    for node in list(block.body):
        for inner in node.nested:
            _join_branches(graph, inner)
    index = 0
    while index < len(block.body):
        node = block.body[index]
        while _joins(block, index):
            _join(graph, node, block.body[index + 1])
        index += 1


def _joins(block, index) -> bool:
    node = block.body[index]
    if index + 1 >= len(block.body) or node.op != "prim::If" or block.body[index + 1].op != "prim::If":
        return False
    test = block.body[index + 1].operands[0]
    if test.producer is not node:
        return False
    at = node.results.index(test)
    values = [b.returned[at].toIValue() for b in node.nested]
    return None not in values and values[0] != values[1]


def _join(graph, first, second):
    at = first.results.index(second.operands[0])
    for block in first.nested:
        chosen = second.nested[0 if block.returned[at].toIValue() else 1]
        known = dict(zip(first.results, block.returned))
        for node in chosen.body:
            block.append(clone_node(graph, node, known))
        block.returned += [known.get(v, v) for v in chosen.returned]
    changed = {}
    for v in second.results:
        new = first.add_result(v.kind)
        if v.name:
            new.rename(v.name)
        changed[v] = new
    graph.replace(changed)
    graph.forget(second)
