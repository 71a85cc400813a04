"""The graphs that ``.graph`` shows: values, nodes and blocks, numbered, named and printed as PyTorch does."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from ....eager.core.device import device
from ....eager.tensor import TensorBase
from ..program.types import TENSOR, Type
from .schemas import schema_text

__all__ = ["Block", "Function", "Graph", "GraphType", "Node", "Use", "Value", "annotation", "is_meaningful", "number_text"]

_FUTURE = re.compile(r"Future\(([^()]*)\)")  # graphs write these types in brackets


class GraphType(str):
    """A value's type as graphs write it."""

    def kind(self) -> str:
        """``TensorType``, ``IntType``, ..."""
        head, bracket, _ = self.partition("[")
        if bracket and head in ("Optional", "List", "Tuple", "Dict", "Union"):
            return f"{head}Type"
        if self.startswith("__torch__"):
            return "ClassType"
        if self.endswith(")") or self == "Tensor":
            return "TensorType"
        plain = {"int": "IntType", "float": "FloatType", "bool": "BoolType", "str": "StringType",
                 "Device": "DeviceObjType", "number": "NumberType", "complex": "ComplexType"}
        return plain.get(self, self if self.endswith("Type") else f"{self}Type")

    def sizes(self) -> list[int] | None:
        """The shape that an example had, if it is known."""
        inside = self.partition("(")[2]
        if not inside.endswith(")"):
            return None
        shape = inside.partition("=")[0].split(", ")[:-1]  # the last goes on: "strides=[3, 1], ..."
        return [int(size) for size in shape] if all(size.isdigit() for size in shape) else None

    def dim(self) -> int | None:
        """The number of dimensions that an example had, if it is known."""
        sizes = self.sizes()
        return None if sizes is None else len(sizes)

    @property
    def annotation_str(self) -> str:
        """The text as an annotation."""
        return "Tensor" if self.kind() == "TensorType" else f"{self}"


def annotation(kind) -> str:
    """A type as programs write it."""
    if isinstance(kind, str):
        return kind
    if kind.name == "Tuple" and not kind.args:
        return "Tuple[()]"
    return f"{kind.name}[{', '.join(map(annotation, kind.args))}]" if kind.args else kind.name


def is_meaningful(name: str) -> bool:
    """Whether a variable's name is kept as a value's: ``_0`` is not."""
    if not name or name[0] == "$":
        return False
    return name[0] != "_" or not name[1:].isdigit() and name != "_"


class Function:
    """The value of a constant that is a function of the program."""

    def __init__(self, name, function):
        self.name, self.function = name, function


@dataclass(frozen=True)
class Use:
    """Where a value is used: the node (None: a block's results), and which operand it is."""

    user: Node | None
    offset: int


class Value:
    """A value: its number or name, its type, the node that makes it."""

    def __init__(self, graph: Graph, kind: Type | str, producer: Node | None = None):
        self.graph, self.kind, self.producer = graph, kind, producer
        self.number = graph.count
        graph.count += 1
        self.name: str | None = None
        self.detail = ""  # the type with what an example had: ``Float(2, strides=[1], ...)``

    def debugName(self) -> str:  # noqa: N802  (PyTorch's)
        """The name, without the percent sign."""
        return self.name or str(self.number)

    def setDebugName(self, name: str) -> Value:  # noqa: N802
        """Names the value; another one of that name gets a number behind its own."""
        self.rename(name)
        return self

    def unique(self) -> int:
        """The value's number in its graph."""
        return self.number

    def hasDebugName(self) -> bool:  # noqa: N802
        """Whether it has a name beside its number."""
        return self.name is not None

    def type(self) -> GraphType:
        """The type's text."""
        return GraphType(self.detail or annotation(self.kind))

    @property
    def shown(self) -> str:
        return self.detail or (self.kind if isinstance(self.kind, str) else _FUTURE.sub(r"Future[\1]", self.kind.shown()))

    def node(self) -> Node | None:
        """The node that makes it."""
        return self.producer

    def uses(self) -> list[Use]:
        """Where it is used."""
        return self.graph.uses().get(self, [])

    def toIValue(self):  # noqa: N802
        """A constant's value, or None."""
        if self.producer is not None and self.producer.op == "prim::Constant":
            return self.producer.attributes.get("value")
        return None

    def rename(self, name: str | None) -> None:
        names = self.graph.names
        if self.name is not None and names.get(self.name) is self:
            del names[self.name]
        if not name:
            self.name = None
            return
        other = names.get(name)
        if other is not None and other is not self:
            base, dot, digits = name.rpartition(".")
            suffix = 1
            if dot and digits.isdigit():
                suffix = int(digits)
            else:
                base = name
            suffix = max(suffix, self.graph.suffixes.get(base, -1) + 1)
            while f"{base}.{suffix}" in names:
                suffix += 1
            self.graph.suffixes[base] = suffix + 1
            other.name = f"{base}.{suffix}"
            names[other.name] = other
        names[name] = self
        self.name = name

    @property
    def base_name(self) -> str:
        """The name without its number."""
        name = self.name or ""
        base, dot, digits = name.rpartition(".")
        return base if dot and digits.isdigit() else name

    def isCompleteTensor(self) -> bool:  # noqa: N802
        """Whether it is a tensor whose dtype, sizes and device an example told."""
        return self.type().sizes() is not None

    def __repr__(self):
        made = str(self.producer).rstrip("\n") if self.producer is not None else ""
        return f"{self.debugName()} defined in ({made}\n)" if made else f"{self.debugName()} defined in ()"


