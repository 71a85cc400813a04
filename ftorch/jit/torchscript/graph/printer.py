"""``.code``: a graph as the text of a function, with temporaries and annotations as PyTorch writes them."""

from __future__ import annotations

import keyword

from ....eager.core.device import device
from ....eager.tensor import TensorBase
from ..program.types import Type
from .ir import Function, Graph, Node, Value, annotation, number_text, python_name
from .schemas import MISSING

__all__ = ["function_text", "separate_breaks"]

_LONG = 40  # characters that a line may have before what it is made of gets names
_RESERVED = frozenset("_ as aten attribute CONSTANTS fork getattr inf nan infj nanj ops __torch__ uninitialized "
                      "unchecked_cast print".split()) | frozenset(keyword.kwlist)
_CONSTANT_LIKE = ("prim::Constant",)


def function_text(function, graph: Graph) -> tuple[str, list]:
    """(the text of a function, the tensors that it refers to)."""
    printer = _Printer(graph, function.unit)
    return printer.function(function), printer.tensors


class _Printer:
    def __init__(self, graph, unit):
        self.graph, self.unit = graph, unit
        self.names: dict[Value, str] = {}
        self.inlined: dict[Value, str] = {}
        self.used: set[str] = set()
        self.next: dict[str, int] = {}
        self.inline: set[Node] = set()
        self.pending: list[Value] = []  # values whose text is not yet part of another one's, in order
        self.uses = graph.uses()
        self.out: list[str] = []
        self.level = 0
        self.tensors: list = []
        self.noted: set[Value] = set()  # values of several types that are printed with them

    # --- names

    def name(self, candidate: str) -> str:
        name = candidate
        while name in self.used or name in _RESERVED:
            n = self.next.get(name, 0)
            self.next[name] = n + 1
            name = f"{candidate}{n}"
        self.used.add(name)
        return name

    def give(self, values) -> None:
        for v in values:
            base = _identifier(v.base_name) if v.name else "_"
            self.names[v] = self.name(base)

    def of(self, v: Value) -> str:
        """What stands for a value."""
        if v in self.names:
            return self.names[v]
        if v in self.inlined:
            return self.inlined[v]
        node = v.producer
        if node is not None and node.op == "prim::Constant":
            return self.constant(node.attributes.get("value"), v.kind)
        return v.name or f"_{v.number}"

    def listed(self, values) -> str:
        return ", ".join(self.of(v) for v in values)

    def line(self, text) -> None:
        self.out.append("  " * self.level + text)

    # --- which nodes stand where they are used

    def scan_block(self, block) -> None:
        self.scan(None, block, block.returned, len(block.body))
        for i in range(len(block.body) - 1, -1, -1):
            node = block.body[i]
            if node not in self.inline:
                self.scan_node(node, block, i)

    def scan_node(self, node, block, index):
        for inner in node.nested:
            self.scan_block(inner)
        return self.scan(node, block, node.operands, index)

    def scan(self, node, block, operands, index):
        point = self.previous(block, index)
        for i in range(len(operands) - 1, -1, -1):
            v = operands[i]
            n = v.producer
            if point >= 0 and n is block.body[point] and self.can_inline(v, node, i):
                self.inline.add(n)
                point = self.scan_node(n, block, point)
        return point

    def previous(self, block, index) -> int:
        index -= 1
        while index >= 0 and block.body[index].op in _CONSTANT_LIKE:
            index -= 1
        return index

    def can_inline(self, v, user, offset) -> bool:
        n = v.producer
        if len(n.results) != 1 or len(self.uses.get(v, ())) != 1 or n.nested or n.op == "prim::isinstance":
            return False
        if v.name is not None and user is not None or n.op == "prim::ListConstruct" and _is_annotated(v.kind):
            return False
        if user is not None and user.op == "prim::Loop" and offset >= 2:
            return False
        return user is None or user.op not in ("prim::fork", "prim::rpc_async")

    # --- statements

    def function(self, function) -> str:
        schema, parts = function.schema, []
        for i, ((name, kind, default), value) in enumerate(zip(schema.parameters, self.graph.parameters)):
            shown = self.names[value] = self.name(name)
            if i == 0 and function.owner is not None:
                parts.append(shown)
                continue
            text = f"{shown}: {annotation(kind)}"
            if default is not None:
                text += f"={self.constant(schema.default(i), kind)}"
            parts.append(text)
        result = schema.result if function.node.returns is not None else (
            self.graph.returned[0].kind if self.graph.returned else Type("NoneType"))
        self.line(f"def {function.name}({(',' + chr(10) + '    ').join(parts)}) -> {annotation(result)}:")
        self.level += 1
        self.scan_block(self.graph)
        self.block(self.graph, bool(self.graph.returned))
        if self.graph.returned:
            self.split(self.graph.returned)
            self.line(f"return {self.listed(self.graph.returned)}")
        return "\n".join(self.out) + "\n"

    def block(self, block, has_more) -> None:
        if not has_more and not block.body:
            self.line("pass")
        for node in block.body:
            self.node(node)

    def node(self, node: Node) -> None:
        if node.op in _CONSTANT_LIKE:
            return
        self.split(node.operands)
        if node not in self.inline:
            self.pending = [v for v in self.pending if v not in node.operands]
        if node.op == "prim::If":
            self.branches(node)
        elif node.op == "prim::Loop":
            self.loop(node)
        elif node.op in ("prim::TupleUnpack", "prim::ListUnpack"):
            self.give(node.results)
            left = "".join(f"{self.names[v]}, " for v in node.results)
            self.line(f"{left}= {self.listed(node.operands)}")
        elif node.op == "prim::SetAttr":
            owner, value = map(self.of, node.operands)
            self.line(f"{owner}.{node.attributes['name']} = {value}")
        elif node.op == "prim::Enter":
            target = ""
            if self.uses.get(node.results[0]):
                self.give(node.results)
                target = f" as {self.names[node.results[0]]}"
            self.line(f"with {self.of(node.operands[0])}{target}:")
            self.level += 1
            at = node.block.body.index(node)
            if at + 1 < len(node.block.body) and node.block.body[at + 1].op == "prim::Exit":
                self.line("pass")
        elif node.op == "prim::Exit":
            self.level -= 1
        elif node in self.inline:
            self.inlined[node.results[0]] = self.expression(node)
            self.pending = [v for v in self.pending if v not in node.operands] + [node.results[0]]
        else:
            self.define(node, self.expression(node))

    def define(self, node, text) -> None:
        self.give(node.results)
        left = ", ".join(self.names[v] for v in node.results)
        self.line(f"{left} = {text}" if left else text)

    def split(self, values) -> None:
        """Gives names to what would make a line too long, and to what is evaluated before that."""
        count = 0
        for i, v in enumerate(values):
            if v in self.inlined and v not in self.names and len(self.inlined[v]) + self.level * 2 >= _LONG:
                count = i + 1
        if not count:
            return
        last = max((self.pending.index(v) for v in values[:count] if v in self.pending), default=-1)
        for v in self.pending[: last + 1]:  # what is evaluated before comes before
            self.define(v.producer, self.inlined[v])
        del self.pending[: last + 1]

    def assign(self, left, right) -> None:
        if left:
            note = ""
            if len(left) == 1 and left[0].kind.name in ("Optional", "Union") and left[0] not in self.noted:
                self.noted.add(left[0])  # what its first value is would not tell
                note = f" : {annotation(left[0].kind)}"
            self.line(f"{', '.join(map(self.of, left))}{note} = {self.listed(right)}")
            self.pending = [v for v in self.pending if v not in right]

    def branches(self, node) -> None:
        self.give(node.results)
        self.line(f"if {self.of(node.operands[0])}:")
        for i, block in enumerate(node.nested):
            if i:
                self.line("else:")
            self.level += 1
            self.block(block, bool(node.results))
            self.split(block.returned)
            self.assign(node.results, block.returned)
            self.level -= 1

    def loop(self, node) -> None:
        body = node.nested[0]
        self.give(node.results)
        for inside, outside in zip(body.parameters[1:], node.results):
            self.names[inside] = self.names[outside]
        for left, right in zip(node.results, node.operands[2:]):
            self.assign([left], [right])
        index = body.parameters[0]
        self.give([index])
        counted = is_counted(node)
        if counted:
            self.line(f"for {self.names[index]} in range({self.of(node.operands[0])}):")
        else:
            self.assign([index], [node.operands[1]])
            self.line(f"while {self.names[index]}:")
        self.level += 1
        skipped = 1 if counted else 0
        self.block(body, len(body.parameters) > skipped)
        self.split(body.returned[skipped:])
        self.assign(body.parameters[skipped:], body.returned[skipped:])
        self.level -= 1

    # --- expressions

    def constant(self, value, kind) -> str:
        if isinstance(value, TensorBase):
            at = next((i for i, t in enumerate(self.tensors) if t is value), None)
            if at is None:
                at = len(self.tensors)
                self.tensors.append(value)
            return f"CONSTANTS.c{at}"
        if isinstance(value, Function):
            found = self.unit.name_of(value.function)
            return found or f"__torch__.{value.name}"
        return constant_text(value, kind)

    def expression(self, node: Node) -> str:
        op, given = node.op, node.operands
        handler = _EXPRESSIONS.get(op)
        if handler is not None:
            return handler(self, node)
        namespace, _, name = op.partition("::")
        if namespace == "prim" and name in ("CallFunction", "CallMethod"):
            inner = "".join(f"{self.of(v)}, " for v in given[1:])
            if name == "CallFunction":
                return f"{self.of(given[0])}({inner})"
            return f"({self.of(given[0])}).{node.attributes['name']}({inner})"
        head = "torch" if namespace == "aten" else f"ops.{namespace}"
        head = "torch.autograd" if node.op in ("aten::grad", "aten::backward") else head
        return f"{head}.{name}({', '.join(self.operator_arguments(node))})"

    def operator_arguments(self, node) -> list[str]:
        given, arguments = node.operands, node.arguments
        if not arguments:
            if node.op == "prim::RaiseException" and len(given) == 2 and _is_none(given[1]):
                given = given[:1]
            return [self.of(v) for v in given]
        count = len(given)
        while count and arguments[count - 1][1] is not MISSING and _is_default(given[count - 1], arguments[count - 1][1]):
            count -= 1
        return [f"{n}={self.of(v)}" if only else self.of(v) for (n, _, only), v in zip(arguments[:count], given)]


