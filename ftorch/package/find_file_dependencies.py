"""The modules that source imports (``torch.package.find_file_dependencies``)."""

from __future__ import annotations

import ast

__all__ = ["find_files_source_depends_on"]


class _Imports(ast.NodeVisitor):
    def __init__(self, package):
        self.package = package
        self.found: dict[tuple[str, str | None], bool] = {}

    def _absolute(self, name, level):
        if not level:
            return name
        parents = self.package.split(".")
        base = ".".join(parents[: len(parents) - level + 1])
        return f"{base}.{name}" if name else base

    def visit_Import(self, node):
        for alias in node.names:
            self.found[alias.name, None] = True

    def visit_ImportFrom(self, node):
        module = self._absolute(node.module or "", node.level)
        for alias in node.names:
            self.found[module, None if alias.name == "*" else alias.name] = True

    def visit_Call(self, node):
        # __import__("name") with a literal; others cannot be known.
        if isinstance(node.func, ast.Name) and node.func.id == "__import__" and node.args:
            constants = [a.value if isinstance(a, ast.Constant) else ... for a in node.args]
            name = constants[0]
            if isinstance(name, str):
                level = constants[4] if len(constants) > 4 and isinstance(constants[4], int) else 0
                names = node.args[3] if len(node.args) > 3 else None
                module = self._absolute(name, level)
                listed = [e.value for e in names.elts if isinstance(e, ast.Constant)] if isinstance(
                    names, (ast.List, ast.Tuple)) else []
                for wanted in listed or [None]:
                    self.found[module, wanted] = True
        self.generic_visit(node)


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """(module, name imported from it or None) of all that a source imports.

    Args:
        src: Python source.
        package: the name of its package, by which relative imports are made absolute.

    >>> find_files_source_depends_on("import a.b\\nfrom . import c", "p")
    [('a.b', None), ('p', 'c')]
    """
    visitor = _Imports(package)
    visitor.visit(ast.parse(src))
    return list(visitor.found)
