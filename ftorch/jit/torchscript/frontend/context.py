"""What is known while compiling, how functions are read, and what is said of those that cannot be."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

__all__ = ["FrontendError", "Global", "Known", "MethodRef", "ModuleRef", "NotSupportedError",
           "Source", "UnsupportedNodeError", "parse_function", "uncontained"]


class FrontendError(Exception):
    """A function cannot be compiled; says where."""

    __module__ = "ftorch.jit.frontend"

    def __init__(self, message, source="", node=None):
        super().__init__(message + _highlight(source, node))


class NotSupportedError(FrontendError):
    """Python that TorchScript does not know."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that TorchScript does not know."""


class Source(str):
    """A function's dedented text that knows where it is from.

    Attributes:
        file: the path; ``first``: the number of its first line there; ``indent``: what was cut off.
    """

    file = ""
    first = 1
    indent = 0


_AROUND = 2  # lines that are shown before and after the one in question


def _highlight(source, node, whole=False, within=""):
    """The lines of a node with a mark below it, as PyTorch shows them.

    Args:
        whole: marks calls up to their last argument, not what is called alone.
        within: the name of the function, if it is said.
    """
    if node is None or not hasattr(node, "lineno") or not source:
        return ""
    if isinstance(node, ast.Call) and not whole:
        node = node.func
    lines = source.rstrip("\n").split("\n")
    start, end = node.lineno, min(node.end_lineno or node.lineno, len(lines))
    margin = " " * getattr(source, "indent", 0)
    shown = []
    for number in range(max(1, start - _AROUND), min(len(lines), end + _AROUND) + 1):
        line = lines[number - 1]
        shown.append(margin + line)
        if start <= number <= end:
            left = node.col_offset if number == start else len(line) - len(line.lstrip())
            right = _reach(node) if number == end else len(line)
            mark = margin + " " * left + "~" * max(1, right - left)
            shown.append(mark + (" <--- HERE" if number == end else ""))
    place = ""
    if getattr(source, "file", ""):
        place = f'  File "{source.file}", line {source.first + start - 1}'
        place += f", in {within}\n" if within else "\n"
    text = "\n".join(shown)
    return ":\n" + place + (text if text.endswith("\n") else text + "\n")


def _reach(node) -> int:
    """The column up to which a node is marked: PyTorch leaves out what closes calls and strings at its end."""
    last = None
    if isinstance(node, ast.Call):
        last = ([*node.args, *(k.value for k in node.keywords)] or [node.func])[-1]
    elif isinstance(node, (ast.Raise, ast.Assert)):
        last = node.exc if isinstance(node, ast.Raise) else node.msg or node.test
    elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.BoolOp)):
        fields = [v for _, v in ast.iter_fields(node) if isinstance(v, ast.expr)]
        last = node.comparators[-1] if isinstance(node, ast.Compare) else (
            node.values[-1] if isinstance(node, ast.BoolOp) else fields[-1])
    elif isinstance(node, (ast.Return, ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
        last = node.value
    elif isinstance(node, (ast.If, ast.For, ast.While, ast.With)):
        last = [*node.body, *getattr(node, "orelse", ())][-1]
    if last is not None and last.end_lineno == node.end_lineno:
        return _reach(last)
    text = isinstance(node, ast.Constant) and isinstance(node.value, str) or isinstance(node, ast.JoinedStr)
    return node.end_col_offset - text


_UNSUPPORTED = {
    "Try": "try blocks", "Global": "global variables", "Nonlocal": "nonlocal variables",
    "ClassDef": "class definitions", "FunctionDef": "function definitions",
    "AsyncFunctionDef": "async function definitions", "Import": "import statements",
    "ImportFrom": "import statements", "AsyncFor": "async for loops",
    "AsyncWith": "async with statements",
}


# What is marked of a statement: the word that it begins with; of anything else a single character.
_WORDS = {
    "FunctionDef": "def", "For": "for", "Delete": "del", "ClassDef": "class", "With": "with", "Raise": "raise",
    "Assert": "assert", "Import": "import", "ImportFrom": "from", "Global": "global", "Break": "break",
    "Continue": "continue", "Pass": "pass", "If": "if", "While": "while", "Return": "return", "Try": "try",
    "AsyncFunctionDef": "async def", "AsyncFor": "async for", "AsyncWith": "async with",
}


def beginning(node, shift: int = 0, length: int | None = None) -> ast.AST:
    """The part of a node that errors mark.

    Args:
        shift: how many characters before the node it begins; ``length`` of it, that of the node's word if None.
    """
    if length is None:
        length = len(_WORDS.get(type(node).__name__, " "))
    start = node.col_offset - shift
    return ast.Pass(lineno=node.lineno, end_lineno=node.lineno, col_offset=start, end_col_offset=start + length)


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
    if name in ("Dict", "dict"):
        return f"Attempted to use {name} without contained types. Please add contained type, e.g. {name}[int, int]"
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
    dedented = Source(textwrap.dedent(source))
    file = inspect.getsourcefile(function) or ""
    dedented.file = "<string>" if file.startswith("<string ") else file
    dedented.first = function.__code__.co_firstlineno
    dedented.indent = len(source) - len(source.lstrip())
    body = ast.parse(dedented).body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise RuntimeError(
            f"Expected a single top-level function: {dedented.file}:{dedented.first}"
        )
    return body[0], dedented


_COMMENT = re.compile(r"#\s*type:\s*\((.*)\)\s*->\s*(.*)$", re.MULTILINE)
