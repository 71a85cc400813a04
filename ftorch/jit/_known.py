"""What is known while compiling, how functions are read, and what is said of those that cannot be."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

__all__ = ["FrontendError", "Global", "Known", "MethodRef", "ModuleRef", "NotSupportedError",
           "UnsupportedNodeError", "parse_function", "uncontained"]  # fmt: skip


class FrontendError(Exception):
    """A function cannot be compiled; says where."""

    __module__ = "ftorch.jit.frontend"

    def __init__(self, message, source="", node=None):
        super().__init__(message + _highlight(source, node))


class NotSupportedError(FrontendError):
    """Python that TorchScript does not know."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that TorchScript does not know."""


def _highlight(source, node):
    if node is None or not hasattr(node, "lineno") or not source:
        return ""
    lines = source.split("\n")
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
    mark = " " * node.col_offset + "~" * max(1, len(line) - node.col_offset) + " <--- HERE"
    return f":\n{line}\n{mark}\n"


_UNSUPPORTED = {
    "Try": "try blocks", "Global": "global variables", "Nonlocal": "nonlocal variables",
    "ClassDef": "class definitions", "FunctionDef": "function definitions",
    "AsyncFunctionDef": "async function definitions", "Import": "import statements",
    "ImportFrom": "import statements", "AsyncFor": "async for loops",
    "AsyncWith": "async with statements",
}  # fmt: skip


class Known:
    """A value known while compiling: a Python object, and the expression for it, if there is one."""

    def __init__(self, value, node: ast.expr | None = None):
        self.value, self.node = value, node


class Global(Known):
    """What a global name stands for: functions, classes and modules, but no values."""


class ModuleRef(Known):
    """A submodule; ``path`` leads to it from the module that is being compiled."""


class MethodRef(Known):
    """A method of a submodule, by its name."""

    def __init__(self, owner: ModuleRef, name: str):
        super().__init__(getattr(owner.value, name))
        self.owner, self.name = owner, name


_MISSING = object()


def uncontained(name: str) -> str:
    """What is said of ``List``, ``Dict`` and ``Tuple`` without parameters."""
    if name == "Dict":
        return (
            "Attempted to use Dict without contained types. Please add contained type, e.g. "
            "Dict[int, int]"
        )
    return (
        f"Attempted to use {name} without a contained type. Please add a contained type, "
        f"e.g. {name}[int]"
    )


def parse_function(function):
    """(FunctionDef, dedented source) of a function.

    Raises:
        OSError: there is no source.
    """
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        raise OSError(
            f"Can't get source for {function}. TorchScript requires source access in order to carry "
            "out compilation, make sure original .py files are available."
        ) from None
    source = textwrap.dedent(source)
    body = ast.parse(source).body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise RuntimeError(f"Expected a single top-level function: {function}")
    return body[0], source


_COMMENT = re.compile(r"#\s*type:\s*\((.*)\)\s*->\s*(.*)$", re.MULTILINE)
