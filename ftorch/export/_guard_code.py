"""Guards that are written as Python: ``(L['x'].size()[0] % 2) == 0``.

They come from files, too, so they are not run as Python: only arithmetic and comparisons of sizes are known.
"""

from __future__ import annotations

import ast
import operator

_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}
_CALLS = {"min": min, "max": max, "Min": min, "Max": max}


class _Unknown(Exception):
    """Text that is no comparison of inputs' sizes."""


class SizeGuard:
    """A comparison of inputs' sizes.

    Args:
        text: Python's text of it.
        names: of the inputs, in their order.
    """

    def __init__(self, text: str, names: list[str]):
        self.positions = {name: i for i, name in enumerate(names)}
        tree = ast.parse(text, mode="eval").body
        self.holds = self._compiled(tree)
        self.text = ast.unparse(_Renamed().visit(tree))

    def __call__(self, inputs):
        if not self.holds(inputs):
            raise AssertionError(f"Guard failed: {self.text}")

    def _compiled(self, node):
        """A function of the inputs that gives the value of a part."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            value = node.value
            return lambda inputs: value
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self._binary(_BINARY[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BINARY:
            return self._binary(_BINARY[type(node.ops[0])], node.left, node.comparators[0])
        if isinstance(node, ast.BoolOp):
            parts = [self._compiled(v) for v in node.values]
            many = all if isinstance(node.op, ast.And) else any
            return lambda inputs: many(p(inputs) for p in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            part = self._compiled(node.operand)
            function = operator.not_ if isinstance(node.op, ast.Not) else operator.neg
            return lambda inputs: function(part(inputs))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            function, parts = _CALLS[node.func.id], [self._compiled(a) for a in node.args]
            return lambda inputs: function(*(p(inputs) for p in parts))
        return self._size(node)

    def _binary(self, function, left, right):
        left, right = self._compiled(left), self._compiled(right)
        return lambda inputs: function(left(inputs), right(inputs))

    def _size(self, node):
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[]),
                slice=ast.Constant(value=int(dim)),
            ):
                position = self.positions.get(_input(owner))
                if position is not None:
                    return lambda inputs: inputs[position].shape[dim]
        raise _Unknown(ast.unparse(node))


def _input(node) -> str | None:
    """``d_k_0`` of ``L['d']['k'][0]``."""
    keys: list[str] = []
    while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        keys.insert(0, str(node.slice.value))
        node = node.value
    return "_".join(keys) if isinstance(node, ast.Name) and node.id == "L" else None


class _Renamed(ast.NodeTransformer):
    """``x.size()[0]`` of ``L['x'].size()[0]``."""

    def visit_Subscript(self, node):
        name = _input(node)
        return ast.Name(name) if name else self.generic_visit(node)


def size_guards(texts, names) -> list[SizeGuard]:
    """The guards of some texts; what compares something else than sizes is left out."""
    found = []
    for text in texts:
        try:
            found.append(SizeGuard(text, names))
        except (_Unknown, SyntaxError):
            continue
    return found


__all__ = ["SizeGuard", "size_guards"]
