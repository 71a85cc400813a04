"""Compiled modules whose ``forward`` is rewritten: its graph with all calls written out, and the module of a changed one."""

from __future__ import annotations

import ast
import copy
import re

from ...eager.tensor import TensorBase
from ...jit.torchscript.frontend.emit import class_text, define, literal
from ...jit.torchscript.graph.cleanup import clean, eliminate, inline, propagate
from ...jit.torchscript.graph.graph import graph_of
from ...jit.torchscript.graph.ir import Function, Graph, Node, Value
from ...jit.torchscript.graph.printer import function_text
from ...jit.torchscript.program.objects import CompilationUnitData, ScriptObject, unparse
from ...jit.torchscript.program.types import INT, TENSOR, Type, infer

__all__ = ["MISSING", "OBSERVER", "Rewriter", "changed_class"]

MISSING = object()
OBSERVER = "_observer_"  # the names of observers begin so
_SCOPE = "__module."


def _inlined(function) -> Graph:
    """A function's graph with what it calls written out; nodes say in their scopes whose method they are of."""

    def callee(node):
        if node.op == "prim::CallFunction":
            target = node.operands[0].toIValue()
            return (_inlined(target.function), 1, False) if isinstance(target, Function) else None
        owner = function.unit.classes.get(str(node.operands[0].kind))
        made = node.operands[0].producer
        if made is not None and made.op == "prim::GetAttr" and made.attributes["name"].startswith(OBSERVER):
            return None
        method = owner.methods.get(node.attributes["name"]) if owner is not None else None
        return None if method is None else (_inlined(method), 0, True)

    return inline(graph_of(function), callee)


class Rewriter:
    """The graph of a module's ``forward``, and what its values are of the module.

    Args:
        data: the module's object.
        is_final: whether ``training`` is a constant: what depends on it is decided.
    """

    def __init__(self, data: ScriptObject, is_final: bool = False):
        self.data = data
        self.is_traced = data._type.methods["forward"].notes is not None
        self.graph = _inlined(data._type.methods["forward"])
        if is_final:
            self._fix_flags()
        self._unwrap()
        self._name_operators()
        clean(self.graph)
        if is_final:
            propagate(self.graph)
            eliminate(self.graph)

    def _unwrap(self) -> None:
        """Constants that are not None are what they are without ``unwrap``."""
        changed = {}
        for node in list(self.graph.walk()):
            if node.op in ("prim::unchecked_unwrap_optional", "aten::_unwrap_optional"):
                if self.known(node.operands[0]) not in (MISSING, None):
                    changed[node.results[0]] = node.operands[0]
        self.graph.replace(changed)

    def _name_operators(self) -> None:
        """Traces' convolutions get their names, their numbers that are tensors are numbers, empty strides lists of integers."""
        for node in list(self.graph.walk()):
            if "_pool" in node.op:
                for value in node.operands[1:]:
                    if value.producer is not None and value.producer.op == "prim::ListConstruct":
                        value.kind = Type("List", (INT,))
            elif node.op == "aten::_convolution":
                x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = node.operands[:9]
                sizes = self.known(stride)
                if not isinstance(sizes, list) or not isinstance(self.known(transposed), bool):
                    continue
                is_transposed = self.known(transposed)
                node.op = f"aten::conv{'_transpose' if is_transposed else ''}{len(sizes)}d"
                node.operands = [x, weight, bias, stride, padding, *(
                    (output_padding, groups, dilation) if is_transposed else (dilation, groups))]
                node.arguments = None
            elif node.op in ("aten::add", "aten::mul", "aten::add_", "aten::mul_"):
                number = self.known(node.operands[1])
                made = node.operands[1].producer
                if made is not None and made.op == "prim::Constant" and isinstance(number, TensorBase) and not number.dim():
                    number = self.graph.numbers.get(id(number), number.item())
                    node.operands[1] = self.constant_before(node, number)

    def _fix_flags(self) -> None:
        changed = {}
        for node in list(self.graph.walk()):
            if node.op == "prim::GetAttr" and node.attributes["name"] == "training":
                value = self.known(node.results[0])
                if isinstance(value, bool) and node.block is not None:
                    made = self.graph.create("prim::Constant", (), [node.results[0].kind], value=value)
                    node.block.insert(node.block.body.index(node), made)
                    changed[node.results[0]] = made.results[0]
        self.graph.replace(changed)

    def path(self, value: Value) -> tuple[str, ...] | None:
        """The names of the attributes by which a value is reached from the module, or None."""
        names = []
        while value.producer is not None and value.producer.op == "prim::GetAttr":
            names.append(value.producer.attributes["name"])
            value = value.producer.operands[0]
        return tuple(reversed(names)) if value is self.graph.parameters[0] else None

    def known(self, value: Value):
        """What a value is before the module runs: an attribute or a constant; else `MISSING`."""
        node = value.producer
        if node is not None and node.op == "prim::Constant":
            return node.attributes.get("value")
        if node is not None and node.op == "prim::ListConstruct":
            parts = [self.known(v) for v in node.operands]
            return MISSING if any(p is MISSING for p in parts) else parts
        path = self.path(value)
        return MISSING if path is None else self.at(path)

    def at(self, path):
        """The attribute that is reached by names, or `MISSING`."""
        found = self.data
        for name in path:
            if name in found.__dict__:
                found = found.__dict__[name]
            elif name in found._type.constants:
                found = found._type.constants[name]
            else:
                return MISSING
        return found

    def owner(self, node: Node) -> str:
        """The name of the submodule whose method a node is written in."""
        return node.scope.rpartition("/")[2].removeprefix(_SCOPE)

    # --- making nodes

    def before(self, node: Node, op: str, operands, kinds=(TENSOR,), **attributes) -> Node:
        """A new node in front of another one."""
        made = self.graph.create(op, operands, kinds, **attributes)
        assert node.block is not None
        return node.block.insert(node.block.body.index(node), made)

    def constant_before(self, node: Node, value) -> Value:
        """A value that is a constant: a number or a tensor."""
        kind = TENSOR if isinstance(value, TensorBase) else infer(value) or TENSOR
        return self.before(node, "prim::Constant", (), (kind,), value=value).results[0]

    def attribute_before(self, node: Node, name: str, kind: Type) -> Value:
        """The value of an attribute of the module itself."""
        return self.before(node, "prim::GetAttr", [self.graph.parameters[0]], (kind,), name=name).results[0]

    def module(self, added: dict, kept=None) -> ScriptObject:
        """The object of the module with the graph as its ``forward``.

        Args:
            added: {name: value} of attributes that it has besides.
            kept: names of the attributes and methods that it keeps; None for all.
        """
        eliminate(self.graph)
        values = {n: v for n, v in self.data.__dict__.items() if kept is None or n in kept or n == "training"}
        function = self.data._type.methods["forward"]
        text, tensors = function_text(function, self.graph)
        return changed_class(self.data, {**values, **added}, {"forward": text}, tensors, kept)


