"""From a program's text to a graph: statements, with variables as loads and stores (`ssa` takes them away)."""

from __future__ import annotations

import ast

from ..program.types import INT, NONE, TENSOR, Type, parse_type, unify
from .expressions import OPERATORS, Expressions
from .ir import Graph, is_meaningful

__all__ = ["Emitter"]


class _Frame:
    """The variables that a block gives values to."""

    def __init__(self, block):
        self.block, self.types = block, {}


class Emitter(Expressions):
    """Writes one function of a program as a graph, as PyTorch's compiler numbers and names its values.

    Args:
        function: the `Function`.
    """

    def __init__(self, function):
        self.function, self.unit, self.graph = function, function.unit, Graph()
        self.frames: list[_Frame] = []
        self.exits: set = set()  # blocks that control never leaves at their end
        self.constants: dict = {}  # of numbers, which are written once for the whole graph
        self.origins = getattr(function.places, "origins", {})
        self.source = getattr(function.places, "source", None)
        self.place: tuple | None = None
        self.at: list = []  # [(block, index)]: where nodes are inserted, the end of a block where there is no index

    def emit(self) -> Graph:
        """The graph, variables still being loaded and stored."""
        graph = self.graph
        self.push(graph)
        with self.inside(graph):
            for i, (name, kind, _) in enumerate(self.function.schema.parameters):
                method = i == 0 and self.function.owner is not None
                value = graph.add_parameter(str(kind) if method else kind, name)
                if method and self.function.owner.kind == "module":
                    self.self_name, self.self_value = name, value
                else:
                    value.kind = kind
                    self.set(name, value)
            self.statements(self.function.node.body)
            if graph not in self.exits:
                self.returning(None)
        return graph

    is_unpacking = False  # whether what gets a name is a part of a tuple

    # --- where nodes go

    def inside(self, block):
        return _Inside(self, block)

    def push(self, block):
        self.frames.append(_Frame(block))

    def pop(self):
        return self.frames.pop()

    # --- variables

    def set(self, name, value):
        """Gives a variable a value."""
        here = self.frames[-1]
        own = value.producer is not None or not self.is_unpacking or value is not next(
            iter(here.block.parameters), None)
        if value.name is None and is_meaningful(name) and self.block_of(value) is here.block and own:
            value.rename(name)
        around = self.type_of(name, self.frames[:-1])
        if around is not None:  # the compiler looks at its type
            self.load(name, around)
        node = self.graph.create("prim::Store", [value], (), None, name=name)
        self.insert(node)
        here.types[name] = value.kind

    def block_of(self, value):
        if value.producer is not None:
            return value.producer.block
        return next((f.block for f in self.frames if value in f.block.parameters), None)

    def type_of(self, name, frames=None):
        for frame in reversed(self.frames if frames is None else frames):
            if name in frame.types:
                return frame.types[name]
        return None

    def load(self, name, kind):
        node = self.graph.create("prim::Load", (), [kind], None, name=name)
        self.insert(node)
        if is_meaningful(name):
            node.results[0].rename(name)
        return node.results[0]

    # --- statements

    def statements(self, body):
        if callable(body):
            body()
            return
        for s in body:
            self.place = self.place_of(s) or self.place
            handler = getattr(self, f"_{type(s).__name__}", None)
            if handler is not None:
                handler(s)
            if self.frames[-1].block in self.exits:
                return

    def _Pass(self, s):
        pass

    def _Expr(self, s):
        if isinstance(s.value, ast.Call) and ast.unparse(s.value.func) == "ops.prim.RaiseException":
            self.raising(s, s.value.args)
        else:
            self.expr(s.value)

    def raising(self, s, given):
        place = self.place_of(s)
        values = [self.expr(a) for a in given]
        if len(values) == 1:
            values.append(self.constant(None))
        self.node("prim::RaiseException", values, (), place)
        self.exits.add(self.frames[-1].block)

    def _Return(self, s):
        self.returning(s.value)

    def returning(self, e):
        declared = self.function.schema.result if self.function.node.returns is not None else None
        value = self.constant(None) if e is None else self.expr(e, declared)
        self.node("prim::ReturnStmt", [value], ())
        self.exits.add(self.frames[-1].block)

    def _Assign(self, s):
        if isinstance(s.targets[0], ast.Attribute):
            owner = self.expr(s.targets[0].value)
            value = self.expr(s.value)
            self.node("prim::SetAttr", [owner, value], (), None, name=s.targets[0].attr)
            return
        value = self.expr(s.value)
        for target in s.targets:
            self.assign(target, value, s)

    def _AnnAssign(self, s):
        kind = parse_type(s.annotation)
        value = self.expr(s.value, kind)
        if value.kind != kind and kind.name in ("List", "Dict", "Optional"):
            if value.producer is None or value.producer.op == "prim::Load":
                pass
            elif kind.name != "Optional":
                value.kind = kind
        self.assign(s.target, value, s)
        if kind.name == "Optional" and isinstance(s.target, ast.Name):
            self.frames[-1].types[s.target.id] = kind

    def assign(self, target, value, s):
        if isinstance(target, ast.Name):
            self.set(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.is_unpacking = True
            self.unpack(target, value, s)
            self.is_unpacking = False
        elif isinstance(target, ast.Attribute):
            self.node("prim::SetAttr", [self.expr(target.value), value], (), None, name=target.attr)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, value, self.place_of(s))

    def unpack(self, target, value, s):
        count = len(target.elts)
        if isinstance(value.kind, Type) and value.kind.name == "Tuple" and value.kind.args:
            kinds, op = list(value.kind.args), "prim::TupleUnpack"
        elif isinstance(value.kind, Type) and value.kind.name == "List":
            kinds, op = [value.kind.args[0]] * count, "prim::ListUnpack"
        elif value.kind == TENSOR:
            value = self.builtin("aten::unbind", [value, self.constant(0)], [Type("List", (TENSOR,))])
            kinds, op = [TENSOR] * count, "prim::ListUnpack"
        else:
            kinds, op = [TENSOR] * count, "prim::TupleUnpack"
        kinds = (kinds + [TENSOR] * count)[:count]
        made = value.producer
        if made is not None and made.op == "prim::TupleConstruct" and len(made.operands) == count:
            parts = made.operands
        else:
            parts = self.node(op, [value], kinds).results
        for t, part in zip(target.elts, parts):
            self.assign(t.value if isinstance(t, ast.Starred) else t, part, s)

    def set_item(self, target, value, place):
        owner = self.expr(target.value)
        at = self.place_of(target)
        if owner.kind != TENSOR:
            result = [] if owner.kind.name == "Dict" else [owner.kind]
            self.node("aten::_set_item", [owner, self.expr(target.slice), value], result, at or place)
            return
        view, indices = self.sliced(owner, target.slice, at)
        if value.kind != TENSOR:
            dtype = self.node("prim::dtype", [view], [INT]).results[0]
            device = self.node("prim::device", [view], [Type("Device")]).results[0]
            no = self.constant(False)
            value = self.operator("tensor", [value, dtype, device, no], place=None, kinds=[TENSOR])
        if not indices:
            self.operator("copy_", [view, value, self.constant(False)], place=place, kinds=[TENSOR])
        else:
            made = self.node("prim::ListConstruct", indices, [Type("List", (Type("Optional", (TENSOR,)),))])
            self.operator("index_put_", [view, made.results[0], value, self.constant(False)], place=place,
                          kinds=[TENSOR])

    def _AugAssign(self, s):
        place = self.place_of(s)
        name = OPERATORS[type(s.op).__name__]
        if isinstance(s.target, ast.Subscript):
            owner = self.expr(s.target.value)
            if owner.kind == TENSOR:
                view, indices = self.sliced(owner, s.target.slice, self.place_of(s.target))
                if not indices:
                    self.call_operator(f"{name}_", [view, self.expr(s.value)], {}, place)
                    return
            index = self.expr(s.target.slice)
            item = self.operator("__getitem__", [owner, index], place=place, kinds=[self.item_kind(owner.kind)])
            made = self.call_operator(name, [item, self.expr(s.value)], {}, place)
            self.node("aten::_set_item", [owner, index, made], [] if owner.kind.name == "Dict" else [owner.kind],
                      place)
            return
        target = s.target
        if isinstance(target, ast.Attribute):
            owner = self.expr(target.value)
            before = self.attribute(owner, target.attr, None)
        else:
            owner, before = None, self.variable(target)
        inplace = before.kind == TENSOR
        made = self.call_operator(f"{name}_" if inplace else name, [before, self.expr(s.value)], {}, place)
        if owner is not None:
            self.node("prim::SetAttr", [owner, made], (), None, name=target.attr)
        else:
            self.set(target.id, made)

    def _If(self, s):
        self.branches(self.condition(s.test), s.body, s.orelse, self.place_of(s))

    def branches(self, condition, body, orelse, place):
        """An ``if``. ``condition`` is (value, whether it is settled, what it says of variables)."""
        value, settled, refinements = condition
        if settled is not None:
            self.refine(refinements, settled)
            self.statements(body if settled else orelse)
            return
        node = self.node("prim::If", [value], (), place)
        saved = []
        for part, holds in ((body, True), (orelse, False)):
            block = node.add_block()
            self.push(block)
            with self.inside(block):
                self.refine(refinements, holds)
                self.statements(part)
            saved.append(self.pop())
        yes, no = saved
        ended = [f.block in self.exits for f in saved]
        if all(ended):
            self.exits.add(self.frames[-1].block)
        names = set()
        for one, other, out in ((yes, no, ended[1]), (no, yes, ended[0])):
            with self.inside(other.block):
                for name in sorted(one.types):
                    kind = self.type_of(name, [*self.frames, other])
                    if kind is not None:
                        self.load(name, kind)
                    if kind is not None or out:
                        names.add(name)
        if all(ended):
            return
        for name in sorted(names):
            kinds = []
            for frame, out in zip(saved, ended):
                kind = self.type_of(name, [*self.frames, frame])
                if not out:
                    with self.inside(frame.block):
                        self.load(name, kind)
                    kinds.append(kind)
            for frame, out in zip(saved, ended):
                if out:
                    with self.inside(frame.block):
                        made = self.node("prim::Uninitialized", (), [kinds[0]])
                        self.node("prim::Store", [made.results[0]], (), None, name=name)
                    frame.types[name] = kinds[0]
            found = unify(kinds) or kinds[0]
            around = self.type_of(name)
            if around is not None:
                self.load(name, around)
            self.frames[-1].types[name] = found

    def refine(self, refinements, holds):
        for name, kind in refinements[0 if holds else 1]:
            before = self.type_of(name)
            if before is None or before == kind:
                continue
            value = self.load(name, before)
            self.set(name, self.node("prim::unchecked_cast", [value], [kind]).results[0])

    def _While(self, s):
        self.loop(None, None, s.body, s.test, self.place_of(s))

    def _For(self, s):
        place = self.place_of(s)
        items = self.iterable(s.iter, place)
        if items.unrolled is not None:
            for value in items.unrolled:
                self.assign(s.target, value(), s)
                self.statements(s.body)
            return
        self.loop(items, s.target, s.body, None, place)

    def loop(self, items, target, body, test, place):
        count = items.length() if items is not None else self.number(9223372036854775807, place)
        node = self.node("prim::Loop", (), (), place)
        inner = node.add_block()
        condition = node.add_block()
        self.push(condition)
        if test is not None:
            with self.inside(condition):
                out = self.condition(test)[0]
        else:
            with self.before(node):
                out = self.constant(True, place)
        condition.returned.append(out)
        self.pop()
        node.operands.append(count)
        index = inner.add_parameter(INT)
        self.push(inner)
        with self.inside(inner):
            if items is not None:
                self.assign(target, items.item(index), target)
            self.statements(body)
        self.pop()

    def _Break(self, s):
        self.node("prim::BreakStmt", (), ())
        self.exits.add(self.frames[-1].block)

    def _Continue(self, s):
        self.node("prim::ContinueStmt", (), ())
        self.exits.add(self.frames[-1].block)

    def _With(self, s):
        entered = []
        for item in s.items:
            value = self.expr(item.context_expr)
            entered.append(value)
            made = self.node("prim::Enter", [value], [self.entered_kind(value)]).results[0]
            if item.optional_vars is not None:
                self.assign(item.optional_vars, made, s)
        self.statements(s.body)
        for value in reversed(entered):
            self.node("prim::Exit", [value], [TENSOR])

    def entered_kind(self, value):
        found = self.unit.classes.get(str(value.kind))
        method = found.methods.get("__enter__") if found is not None else None
        return method.schema.result if method is not None and method.node.returns is not None else NONE

    def _Assert(self, s):
        place = self.place_of(s)
        condition = self.condition(s.test)
        message = s.msg or ast.Constant("")

        def failing():
            text = self.text_of(message)
            value = self.constant(f"AssertionError: {text}") if text is not None else self.operator(
                "add", [self.constant("AssertionError: "), self.expr(message)], place=place, kinds=[Type("str")])
            self.node("prim::RaiseException", [value, self.constant(None)], (), place)
            self.exits.add(self.frames[-1].block)

        self.branches(condition, [], failing, place)

    def text_of(self, e):
        return e.value if isinstance(e, ast.Constant) and isinstance(e.value, str) else None

    def _Delete(self, s):
        for t in s.targets:
            if isinstance(t, ast.Subscript):
                self.node("aten::Delete", [self.expr(t.value), self.expr(t.slice)], (), self.place_of(s))


class _Inside:
    """Nodes go to the end of a block while it is entered."""

    def __init__(self, emitter, block, index=None):
        self.emitter, self.block, self.index = emitter, block, index

    def __enter__(self):
        self.emitter.at.append([self.block, self.index])

    def __exit__(self, *exc):
        self.emitter.at.pop()