@dataclass(eq=False)
class Node:
    """An operator's call.

    Attributes:
        attributes: such as a constant's value, by name.
        nested: the blocks of ``prim::If`` and ``prim::Loop``.
        place: (file, line, column) in the source, or None.
        scope: the modules whose inlined methods it is in, ``"__module.2/__module.2.0"``.
    """

    graph: Graph
    op: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    attributes: dict = field(default_factory=dict)
    nested: list[Block] = field(default_factory=list)
    place: tuple | None = None
    scope: str = ""
    block: Block | None = None
    arguments: list | None = None  # of the schema: [(name, default or MISSING, keyword only)]

    def add_result(self, kind) -> Value:
        self.results.append(Value(self.graph, kind, self))
        return self.results[-1]

    def add_block(self) -> Block:
        self.nested.append(Block(self.graph, self))
        return self.nested[-1]

    def scopeName(self) -> str:  # noqa: N802
        """The modules whose inlined methods the call is in, outermost first."""
        return self.scope

    def kind(self) -> str:
        """The operator, ``"aten::relu"``."""
        return self.op

    def schema(self) -> str:
        """The operator's schema, "(no schema)" for what the language itself has (constants, branches)."""
        kinds = [[v.kind if isinstance(v.kind, Type) else TENSOR for v in side] for side in (self.operands, self.results)]
        return schema_text(self.op, *kinds)

    def inputs(self):
        """The operands."""
        return iter(self.operands)

    def outputs(self):
        """The results."""
        return iter(self.results)

    def output(self) -> Value:
        """The only result."""
        return self.results[0]

    def inputsSize(self) -> int:  # noqa: N802
        """How many operands there are."""
        return len(self.operands)

    def outputsSize(self) -> int:  # noqa: N802
        """How many results there are."""
        return len(self.results)

    def inputsAt(self, i: int) -> Value:  # noqa: N802
        """An operand."""
        return self.operands[i]

    def outputsAt(self, i: int) -> Value:  # noqa: N802
        """A result."""
        return self.results[i]

    def blocks(self):
        """The nested blocks."""
        return iter(self.nested)

    def hasAttribute(self, name: str) -> bool:  # noqa: N802
        """Whether it has an attribute of a name."""
        return name in self.attributeNames()

    def attributeNames(self) -> list[str]:  # noqa: N802
        """The names of its attributes."""
        none = self.op == "prim::Constant" and self.attributes.get("value", 0) is None
        return [] if none else ["name" if isinstance(v, Function) else k for k, v in self.attributes.items()]

    def kindOf(self, name: str) -> str:  # noqa: N802
        """What an attribute is: "s", "i", "f", "t", or "ival" for other values."""
        value = self._get(name)
        if isinstance(value, TensorBase):
            return "t"
        return {str: "s", int: "i", bool: "i", float: "f", complex: "c"}.get(type(value), "ival")

    def _get(self, name):
        if name not in self.attributes:
            raise RuntimeError(f"required keyword attribute '{name}' has the wrong type")
        return self.attributes[name]

    def _typed(self, name, *kinds):
        value = self._get(name)
        if not isinstance(value, kinds):
            raise RuntimeError(f"required keyword attribute '{name}' has the wrong type")
        return value

    def s(self, name: str) -> str:
        """An attribute that is a string."""
        return self._typed(name, str)

    def i(self, name: str) -> int:
        """An attribute that is an integer or a bool."""
        return int(self._typed(name, int))

    def f(self, name: str) -> float:
        """An attribute that is a float."""
        return self._typed(name, float)

    def t(self, name: str):
        """An attribute that is a tensor."""
        return self._typed(name, TensorBase)

    def ival(self, name: str):
        """An attribute's value."""
        return self._get(name)

    def sourceRange(self) -> str:  # noqa: N802
        """Where in the source the call is written."""
        return f"{self.place[0]}:{self.place[1]}:{self.place[2]}" if self.place else ""

    def lines(self, indent: str) -> list[str]:
        left = ", ".join(f"%{v.debugName()} : {v.shown}" for v in self.results)
        shown = python_name(self) if self.op == "prim::PythonOp" else f"{self.op}{_attributes(self)}"
        call = f"{shown}({', '.join('%' + v.debugName() for v in self.operands)})"
        line = f"{indent}{left} = {call}"
        if self.scope:
            line += f", scope: {self.scope}"
        if self.place:
            line += f" # {self.sourceRange()}"
        out = [line]
        for i, block in enumerate(self.nested):
            given = ", ".join(f"%{v.debugName()} : {v.shown}" for v in block.parameters)
            out.append(f"{indent}  block{i}({given}):")
            for node in block.body:
                out += node.lines(indent + "    ")
            returned = ", ".join("%" + v.debugName() for v in block.returned)
            out.append(f"{indent}    -> ({returned})")
        return out

    def __str__(self):
        return "\n".join(self.lines("")) + "\n"

    __repr__ = __str__

    def __hash__(self):
        return id(self)