def _is_none(v) -> bool:
    return v.producer is not None and v.producer.op == "prim::Constant" and v.producer.attributes.get("value", 0) is None


def _is_default(v, default) -> bool:
    node = v.producer
    if node is None:
        return False
    if node.op == "prim::ListConstruct" and isinstance(default, list):
        return False
    if node.op != "prim::Constant":
        return False
    value = node.attributes.get("value")
    if isinstance(value, list) and type(default) is int:
        return all(x == default for x in value)
    return type(value) is type(default) and value == default or (
        type(value) in (int, float) and type(default) in (int, float) and value == default)


def is_counted(node) -> bool:
    """Whether a loop has a number of turns and no other condition."""
    count, first, again = node.operands[0], node.operands[1], node.nested[0].returned[0]
    always = first.toIValue() is True and again.toIValue() is True
    return always and count.toIValue() != 9223372036854775807


def _identifier(name: str) -> str:
    made = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return f"_{made}" if made[:1].isdigit() else made


def constant_text(value, kind=None) -> str:
    """A constant as programs write it."""
    if isinstance(value, str) and isinstance(kind, Type) and kind.is_class:
        return value
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, complex):
        return f"complex({number_text(value.real)}, {number_text(value.imag)})"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, device):
        return f'torch.device("{value}")'
    if isinstance(value, tuple):
        inner = ", ".join(constant_text(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        if not value:
            shown = annotation(kind) if isinstance(kind, Type) and kind.name == "List" else "List[int]"
            return f"annotate({shown}, [])"
        return f"[{', '.join(constant_text(v) for v in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{constant_text(k)}: {constant_text(v)}' for k, v in value.items())}}}"
    return str(value)


def _quoted(text: str) -> str:
    plain = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
             "\t": "\\t", "\v": "\\v"}
    made = "".join(
        plain[c] if c in plain else c if c.isascii() and c.isprintable() else "".join(
            f"\\{b:03o}" for b in c.encode()) for c in text)
    return f'"{made}"'


# --- what has a form of its own


def _cast(name):
    return lambda p, node: f"{name}({p.listed(node.operands)})"


def _subscript(p, node):
    owner = p.of(node.operands[0])
    return f"{owner if owner.isidentifier() else f'({owner})'}[{p.of(node.operands[1])}]"


def _tuple(p, node):
    kind = node.results[0].kind
    inner = p.listed(node.operands)
    if isinstance(kind, Type) and kind.is_class:
        return f"{kind.name}({inner})"
    return f"({inner},)" if len(node.operands) == 1 else f"({inner})"


def _is_annotated(kind) -> bool:
    return isinstance(kind, Type) and kind.name == "List" and kind.args[0].name == "Optional"


def _list(p, node):
    kind = node.results[0].kind
    if not node.operands:
        return f"annotate({annotation(kind)}, [])"
    inner = f"[{p.listed(node.operands)}]"
    if _is_annotated(kind):
        return f"annotate({annotation(kind)}, {inner})"
    return inner


def _dict(p, node):
    if not node.operands:
        return f"annotate({annotation(node.results[0].kind)}, {{}})"
    pairs = zip(node.operands[::2], node.operands[1::2])
    return f"{{{', '.join(f'{p.of(k)}: {p.of(v)}' for k, v in pairs)}}}"


def _attribute(p, node):
    owner, name = p.of(node.operands[0]), node.attributes["name"]
    if name.isidentifier() and not keyword.iskeyword(name):
        return f"{owner}.{name}"
    return f'getattr({owner}, "{name}")'


def _created(p, node):
    name = annotation(node.results[0].kind)
    return f"{name}.__new__({name})"


def _typed(word):
    return lambda p, node: f"{word}({annotation(node.results[0].kind)}{''.join(f', {p.of(v)}' for v in node.operands)})"


def _instance(p, node):
    kinds = [annotation(k) for k in node.attributes["types"]]
    shown = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
    return f"isinstance({p.of(node.operands[0])}, {shown})"


def _python(p, node):
    return f"{python_name(node)}({', '.join(p.of(v) for v in node.operands)})"


_EXPRESSIONS = {
    "prim::PythonOp": _python,
    "aten::Int": _cast("int"), "aten::Float": _cast("float"), "aten::Bool": _cast("bool"), "aten::str": _cast("str"),
    "aten::Complex": _cast("complex"), "prim::Print": _cast("print"), "aten::sorted": _cast("sorted"),
    "aten::__getitem__": _subscript, "prim::TupleConstruct": _tuple, "prim::ListConstruct": _list,
    "prim::DictConstruct": _dict, "prim::GetAttr": _attribute, "prim::CreateObject": _created,
    "prim::TupleIndex": lambda p, node: f"({p.of(node.operands[0])})[{p.of(node.operands[1])}]",
    "prim::TupleSlice": lambda p, node: (
        f"({p.of(node.operands[0])})[{node.attributes['beg']}:{node.attributes['end']}]"),
    "prim::unchecked_cast": _typed("unchecked_cast"), "prim::Uninitialized": _typed("uninitialized"),
    "prim::isinstance": _instance,
    "prim::Unknown": lambda p, node: node.attributes["value"],
    "prim::EnumName": lambda p, node: f"{p.of(node.operands[0])}.name",
    "prim::EnumValue": lambda p, node: f"{p.of(node.operands[0])}.value",
    **{f"aten::{n}Implicit": _typed("annotate") for n in ("Int", "Float", "Scalar", "Complex")},
}


def separate_breaks(graph: Graph) -> None:
    """Loops that have a number of turns and a condition count their turns themselves, as the text has to."""
    from ..program.types import BOOL, INT

    for block in list(graph.all_blocks()):
        for node in list(block.body):
            if node.op != "prim::Loop":
                continue
            body, count = node.nested[0], node.operands[0]
            first, again = node.operands[1].toIValue(), body.returned[0].toIValue()
            bounded = count.toIValue() != 9223372036854775807
            if not bounded or first is True and again is True:
                continue
            at = block.body.index(node)

            def add(where, index, op, operands, kind):
                made = graph.create(op, operands, [kind])
                where.insert(index, made)
                return made.results[0]

            def constant(value):
                for n in graph.body:
                    if n.op == "prim::Constant" and type(n.attributes.get("value")) is int and (
                            n.attributes["value"] == value):
                        return n.results[0]
                made = graph.create("prim::Constant", (), [INT], None, value=value)
                graph.insert(0, made)
                return made.results[0]

            zero, one, most = constant(0), constant(1), constant(9223372036854775807)
            at = block.body.index(node)
            begin = add(block, at, "aten::gt", [count, zero], BOOL)
            if first is not True:
                begin = add(block, at + 1, "aten::__and__", [begin, node.operands[1]], BOOL)
            node.operands[:2] = [most, begin]
            node.operands.append(zero)
            node.add_result(INT)
            turn = body.add_parameter(INT)
            graph.replace({body.parameters[0]: turn})
            more = add(body, len(body.body), "aten::add", [turn, one], INT)
            less = add(body, len(body.body), "aten::lt", [more, count], BOOL)
            both = less if again is True else add(body, len(body.body), "aten::__and__", [less, body.returned[0]], BOOL)
            body.returned[0] = both
            body.returned.append(more)
