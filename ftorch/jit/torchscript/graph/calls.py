"""From a program's text to a graph: calls, and the operators that they are of."""

from __future__ import annotations

import ast
import re
from typing import Any

from ..program.objects import Function as ProgramFunction
from ..program.types import BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, STR, TENSOR, Type, parse_type
from .ir import Function, Node, Value
from .schemas import MISSING, forms, match, results_of, scalar_result

__all__ = ["Calls"]

_CASTS = {"int": ("aten::Int", INT), "float": ("aten::Float", FLOAT), "bool": ("aten::Bool", BOOL),
          "complex": ("aten::Complex", COMPLEX), "str": ("aten::str", STR)}
_BUILTINS = {"len": INT, "ord": INT, "chr": STR, "hash": INT, "hex": STR, "oct": STR, "bin": STR}
# Operators of a number and a tensor, which are written with those of a tensor and a number.
_REFLECTED = {"mul": ("mul", 3), "add": ("add", 5), "ne": ("ne", 7), "eq": ("eq", 9), "lt": ("gt", 3),
              "le": ("ge", 5), "gt": ("lt", 7), "ge": ("le", 9)}

_NAMESPACE = re.compile(r"ops\.\w+")  # of operators; behind a call of one are methods


class Calls:
    """The part of `Emitter` that writes calls."""

    expr: Any
    node: Any
    constant: Any
    place_of: Any
    attribute: Any
    iterable: Any
    instance: Any
    item_kind: Any
    loop: Any
    variable: Any
    dead: Any
    unit: Any

    # --- calls

    def _Call_(self, e):
        place = self.place_of(e)
        f = e.func
        if isinstance(f, ast.Name):
            return self.plain_call(f.id, e, place)
        path = ast.unparse(f)
        if path.startswith("__torch__") and "(" not in path:
            return self.program_call(path, e, place)
        head, _, name = path.rpartition(".")
        if head in ("torch", "torch.autograd") or _NAMESPACE.fullmatch(head):
            given, keywords = self.arguments(e)
            return self.call_operator(name, given, keywords, place, head[4:] if head.startswith("ops.") else "aten")
        return self.method_call(f, e, place)

    def arguments(self, e):
        return [self.expr(a) for a in e.args], {k.arg: self.expr(k.value) for k in e.keywords}

    def plain_call(self, name, e, place):
        if name == "annotate":
            kind = parse_type(e.args[0])
            value = self.expr(e.args[1], kind)
            if kind.name in ("List", "Dict") and value.producer is not None and value.producer.op != "prim::Load":
                value.kind = kind
            return value
        if name in ("unchecked_cast", "uninitialized"):
            kind = parse_type(e.args[0])
            given = [self.expr(a) for a in e.args[1:]]
            op = "prim::unchecked_cast" if given else "prim::Uninitialized"
            return self.node(op, given, [kind]).results[0]
        if name == "getattr":
            return self.attribute(self.expr(e.args[0]), ast.literal_eval(e.args[1]), place)
        if name == "isinstance":
            return self.instance(e, place)[0]
        if name in ("range", "enumerate", "zip"):
            return self.listed(self.iterable(e, place), e, place)
        given = [self.expr(a) for a in e.args]
        if name == "print":
            return self.none(self.node("prim::Print", given, (), place))
        if name in _CASTS and len(given) == 1:
            op, kind = _CASTS[name]
            self.dead()
            return given[0] if given[0].kind == kind else self.operator(op[6:], given, place=place, kinds=[kind])
        if name in ("min", "max", "abs"):
            kind = given[0].kind
            if len(given) == 1 and name != "abs":
                kind = self.item_kind(kind)
            elif any(v.kind == FLOAT for v in given):
                kind = FLOAT
            if kind == TENSOR:
                return self.call_operator(name, given, {}, place)
            return self.node(f"prim::{name}", given, [kind], place).results[0]
        kind = _BUILTINS.get(name) or scalar_result(name, [v.kind for v in given])
        if kind is None and given and given[0].kind.name == "List":
            kind = given[0].kind if name in ("list", "sorted") else given[0].kind.args[0]
        if kind is None:
            return self.call_operator(name, given, {}, place)
        return self.operator(name, given, place=place, kinds=[kind])

    def listed(self, items, e, place):
        """The list of what an iterable gives."""
        made = self.node("prim::ListConstruct", (), [Type("List", (INT,))]).results[0]

        def body():
            value = self.variable(ast.Name("$item"))
            self.operator("append", [made, value], place=place, kinds=[made.kind])

        self.loop(items, ast.Name("$item", ast.Store()), body, None, place)
        return made

    def none(self, node):
        return node.results[0] if node.results else self.constant(None)

    def program_call(self, path, e, place):
        found = self.unit.find(path.removesuffix(".__new__"))
        if isinstance(found, ProgramFunction):
            given, keywords = self.arguments(e)
            operands = self.bound(found.schema, given, keywords)
            target = self.constant(Function(found.name, found))
            kind = found.schema.result if found.node.returns is not None else TENSOR
            return self.node("prim::CallFunction", [target, *operands], [kind], place).results[0]
        python = self.unit.python.get(path)
        if callable(python):
            given, _ = self.arguments(e)
            count = getattr(python, "result_count", None)
            kind = TENSOR if count is None else Type("Tuple", (TENSOR,) * count)
            constants = getattr(python, "constants", ())
            name = path.rpartition(".")[2]
            return self.node("prim::PythonOp", given, [kind], place, name=name, constants=constants).results[0]
        name = path.removesuffix(".__new__")
        if found is not None and found.kind == "namedtuple":
            given, keywords = self.arguments(e)
            given += [keywords[n] for n in found.attributes if n in keywords]
            return self.node("prim::TupleConstruct", given, [Type(name)], place).results[0]
        made = self.node("prim::CreateObject", (), [Type(name)], place).results[0]
        if path.endswith(".__new__"):
            return made
        given, keywords = self.arguments(e)
        method = found.methods.get("__init__") if found is not None else None
        operands = self.bound(method.schema, given, keywords, 1) if method is not None else given
        if method is not None or found is not None:
            self.node("prim::CallMethod", [made, *operands], [NONE], place, name="__init__")
        return made

    def bound(self, schema, given, keywords, skipped=0):
        """The operands of a call of the program's own function, with its defaults."""
        operands = []
        for i, (name, kind, default) in enumerate(schema.parameters[skipped:]):
            if i < len(given):
                operands.append(given[i])
            elif name in keywords:
                operands.append(keywords[name])
            elif default is not None:
                operands.append(self.constant(schema.default(i + skipped)))
        return operands

    def method(self, owner, name, found, given, keywords, place):
        method = found.methods[name]
        operands = self.bound(method.schema, given, keywords, 1)
        kind = method.schema.result if method.node.returns is not None else NONE if name == "__init__" else TENSOR
        return self.node("prim::CallMethod", [owner, *operands], [kind], place, name=name).results[0]

    def method_call(self, f, e, place):
        if isinstance(f.value, ast.Constant) and isinstance(f.value.value, str):
            owner = self.constant(f.value.value, place)
        else:
            owner = self.expr(f.value)
        given, keywords = self.arguments(e)
        kind = owner.kind if isinstance(owner.kind, Type) else Type(owner.kind)
        found = self.unit.classes.get(kind.name)
        if found is not None and f.attr in found.methods:
            return self.method(owner, f.attr, found, given, keywords, place)
        if found is not None and f.attr in found.attributes:  # a module that is called
            inner = self.attribute(owner, f.attr, place)
            kind = self.unit.classes.get(str(inner.kind))
            if kind is not None and "forward" in kind.methods:
                return self.method(inner, "forward", kind, given, keywords, place)
        if f.attr == "format":
            return self.operator("format", [owner, *given], place=place, kinds=[STR])
        if kind.name == "Dict":
            return self.of_dictionary(f.attr, owner, given, place)
        return self.call_operator(f.attr, [owner, *given], keywords, place)

    def of_dictionary(self, name, owner, given, place):
        key, value = owner.kind.args or (STR, TENSOR)
        results = {
            "keys": Type("List", (key,)), "values": Type("List", (value,)), "copy": owner.kind, "pop": value,
            "items": Type("List", (Type("Tuple", (key, value)),)), "setdefault": value,
            "get": Type("Optional", (value,)) if len(given) < 2 else value,
        }
        kinds = [results[name]] if name in results else []
        node = self.node(f"aten::{name}", [owner, *given], kinds, place)
        return self.none(node)

    # --- operators

    def call_operator(self, name, given, keywords, place, namespace="aten") -> Value:
        """A call of an operator, with what its form has by default."""
        kinds = [v.kind for v in given]
        if namespace != "aten":
            results = results_of(namespace, name)
            if results is None:
                results = [{"dtype": INT, "device": DEVICE}.get(name, TENSOR)]
            return self.as_one(self.node(f"{namespace}::{name}", given, results, place))
        magic = self.unit.classes.get(kinds[0].name) if kinds and kinds[0].is_class else None
        if magic is not None and f"__{name}__" in magic.methods:
            return self.method(given[0], f"__{name}__", magic, given[1:], keywords, place)
        names = [k.name for k in kinds]
        if "Tuple" in names and (name in ("eq", "ne") or name == "add" and "List" in names):
            given = [self.as_list(v) if v.kind.name == "Tuple" and v.kind.args else v for v in given]
            kinds = [v.kind for v in given]
        elif name == "add" and names == ["Tuple", "Tuple"] and all(k.args for k in kinds):
            parts = [part for v in given for part in self.parts_of(v)]
            return self.node("prim::TupleConstruct", parts, [Type("Tuple", tuple(p.kind for p in parts))]).results[0]
        if not keywords:
            plain = scalar_result(name, kinds)
            if plain is not None:
                return self.operator(name, given, place=place, kinds=[plain])
            if len(kinds) == 2 and kinds[1] == TENSOR and kinds[0].name in ("int", "float", "complex", "bool"):
                made = self.reflected(name, *given)
                if made is not None:
                    return made
        if name == "floordiv" and kinds[0] == TENSOR:
            return self.operator("floor_divide", given, place=("<string>", 3, 9), kinds=[TENSOR])
        found = match(name, kinds, {k: v.kind for k, v in keywords.items()})
        if found is None:
            return self.operator(name, [*given, *keywords.values()], place=place, kinds=[TENSOR])
        operands = []
        for a, what in zip(found.arguments, found.given):
            operands.append(self.operand(a, what, given, keywords))
        node = self.operator_node(name, operands, found.results, place, [
            (a.name, a.default, a.keyword_only) for a in found.arguments])
        return self.as_one(node)

    def as_one(self, node) -> Value:
        """What an operator gives as one value."""
        if len(node.results) < 2:
            return self.none(node)
        kind = Type("Tuple", tuple(v.kind for v in node.results))
        return self.node("prim::TupleConstruct", node.results, [kind]).results[0]

    def operand(self, a, what, given, keywords):
        if what is MISSING:
            value = a.default
            if a.type.endswith("]") and type(value) is int:
                value = [value] * int(a.type.rpartition("[")[2].rstrip("]?") or 1)
            return self.constant(value)
        if isinstance(what, list):
            parts = [given[i] for i in what]
            return self.node("prim::ListConstruct", parts, [Type("List", (INT,))]).results[0]
        value = keywords[what] if isinstance(what, str) else given[what]
        wanted = a.type.rstrip("?")
        if wanted.endswith("]") and value.kind.name == "Tuple":
            return self.as_list(value)
        if wanted.endswith("]") and value.kind == INT:
            count = int(wanted.rpartition("[")[2].rstrip("]"))
            return self.node("prim::ListConstruct", [value] * count, [Type("List", (INT,))]).results[0]
        if wanted == "Device" and value.kind == STR:
            return self.operator("device", [value], place=None, kinds=[DEVICE])
        if value.kind == TENSOR and wanted in ("int", "float", "Scalar", "SymInt"):
            name = {"float": "FloatImplicit", "Scalar": "ScalarImplicit"}.get(wanted, "IntImplicit")
            return self.operator(name, [value], place=None, kinds=[{
                "float": FLOAT, "Scalar": Type("number")}.get(wanted, INT)])
        return value

    def parts_of(self, value) -> list:
        """What a tuple holds."""
        return self.node("prim::TupleUnpack", [value], list(value.kind.args)).results

    def as_list(self, value) -> Value:
        """A tuple as the list that an operator wants."""
        return self.node("prim::ListConstruct", self.parts_of(value), [Type("List", (value.kind.args[0],))]).results[0]

    def reflected(self, name, left, right):
        if name == "sub":
            negative = self.operator("neg", [right], place=("<string>", 11, 9), kinds=[TENSOR])
            return self.call_operator("add", [negative, left], {}, ("<string>", 11, 9))
        if name == "div":
            inverse = self.operator("reciprocal", [right], place=("<string>", 13, 9), kinds=[TENSOR])
            return self.call_operator("mul", [inverse, left], {}, ("<string>", 13, 9))
        if name in _REFLECTED:
            other, line = _REFLECTED[name]
            return self.call_operator(other, [right, left], {}, ("<string>", line, 9))
        return None

    def operator(self, name, operands, place, kinds) -> Value:
        """An operator's node whose form is known: all its operands are given."""
        found = match(name, [v.kind for v in operands], {})
        arguments = None
        if found is not None and len(found.arguments) == len(operands):
            arguments = [(a.name, a.default, a.keyword_only) for a in found.arguments]
        else:
            for form in forms(name):
                if len(form.arguments) == len(operands):
                    arguments = [(a.name, a.default, a.keyword_only) for a in form.arguments]
                    break
        return self.operator_node(name, operands, kinds, place, arguments).results[0]

    def operator_node(self, name, operands, kinds, place, arguments) -> Node:
        node = self.node(f"aten::{name}", operands, kinds, place)
        node.arguments = arguments
        return node

    def builtin(self, op, operands, kinds) -> Value:
        return self.node(op, operands, kinds).results[0]