def python_name(node) -> str:
    """What a call that is left to Python is shown as: its name, and the arguments that are no tensors."""
    return f"^{node.attributes['name']}({', '.join(map(repr, node.attributes['constants']))})"


def _attributes(node) -> str:
    if node.op == "prim::Constant" and node.attributes.get("value", 0) is None:
        return ""
    parts = []
    for name, value in node.attributes.items():
        if isinstance(value, Function):
            parts.append(f'name="{value.name}"')
        else:
            parts.append(f"{name}={attribute_text(value)}")
    return f"[{', '.join(parts)}]" if parts else ""


def attribute_text(value) -> str:
    """An attribute's value as graphs write it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, complex):
        return f"{number_text(value.real)}{'+' if value.imag >= 0 else ''}{number_text(value.imag)}j"
    if isinstance(value, TensorBase):
        if value.dim() == 0 or value.numel() == 1:
            item = value.detach().reshape(()).item()
            shown = f"{item:.6g}" if isinstance(item, float) else str(int(item)) if isinstance(
                item, (bool, int)) else str(item)
            return f"{{{shown}}}"
        return "<Tensor>"
    if isinstance(value, device):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        inner = ", ".join(str(v) if isinstance(v, bool) else attribute_text(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return str(value)


def number_text(value: float) -> str:
    """A float as programs write it: ``1.``, ``0.5``, ``1.0000000000000001e-05``."""
    if math.isinf(value) or math.isnan(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 10**10:
        return f"{int(value)}." if value or math.copysign(1, value) > 0 else "-0."
    text = f"{value:.17g}"
    short = repr(value)
    return short if float(f"{value:.15g}") == value and "e" not in text and len(short) < len(text) else text


class Block:
    """Nodes in order, with what comes in and what goes out."""

    def __init__(self, graph: Graph | None = None, owner: Node | None = None):
        self.graph = graph if graph is not None else self
        self.owner = owner
        self.parameters: list[Value] = []
        self.body: list[Node] = []
        self.returned: list[Value] = []

    def add_parameter(self, kind, name=None) -> Value:
        value = Value(self.graph, kind)  # type: ignore[arg-type]
        self.parameters.append(value)
        if name and is_meaningful(name):
            value.rename(name)
        return value

    def insert(self, index: int, node: Node) -> Node:
        node.block = self
        self.body.insert(index, node)
        return node

    def append(self, node: Node) -> Node:
        return self.insert(len(self.body), node)

    def nodes(self):
        """The nodes."""
        return iter(self.body)

    def inputs(self):
        """What comes in."""
        return iter(self.parameters)

    def outputs(self):
        """What goes out."""
        return iter(self.returned)

    def walk(self):
        """All nodes, those of nested blocks behind their owner."""
        for node in list(self.body):
            yield node
            for inner in node.nested:
                yield from inner.walk()

    def all_blocks(self):
        """The block and all nested ones."""
        yield self
        for node in self.body:
            for inner in node.nested:
                yield from inner.all_blocks()


class Graph(Block):
    """A function's operators. ``str`` writes them as PyTorch does."""

    def __init__(self):
        self.count = 0
        self.names: dict[str, Value] = {}
        self.suffixes: dict[str, int] = {}
        self.numbers: dict[int, int | float] = {}  # Python's numbers that are tensors here, by their ids
        super().__init__()

    def create(self, op, operands=(), kinds=(), place=None, **attributes) -> Node:
        """A new node that is in no block yet."""
        node = Node(self, op, list(operands), [], attributes, [], place)
        for kind in kinds:
            node.add_result(kind)
        return node

    def uses(self) -> dict[Value, list[Use]]:
        """Where each value is used."""
        found: dict[Value, list[Use]] = {}
        for block in self.all_blocks():
            for node in block.body:
                for i, v in enumerate(node.operands):
                    found.setdefault(v, []).append(Use(node, i))
            for i, v in enumerate(block.returned):
                found.setdefault(v, []).append(Use(None, i))
        return found

    def replace(self, changed: dict[Value, Value]) -> None:
        """Puts values in the place of others, everywhere."""
        if not changed:
            return

        def new(v):
            while v in changed:
                v = changed[v]
            return v

        for block in self.all_blocks():
            for node in block.body:
                node.operands = [new(v) for v in node.operands]
            block.returned = [new(v) for v in block.returned]

    def forget(self, node: Node) -> None:
        """Removes a node; the names of its values are free again."""
        if node.block is not None:
            node.block.body.remove(node)
            node.block = None
        for inner in node.nested:
            for v in inner.parameters:
                v.rename(None)
            for n in list(inner.body):
                self.forget(n)
        for v in node.results:
            v.rename(None)

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:  # noqa: N802
        """The first node of a kind."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:  # noqa: N802
        """All nodes of a kind."""
        return [n for n in (self.walk() if recurse else self.body) if n.op == kind]

    def copy(self) -> Graph:
        """A copy of the graph, with numbers of its own."""
        made = Graph()
        clone_block(made, self, made, {})
        return made

    def __str__(self):
        given = ",\n      ".join(f"%{v.debugName()} : {v.shown}" for v in self.parameters)
        lines = [f"graph({given}):"]
        for node in self.body:
            lines += node.lines("  ")
        lines.append(f"  return ({', '.join('%' + v.debugName() for v in self.returned)})")
        return "\n".join(lines) + "\n"

    __repr__ = __str__


def clone_block(graph: Graph, source: Block, target: Block, known: dict) -> None:
    """Copies parameters, nodes and results of a block to the end of another one."""
    for v in source.parameters:
        made = target.add_parameter(v.kind)
        made.detail = v.detail
        if v.name:
            made.rename(v.name)
        known[v] = made
    for node in source.body:
        target.append(clone_node(graph, node, known))
    target.returned += [known.get(v, v) for v in source.returned]


def clone_node(graph: Graph, node: Node, known: dict) -> Node:
    """A copy of a node that is in no block yet; ``known`` has what to put for its operands."""
    made = Node(graph, node.op, [known.get(v, v) for v in node.operands], [], dict(node.attributes), [],
                node.place, node.scope, None, node.arguments)
    for v in node.results:
        copied = made.add_result(v.kind)
        copied.detail = v.detail
        if v.name:
            copied.rename(v.name)
        known[v] = copied
    for inner in node.nested:
        clone_block(graph, inner, made.add_block(), known)
    return made
