"""``.graph``: a program's function as a list of operators with values, blocks for its control flow."""

from __future__ import annotations

import ast

from ..program.objects import ClassType, Function
from ..program.services import services
from ..program.types import parse_type
from .ir import Block, Graph, Node, Value

__all__ = ["Graph", "lower"]


_INTS = frozenset("size len dim numel floordiv Int index count find round_to_zero".split())
_BOOLS = frozenset(
    "__is__ __isnot__ __not__ __contains__ Bool is_floating_point is_grad_enabled startswith".split()
)
_STRINGS = frozenset("format percentFormat upper lower strip join replace".split())
_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floordiv", "Mod":
    "remainder", "Pow": "pow", "MatMult": "matmul", "BitAnd": "__and__", "BitOr": "__or__", "BitXor":
    "__xor__", "LShift": "__lshift__", "RShift": "__rshift__", "Eq": "eq", "NotEq": "ne", "Lt": "lt",
    "LtE": "le", "Gt": "gt", "GtE": "ge", "Is": "__is__", "IsNot": "__isnot__", "In": "__contains__",
    "NotIn": "__contains__", "USub": "neg", "Not": "__not__", "Invert": "bitwise_not", "UAdd": "pos",
}


class _Lowering:
    """Writes one function's statements as nodes."""

    def __init__(self, inline, unit):
        self.inline, self.unit = inline, unit
        self.names: dict[str, int] = {}
        self.block: Block = Block()
        self.scope: dict[str, Value] = {}
        self.count = 0
        self.modules: list[str] = []  # paths of those whose methods are being inlined

    def node(self, op, operands, results, attributes=None, nested=None) -> Node:
        """A new node at the end of the block, in the scope of the modules at hand."""
        scope = "/".join(f"__module.{path}" for path in self.modules)
        node = Node(op, operands, results, attributes or {}, nested or [], scope)
        for r in results:
            r.producer = node
        self.block.body.append(node)
        return node

    def value(self, hint=None, kind="Tensor") -> Value:
        if hint is None or hint.startswith("_"):
            self.count += 1
            return Value(str(self.count), kind)
        n = self.names[hint] = self.names.get(hint, 0) + 1
        return Value(f"{hint}.{n}", kind)

    def emit(self, op, operands=(), kind: str | None = "Tensor", **attributes):
        result = [] if kind is None else [self.value(kind=kind)]
        self.node(op, list(operands), result, attributes)
        return result[0] if result else None

    # --- statements

    def statements(self, body):
        for i, s in enumerate(body):
            if isinstance(s, ast.If) and (_returns(s.body) or _returns(s.orelse)):
                return self.returning(s, body[i + 1 :])
            handler = getattr(self, f"_{type(s).__name__}", None)
            if handler is not None:
                handler(s)

    def returning(self, s, rest):
        """An ``if`` with a ``return`` inside: what follows it belongs to the other branch."""
        test = self.expr(s.test)
        branches = [
            self.inside(part if _returns(part) else [*part, *rest])[0] for part in (s.body, s.orelse)
        ]
        node = self.node("prim::If", [test], [], nested=branches)
        given = [b.returned[0] for b in branches if b.returned]
        if given:
            node.results.append(self.value(kind=given[0].kind))
            node.results[0].producer = node
        self.block.returned = list(node.results)

    def _Return(self, s):
        self.block.returned = [] if s.value is None else [self.expr(s.value)]

    def _Expr(self, s):
        self.expr(s.value)

    def _Assign(self, s):
        value = self.expr(s.value)
        for target in s.targets:
            self.assign(target, value)

    def _AnnAssign(self, s):
        value = self.expr(s.value)
        value.kind = parse_type(s.annotation).shown()
        self.assign(s.target, value)

    def _AugAssign(self, s):
        operands = [self.expr(s.target), self.expr(s.value)]
        name = _OPERATORS[type(s.op).__name__] + ("_" if operands[0].kind == "Tensor" else "")
        self.assign(s.target, self.emit(f"aten::{name}", operands, operands[0].kind))

    def assign(self, target, value):
        if isinstance(target, ast.Name):
            self.scope[target.id] = value
            if value.name.isdigit() and not target.id.startswith("_"):
                value.name = self.value(target.id).name
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = [self.value(e.id if isinstance(e, ast.Name) else None) for e in target.elts]
            op = "prim::ListUnpack" if value.kind.endswith("[]") else "prim::TupleUnpack"
            self.node(op, [value], parts)
            for e, part in zip(target.elts, parts):
                self.assign(e, part)
        elif isinstance(target, ast.Attribute):
            self.emit("prim::SetAttr", [self.expr(target.value), value], None, name=f'"{target.attr}"')
        elif isinstance(target, ast.Subscript):
            index = self.expr(target.slice)
            self.emit("aten::_set_item", [self.expr(target.value), index, value], None)

    def inside(self, body, parameters=()):
        """(block, the names it gives values to) of nested statements."""
        outer, scope, self.block = self.block, dict(self.scope), Block(list(parameters))
        self.statements(body)
        inner, self.block = self.block, outer
        after, self.scope = self.scope, scope
        return inner, after

    def _If(self, s):
        test = self.expr(s.test)
        (yes, a), (no, b) = self.inside(s.body), self.inside(s.orelse)
        node = self.node("prim::If", [test], [], nested=[yes, no])
        changed = [n for n in {**a, **b} if n in a and n in b and a[n] is not b[n]]
        for name in changed:
            result = self.value(name, a[name].kind)
            result.producer = node
            node.results.append(result)
            self.scope[name] = result
            yes.returned.append(a[name])
            no.returned.append(b[name])

    def loop(self, count, condition, body, test=None, before=None):
        assigned = {n.id for s in body for n in ast.walk(s)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        carried = [n for n in self.scope if n in assigned]
        index = self.value("i", "int")
        given = [self.value(n, self.scope[n].kind) for n in carried]
        node = self.node("prim::Loop", [count, condition, *(self.scope[n] for n in carried)], [])
        outer, scope, self.block = self.block, dict(self.scope), Block([index, *given])
        self.scope.update(zip(carried, given))
        if before is not None:
            before(index)
        self.statements(body)
        again = self.expr(test) if test is not None else self.constant(True)
        self.block.returned = [again, *(self.scope[n] for n in carried)]
        node.nested, self.block, self.scope = [self.block], outer, scope
        for name in carried:
            result = self.value(name, self.scope[name].kind)
            result.producer = node
            node.results.append(result)
            self.scope[name] = result

    def _While(self, s):
        self.loop(self.constant(9223372036854775807), self.expr(s.test), s.body, s.test)

    def _For(self, s):
        over = s.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
            count = self.expr(over.args[-1 if len(over.args) == 1 else 1])
            self.loop(count, self.constant(True), s.body, None, lambda i: self.assign(s.target, i))
            return
        items = self.expr(over)
        count = self.emit("aten::len", [items], "int")
        self.loop(
            count, self.constant(True), s.body, None,
            lambda i: self.assign(s.target, self.emit("aten::__getitem__", [items, i])),
        )

    def _With(self, s):
        entered = [self.expr(i.context_expr) for i in s.items]
        for e in entered:
            self.emit("prim::Enter", [e], "NoneType")
        self.statements(s.body)
        for e in reversed(entered):
            self.emit("prim::Exit", [e], "NoneType")

    def _Assert(self, s):
        test = self.expr(s.test)
        message = s.msg or ast.Constant("")
        raising = ast.Expr(ast.Call(ast.parse("ops.prim.RaiseException", mode="eval").body, [message], []))
        no, _ = self.inside([raising])
        self.node("prim::If", [test], [], nested=[Block(), no])

    # --- expressions

    def constant(self, value) -> Value:
        kinds = {bool: "bool", int: "int", float: "float", str: "str", type(None): "NoneType"}
        kind = kinds.get(type(value), type(value).__name__)
        if value is None:
            return self.emit("prim::Constant", (), kind)
        text = f'"{value}"' if isinstance(value, str) else str(
            int(value) if isinstance(value, bool) else value
        )
        return self.emit("prim::Constant", (), kind, value=text)

    def expr(self, e) -> Value:
        if isinstance(e, ast.Name):
            return self.scope.get(e.id) or self.constant(e.id)
        if isinstance(e, ast.Constant):
            return self.constant(e.value)
        if isinstance(e, ast.Attribute):
            path = ast.unparse(e)
            if path.startswith("CONSTANTS."):
                return self.emit("prim::Constant", (), "Tensor", value="<Tensor>")
            if path.startswith("__torch__"):
                return self.emit("prim::Constant", (), "Function", name=f'"{e.attr}"')
            return self.emit("prim::GetAttr", [self.expr(e.value)], self.attribute(e), name=f'"{e.attr}"')
        if isinstance(e, (ast.Tuple, ast.List)):
            parts = [self.expr(x) for x in e.elts]
            if isinstance(e, ast.Tuple):
                kind = f"({', '.join(p.kind for p in parts)})"
                return self.emit("prim::TupleConstruct", parts, kind)
            kind = f"{parts[0].kind if parts else 'Tensor'}[]"
            return self.emit("prim::ListConstruct", parts, kind)
        if isinstance(e, ast.Dict):
            parts = [self.expr(x) for pair in zip(e.keys, e.values) for x in pair]
            kind = f"Dict({parts[0].kind}, {parts[1].kind})" if parts else "Dict(str, Tensor)"
            return self.emit("prim::DictConstruct", parts, kind)
        if isinstance(e, ast.BinOp):
            left, right = self.expr(e.left), self.expr(e.right)
            kind = "Tensor" if "Tensor" in (left.kind, right.kind) else left.kind
            return self.emit(f"aten::{_OPERATORS[type(e.op).__name__]}", [left, right], kind)
        if isinstance(e, ast.UnaryOp):
            operand = self.expr(e.operand)
            return self.emit(f"aten::{_OPERATORS[type(e.op).__name__]}", [operand], operand.kind)
        if isinstance(e, ast.Compare):
            left, right = self.expr(e.left), self.expr(e.comparators[0])
            kind = "Tensor" if "Tensor" in (left.kind, right.kind) and right.kind != "NoneType" else "bool"
            return self.emit(f"aten::{_OPERATORS[type(e.ops[0]).__name__]}", [left, right], kind)
        if isinstance(e, ast.BoolOp):
            values = [self.expr(v) for v in e.values]
            name = "__and__" if isinstance(e.op, ast.And) else "__or__"
            return self.emit(f"aten::{name}", values, "bool")
        if isinstance(e, ast.Subscript):
            return self.emit("aten::__getitem__", [self.expr(e.value), self.expr(e.slice)])
        if isinstance(e, ast.Slice):
            return self.emit("prim::slice", [self.expr(x or ast.Constant(None))
                                             for x in (e.lower, e.upper, e.step)], "Any")
        if isinstance(e, ast.IfExp):
            test = self.expr(e.test)
            branches = []
            for part in (e.body, e.orelse):
                block, _ = self.inside([ast.Return(part)])
                branches.append(block)
            result = self.value(kind=branches[0].returned[0].kind)
            self.node("prim::If", [test], [result], nested=branches)
            return result
        if isinstance(e, ast.Call):
            return self.call(e)
        return self.emit("prim::Comprehension", (), "Tensor[]", value=f'"{ast.unparse(e)}"')

    def attribute(self, e) -> str:
        owner = self.expr_kind(e.value)
        found = owner.attributes.get(e.attr) if owner is not None else None
        return found.shown() if found is not None else "Tensor"

    def expr_kind(self, e) -> ClassType | None:
        """The class of an expression that leads to a module, or None."""
        if isinstance(e, ast.Name) and e.id in self.scope:
            return self.unit.classes.get(self.scope[e.id].kind)
        if isinstance(e, ast.Call) and ast.unparse(e.func) == "getattr":
            e = ast.Attribute(e.args[0], ast.literal_eval(e.args[1]), ast.Load())
        if isinstance(e, ast.Attribute):
            owner = self.expr_kind(e.value)
            found = owner.attributes.get(e.attr) if owner is not None else None
            return self.unit.classes.get(str(found)) if found is not None else None
        return None

    def call(self, e) -> Value:
        path = ast.unparse(e.func)
        if path in ("annotate", "unchecked_cast"):
            value = self.expr(e.args[1])
            kind = parse_type(e.args[0]).shown()
            if path == "annotate":
                value.kind = kind
                return value
            return self.emit("prim::unchecked_cast", [value], kind)
        if path == "uninitialized":
            return self.emit("prim::Uninitialized", (), parse_type(e.args[0]).shown())
        if path == "getattr":
            name = ast.literal_eval(e.args[1])
            made = ast.Attribute(e.args[0], name, ast.Load())
            return self.emit("prim::GetAttr", [self.expr(e.args[0])], self.attribute(made),
                             name=f'"{name}"')
        if path.startswith("__torch__"):
            return self.program_call(path, e)
        operands = [self.expr(a) for a in e.args] + [self.expr(k.value) for k in e.keywords]
        head, _, name = path.rpartition(".")
        if head == "torch":
            return self.emit(f"aten::{name}", operands, _result(name, operands))
        if head.startswith("ops."):
            result = {"RaiseException": None, "dtype": "int", "device": "Device"}.get(name, "Tensor")
            return self.emit(f"{head[4:]}::{name}", operands, result) or Value("none", "NoneType")
        if not head:
            kind = name if name in ("int", "float", "bool", "str") else _result(name, operands)
            op = {"int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool"}.get(name)
            return self.emit(op or f"aten::{name}", operands, kind)
        owner = self.expr_kind(e.func.value)
        receiver = self.expr(e.func.value)
        if owner is None:
            return self.emit(f"aten::{name}", [receiver, *operands], _result(name, [receiver]))
        method = owner.methods.get(name)
        if self.inline and method is not None:
            path = _module_path(receiver)
            self.modules += path
            result = self.inlined(method, [receiver, *operands])
            del self.modules[len(self.modules) - len(path) :]
            return result
        kind = method.schema.result.shown() if method is not None else "Tensor"
        return self.emit("prim::CallMethod", [receiver, *operands], kind, name=f'"{name}"')

    def program_call(self, path, e) -> Value:
        operands = [self.expr(a) for a in e.args] + [self.expr(k.value) for k in e.keywords]
        found = self.unit.find(path.removesuffix(".__new__"))
        if isinstance(found, Function):
            if self.inline or path.startswith("__torch__.frozen."):  # no call of the program's own
                return self.inlined(found, operands)
            target = self.emit("prim::Constant", (), "Function", name=f'"{found.name}"')
            return self.emit("prim::CallFunction", [target, *operands], found.schema.result.shown())
        return self.emit("prim::CreateObject", operands, path.removesuffix(".__new__"))

    def inlined(self, function: Function, operands) -> Value:
        """The statements of a called function, here."""
        scope, self.scope = self.scope, {}
        for i, (name, kind, default) in enumerate(function.schema.parameters):
            self.scope[name] = operands[i] if i < len(operands) else self.expr(default)
        returned, self.block.returned = self.block.returned, []
        self.statements(function.node.body)
        result, self.block.returned = self.block.returned, returned
        self.scope = scope
        return result[0] if result else self.constant(None)


def _module_path(value: Value) -> list[str]:
    """[where a module stands in the outermost one], or nothing for that one itself."""
    names = []
    while value.producer is not None and value.producer.op == "prim::GetAttr":
        names.append(ast.literal_eval(value.producer.attributes["name"]))
        value = value.producer.operands[0]
    return [".".join(reversed(names))] if names else []


def _returns(body) -> bool:
    """Whether statements end with a ``return``, in all branches."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _returns(last.body) and _returns(last.orelse)
    return isinstance(last, ast.Return)


def _result(name, operands) -> str:
    if name in _INTS:
        return "int" if len(operands) != 1 or name != "size" else "int[]"
    if name in _BOOLS:
        return "bool"
    if name in _STRINGS:
        return "str"
    kinds = {o.kind for o in operands}
    scalar = kinds and kinds <= {"int", "float", "bool", "str"}
    if scalar and name in ("eq", "ne", "lt", "le", "gt", "ge"):
        return "bool"
    if scalar and name in ("add", "sub", "mul", "remainder", "neg", "pow", "div"):
        return "float" if "float" in kinds or name == "div" else operands[0].kind
    if name in ("chunk", "split", "unbind", "split_with_sizes"):
        return "Tensor[]"
    return "Tensor"


def lower(function: Function, inline: bool = False) -> Graph:
    """The graph of a program's function.

    Args:
        inline: write called functions and methods out.
    """
    lowering = _Lowering(inline, function.unit)
    graph = Graph()
    lowering.block = graph
    for i, (name, kind, _) in enumerate(function.schema.parameters):
        shown = str(kind) if i == 0 and function.owner is not None else kind.shown()
        value = lowering.value(name, shown)
        graph.parameters.append(value)
        lowering.scope[name] = value
    lowering.statements(function.node.body)
    return graph


services.lower = lower
