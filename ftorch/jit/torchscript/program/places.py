"""Where in the Python source the parts of a program come from, for the texts of errors at run time."""

from __future__ import annotations

import ast

__all__ = ["Places", "called"]


class Places:
    """What the nodes of a function's text were written from.

    Args:
        written: the statements that the text was made of; their nodes have an ``origin`` in the source.
        show: gives the lines of an origin, with a mark below it, for the function of a name.
        source: the text of the Python function, which knows its file.
    """

    def __init__(self, written, show, source=None):
        self.written, self.show, self.source = written, show, source
        self.origins: dict[ast.AST, ast.AST] = {}

    def attach(self, function: ast.FunctionDef) -> Places:
        """Finds the origin of each node of the text, which has the form of what it was made of."""
        self._pair(self.written, function.body)
        self.written = None
        return self

    def _pair(self, made, read):
        if isinstance(made, list):
            if isinstance(read, list) and len(made) == len(read):
                for a, b in zip(made, read):
                    self._pair(a, b)
            return
        if type(made) is not type(read) or not isinstance(made, ast.AST):
            return
        origin = getattr(made, "origin", None)
        if origin is not None:
            self.origins[read] = origin
        for name, value in ast.iter_fields(made):
            self._pair(value, getattr(read, name, None))

    def lines(self, function, position) -> str | None:
        """The lines for a position in the text, or None if they are not known.

        Args:
            position: (line, end line, column, end column).
        """
        statement, found = None, None
        for node in ast.walk(function):
            if not isinstance(node, (ast.expr, ast.stmt)) or node not in self.origins:
                continue
            place = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
            if place == position:
                found = node
            if isinstance(node, ast.stmt) and node.lineno <= position[0] <= (node.end_lineno or 0):
                statement = node
        found = found if found is not None else statement
        return None if found is None else self.show(self.origins[found])


def called(code, instruction: int):
    """The position in the text of the instruction of a compiled function at which it stands."""
    for i, position in enumerate(code.co_positions()):
        if i == instruction // 2:
            return position
    return (None,) * 4
