"""The graphs that ``.graph`` shows: values, nodes and blocks, printed as PyTorch prints them."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Block", "Graph", "Node", "Value"]


@dataclass(eq=False)
class Value:
    """A value: its name, its type, the node that makes it."""

    name: str
    kind: str = "Tensor"
    producer: Node | None = None

    def debugName(self) -> str:  # noqa: N802  (PyTorch's)
        """The name, without the percent sign."""
        return self.name

    def type(self) -> str:
        """The type's text."""
        return self.kind

    def node(self) -> Node | None:
        """The node that makes it."""
        return self.producer

    def __repr__(self):
        return f"{self.name} defined in ({self.producer})"


@dataclass(eq=False)
class Node:
    """An operator's call.

    Attributes:
        attributes: such as a constant's value, by name.
        nested: the blocks of ``prim::If`` and ``prim::Loop``.
        scope: the modules whose inlined methods it is in, ``"__module.2/__module.2.0"``.
    """

    op: str
    operands: list[Value]
    results: list[Value]
    attributes: dict[str, str] = field(default_factory=dict)
    nested: list[Block] = field(default_factory=list)
    scope: str = ""

    def scopeName(self) -> str:  # noqa: N802
        """The modules whose inlined methods the call is in, outermost first."""
        return self.scope

    def kind(self) -> str:
        """The operator, ``"aten::relu"``."""
        return self.op

    def inputs(self):
        """The operands."""
        return iter(self.operands)

    def outputs(self):
        """The results."""
        return iter(self.results)

    def output(self) -> Value:
        """The only result."""
        return self.results[0]

    def blocks(self):
        """The nested blocks."""
        return iter(self.nested)

    def lines(self, indent: str) -> list[str]:
        attributes = ", ".join(f"{k}={v}" for k, v in self.attributes.items())
        shown = f"{self.op}[{attributes}]" if attributes else self.op
        left = ", ".join(f"%{v.name} : {v.kind}" for v in self.results)
        call = f"{shown}({', '.join('%' + v.name for v in self.operands)})"
        out = [f"{indent}{left} = {call}" if left else f"{indent}{call}"]
        for i, block in enumerate(self.nested):
            given = ", ".join(f"%{v.name} : {v.kind}" for v in block.parameters)
            out.append(f"{indent}  block{i}({given}):")
            for node in block.body:
                out += node.lines(indent + "    ")
            returned = ", ".join("%" + v.name for v in block.returned)
            out.append(f"{indent}    -> ({returned})")
        return out

    def __str__(self):
        return "\n".join(self.lines("")) + "\n"


@dataclass(eq=False)
class Block:
    """Nodes in order, with what comes in and what goes out."""

    parameters: list[Value] = field(default_factory=list)
    body: list[Node] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)

    def nodes(self):
        """The nodes."""
        return iter(self.body)

    def inputs(self):
        """What comes in."""
        return iter(self.parameters)

    def outputs(self):
        """What goes out."""
        return iter(self.returned)


class Graph(Block):
    """A function's operators. ``str`` writes them as PyTorch does."""

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:  # noqa: N802
        """The first node of a kind."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:  # noqa: N802
        """All nodes of a kind."""
        found: list[Node] = []

        def walk(block):
            for node in block.body:
                if node.op == kind:
                    found.append(node)
                if recurse:
                    for inner in node.nested:
                        walk(inner)

        walk(self)
        return found

    def __str__(self):
        given = ",\n      ".join(f"%{v.name} : {v.kind}" for v in self.parameters)
        lines = [f"graph({given}):"]
        for node in self.body:
            lines += node.lines("  ")
        lines.append(f"  return ({', '.join('%' + v.name for v in self.returned)})")
        return "\n".join(lines) + "\n"

    __repr__ = __str__
