"""Reading the text of programs: classes and functions out of an archive's ``code`` files."""

from __future__ import annotations

import ast

from .objects import ClassType, CompilationUnitData, Function, dedented
from .types import parse_type

__all__ = ["SourceImporter", "define_class", "define_function"]

_KINDS = {"Module": "module", "NamedTuple": "namedtuple", "Enum": "enum", "Interface": "interface",
          "ModuleInterface": "interface"}


class SourceImporter:
    """Defines what a program names, file by file, when it is first named.

    Args:
        read: gives the text of a file of the archive's ``code`` folder, or None.
    """

    def __init__(self, read):
        self.read = read
        self.unit = CompilationUnitData(self)
        self._seen: set[str] = set()
        self.texts: dict[str, str] = {}  # all files, by their paths

    def __call__(self, name: str) -> bool:
        """Reads the file that has ``name``; whether something was read."""
        module = name.rpartition(".")[0]
        if not module or module in self._seen:
            return False
        self._seen.add(module)
        text = self.read(module.replace(".", "/") + ".py")
        if text is None:
            return False
        self.define(text, module)
        return True

    def define(self, text: str, module: str) -> None:
        """Defines everything in a file.

        Raises:
            RuntimeError: if it is no TorchScript.
        """
        lines = text.split("\n")
        for node in _parsed(text, module).body:
            if isinstance(node, ast.ClassDef):
                define_class(self.unit, f"{module}.{node.name}", node, lines)
            elif isinstance(node, ast.FunctionDef):
                define_function(self.unit, f"{module}.{node.name}", node, lines)
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                raise RuntimeError(f"{module}: {ast.unparse(node)!r} is not part of TorchScript")


def _parsed(text, module):
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise RuntimeError(f"code of {module} cannot be read: {e}") from None


def _lines_of(node, lines):
    return dedented(lines[node.lineno - 1 : node.end_lineno])


def define_function(unit: CompilationUnitData, name: str, node, lines) -> Function:
    """Adds a function."""
    found = Function(node.name, node, unit, source=_lines_of(node, lines))
    unit.functions[name] = found
    return found


_LISTS = ("__parameters__", "__buffers__", "__forward_pre_hooks__", "__forward_hooks__")


def define_class(unit: CompilationUnitData, name: str, node: ast.ClassDef, lines) -> ClassType:
    """Adds a class, with its attributes, constants and methods."""
    base = ast.unparse(node.bases[0]) if node.bases else ""
    kind = ClassType(name, _KINDS.get(base, "class"), unit)
    kind.node = node
    kind.source = _lines_of(node, lines)
    fields = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            if kind.kind != "interface":
                kind.methods[item.name] = Function(
                    item.name, item, unit, kind, _lines_of(item, lines)
                )
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            if item.value is not None:
                kind.constants[item.target.id] = item.value
            else:
                kind.attributes[item.target.id] = parse_type(item.annotation)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            target = item.targets[0].id
            if target in _LISTS and isinstance(item.value, ast.List):
                names = [e.value for e in item.value.elts if isinstance(e, ast.Constant)]
                setattr(kind, target.strip("_"), names)
            elif kind.kind == "enum":
                fields[target] = item.value
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Subscript):
            key = item.targets[0].slice  # __annotations__["0"] = ...
            if isinstance(key, ast.Constant):
                kind.attributes[str(key.value)] = parse_type(item.value)
    unit.classes[name] = kind
    from .translate import evaluate

    kind.constants = {
        k: evaluate(v, unit) for k, v in kind.constants.items() if isinstance(v, ast.expr)
    }
    kind.make_python({k: evaluate(v, unit) for k, v in fields.items()})
    return kind