def _type_of(value, known: Type | None = None) -> str:
    if isinstance(value, ScriptObject):
        return value._type.name
    if hasattr(type(value), "_qualified"):  # packed weights
        return type(value)._qualified
    if known is not None and known.name != "NoneType":
        return str(known)
    return str(infer(value))


def changed_class(data: ScriptObject, values: dict, texts: dict, constants=(), kept=None, prefix: str = "") -> ScriptObject:
    """An object like another one with attributes and methods of its own, and a class for it.

    Args:
        values: the attributes.
        texts: {method: its text} of those that change.
        constants: the tensors that the texts name.
        kept: names of methods that stay beside those of `texts`; None for all.
        prefix: what makes the class's name another one.
    """
    kind = data._type
    unit = CompilationUnitData(kind.unit.importer if kept is None else None)
    unit.version = kind.unit.version
    name = f"{kind.name.rpartition('.')[0]}.{prefix}.{kind.short_name}" if prefix else kind.name
    if kept is None:
        unit.include(kind.unit)
    unit.constants = list(unit.constants)
    for i in reversed(range(len(constants))):  # the texts number them from zero
        texts = {n: re.sub(rf"\bCONSTANTS\.c{i}\b", f"CONSTANTS.c{len(unit.constants) + i}", t) for n, t in texts.items()}
    unit.constants += constants
    for value in values.values():
        if isinstance(value, ScriptObject):
            unit.include(value._type.unit)
    methods = []
    for method, function in kind.methods.items():
        if method not in texts and kept is not None and method not in kept:
            continue
        node = ast.parse(texts[method]).body[0] if method in texts else copy.deepcopy(function.node)
        assert isinstance(node, ast.FunctionDef)
        node.args.args[0].annotation = ast.parse(name, mode="eval").body
        methods.append(unparse(node))
    types = {n: _type_of(v, kind.attributes.get(n)) for n, v in values.items()}
    finals = {n: (str(infer(v)), literal(v)) for n, v in kind.constants.items()} if kept is None else {}
    hooks = (kind.forward_pre_hooks, kind.forward_hooks) if kept is None else ((), ())
    text = class_text(kind.short_name, "Module", types, methods, [n for n in kind.parameters if n in values],
                      [n for n in kind.buffers if n in values], finals, hooks)
    made = define(unit, name, text).python()
    made.__dict__.update(values)
    return made
