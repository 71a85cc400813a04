"""From Python functions to programs: names resolved, modules unrolled, types written out.

The result is the text of a TorchScript function: Python's own statements, over ops and functions of
the program. What is known while compiling (submodules, constants, functions) is a `Known`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import re
import textwrap
import typing

import ftorch

from ..eager.tensor import TensorBase
from ..nn import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from ._emit import access
from ._types import Type, type_of_annotation

__all__ = ["FrontendError", "FunctionCompiler", "NotSupportedError", "UnsupportedNodeError",
           "parse_function"]  # fmt: skip


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


class FunctionCompiler:
    """Compiles one function or method.

    Args:
        program: what compiles the functions and classes that this one names (`_recursive.Program`).
        module: the module whose method this is, or None.
        class_name: the qualified name of the script class whose method this is, or None.
    """

    def __init__(self, program, function, module=None, class_name=None):
        self.program, self.function = program, function
        self.module, self.class_name = module, class_name
        self.node, self.source = parse_function(function)
        self.scope = getattr(function, "__globals__", {})
        closure = getattr(function, "__closure__", None) or ()
        self.closure = {}
        for name, cell in zip(function.__code__.co_freevars, closure):
            try:
                self.closure[name] = cell.cell_contents
            except ValueError:
                continue
        self.statics: dict[str, Known] = {}
        self.locals: set[str] = set()
        self.attributes: dict[str, Type] = {}  # of a script class: what it sets of itself
        self.types: dict[str, Type] = {}

    # --- errors

    def unsupported(self, node):
        kind = type(node).__name__
        text = _UNSUPPORTED.get(kind, kind)
        return UnsupportedNodeError(f"{text} aren't supported", self.source, node)

    def error(self, message, node):
        return RuntimeError(f"\n{message}{_highlight(self.source, node)}")

    # --- the function

    def compile(self, name: str) -> str:
        """The text of the function under a name."""
        a = self.node.args
        keyword = next((d for d in a.kw_defaults if d is not None), None)
        if a.vararg is not None or a.kwarg is not None or keyword is not None:
            raise NotSupportedError(
                "Compiled functions can't take variable number of arguments or use keyword-only "
                "arguments with defaults", self.source, a.kwarg or a.vararg or keyword,
            )  # fmt: skip
        names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        types, returns = self.signature(names)
        self.locals = set(names)
        self.types = dict(zip(names, types))
        self_name = names[0] if (self.module is not None or self.class_name) and names else None
        parameters = []
        defaults = [None] * (len(a.posonlyargs) + len(a.args) - len(a.defaults)) + list(a.defaults)
        defaults += a.kw_defaults
        for n, t, default in zip(names, types, defaults):
            if n == self_name:
                parameters.append(n)
                continue
            text = f"{n}: {t}"
            if default is not None:
                value = self.static_value(default)
                if value is _MISSING:
                    raise self.error("Expected a default value of constant type", default)
                if t.name == "float" and isinstance(value, int):
                    value = float(value)
                text += f"={self.program.literal(value)}"
            parameters.append(text)
        if self.module is not None and self_name:
            self.statics[self_name] = ModuleRef(self.module, ast.Name(self_name, ast.Load()))
        body = self.block(self.node.body) or [ast.Pass()]
        arrow = f" -> {returns}" if returns is not None else ""
        lines = textwrap.indent(_text(body), "  ")
        return f"def {name}({', '.join(parameters)}){arrow}:\n{lines}\n"

    def signature(self, names) -> tuple[list[Type], Type | None]:
        """The types of the parameters and of the result."""
        comment = _COMMENT.search(self.source)
        annotations = {p.arg: p.annotation for p in (
            *self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs)}  # fmt: skip
        types = []
        for i, n in enumerate(names):
            note = annotations[n]
            if i == 0 and (self.module is not None or self.class_name):
                types.append(Type(self.class_name or "Any"))
            else:
                types.append(Type("Tensor") if note is None else self.type(note))
        returns = self.node.returns
        if comment and all(v is None for v in annotations.values()):
            given = ast.parse(f"({comment[1]},)" if comment[1].strip() else "()", mode="eval").body
            found = [self.type(e) for e in given.elts]
            types[len(types) - len(found) :] = found
            returns = ast.parse(comment[2].strip(), mode="eval").body
        return types, None if returns is None else self.type(returns)

    def type(self, node) -> Type:
        """The type that an annotation in the source names."""
        text = ast.unparse(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        scope = {**vars(typing), "Tensor": ftorch.Tensor, **vars(builtins), **self.scope,
                 **self.closure}  # fmt: skip
        try:
            annotation = eval(compile(ast.parse(text, mode="eval"), "<annotation>", "eval"), scope)
        except Exception:
            if self.class_name and text == self.class_name.rpartition(".")[2]:
                return Type(self.class_name)
            raise self.error(f"Unknown type name '{text}'", node) from None
        if isinstance(annotation, str):
            return self.type(ast.parse(annotation, mode="eval").body)
        if annotation in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple):  # noqa: UP006
            raise RuntimeError(uncontained(getattr(annotation, "__name__", text).capitalize()))
        found = type_of_annotation(annotation, self.program.class_name)
        if found is None:
            raise self.error(f"Unknown type name '{text}'", node)
        return found

    # --- statements

    def block(self, statements) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in statements:
            handler = getattr(self, f"_{type(s).__name__}", None)
            if handler is None:
                raise self.unsupported(s)
            made = handler(s)
            out.extend(made if isinstance(made, list) else [made])
            if made and isinstance(out[-1], (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                break
        return out

    def _Pass(self, s):
        return []

    def _Break(self, s):
        return ast.Break()

    def _Continue(self, s):
        return ast.Continue()

    def _Expr(self, s):
        if isinstance(s.value, ast.Constant):
            return []  # a docstring
        return ast.Expr(self.expr(s.value))

    def _Return(self, s):
        return ast.Return(self.expr(s.value) if s.value is not None else None)

    def _Assign(self, s):
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
            found = self.value(s.value)
            name = s.targets[0].id
            if isinstance(found, Known) and self._stays(found):
                self.statics[name] = found
                self.locals.add(name)
                return []
            node = self.node_of(found, s.value)
            self.bind(name)
            return ast.Assign([ast.Name(name, ast.Store())], node, lineno=1)
        node = self.expr(s.value)
        return [ast.Assign([self.target(t, s)], node, lineno=1) for t in s.targets]

    def _stays(self, found):
        """Whether a variable for a known value is only that: modules and functions are no values."""
        return isinstance(found, (ModuleRef, MethodRef)) or (
            found.node is None and (callable(found.value) or inspect.ismodule(found.value))
        )

    def bind(self, name):
        self.locals.add(name)
        self.statics.pop(name, None)

    def target(self, t, s=None):
        if isinstance(t, ast.Name):
            self.bind(t.id)
            return ast.Name(t.id, ast.Store())
        if isinstance(t, (ast.Tuple, ast.List)):
            return ast.Tuple([self.target(e) for e in t.elts], ast.Store())
        if isinstance(t, ast.Attribute):
            if self.class_name and isinstance(t.value, ast.Name) and s is not None:
                value = getattr(s, "value", None)
                self.attributes.setdefault(t.attr, self.guess(value))
            return ast.Attribute(self.expr(t.value), t.attr, ast.Store())
        if isinstance(t, ast.Subscript):
            return ast.Subscript(self.expr(t.value), self.index(t.slice), ast.Store())
        if isinstance(t, ast.Starred):
            return ast.Starred(self.target(t.value), ast.Store())
        raise self.unsupported(t)

    def guess(self, node) -> Type:
        """The type of a value that a script class gives itself."""
        if isinstance(node, ast.Name) and node.id in self.types:
            return self.types[node.id]
        if isinstance(node, ast.Constant):
            return type_of_annotation(type(node.value)) or Type("Tensor")
        if isinstance(node, ast.BinOp):
            return self.guess(node.left)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            cls = self.lookup(node.func.id)
            if isinstance(cls, type):
                return type_of_annotation(cls, self.program.class_name) or Type("Tensor")
        return Type("Tensor")

    def _AnnAssign(self, s):
        kind = self.type(s.annotation)
        if s.value is None:
            raise self.error("Expected an initial value of a declared variable", s)
        value = self.expr(s.value)
        note = ast.parse(str(kind), mode="eval").body
        if isinstance(s.target, ast.Attribute):
            if self.class_name:
                self.attributes[s.target.attr] = kind
            made = ast.Call(ast.Name("annotate", ast.Load()), [note, value], [])
            return ast.Assign([self.target(s.target)], made, lineno=1)
        self.bind(s.target.id)
        self.types[s.target.id] = kind
        return ast.AnnAssign(ast.Name(s.target.id, ast.Store()), note, value, 1)

    def _AugAssign(self, s):
        value = self.expr(s.value)
        if isinstance(s.target, ast.Name):
            if s.target.id not in self.locals:
                raise self.error(f"undefined value {s.target.id}", s.target)
            known = self.statics.get(s.target.id)
            before = []
            if known is not None:
                before = [ast.Assign([ast.Name(s.target.id, ast.Store())],
                                     self.node_of(known, s.target), lineno=1)]  # fmt: skip
                self.bind(s.target.id)
            return [*before, ast.AugAssign(ast.Name(s.target.id, ast.Store()), s.op, value)]
        return ast.AugAssign(self.target(s.target), s.op, value)

    def _If(self, s):
        known = self.truth(s.test)
        if known is not None:
            return self.block(s.body if known else s.orelse)
        test = self.expr(s.test)
        before = dict(self.statics)
        names = set(self.locals)
        body = self.block(s.body)
        after, self.statics = self.statics, dict(before)
        in_body, self.locals = self.locals, names
        orelse = self.block(s.orelse)
        self.statics = {k: v for k, v in self.statics.items() if after.get(k) is v}
        self.locals = self.locals | in_body
        return ast.If(test, body or [ast.Pass()], orelse)

    def _While(self, s):
        if s.orelse:
            raise NotSupportedError("else branches of while loops aren't supported", self.source, s)
        self.forget_assigned(s.body)
        return ast.While(self.expr(s.test), self.block(s.body) or [ast.Pass()], [])

    def forget_assigned(self, body):
        for n in (n for s in body for n in ast.walk(s)):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                self.statics.pop(n.id, None)

    def _For(self, s):
        if s.orelse:
            raise NotSupportedError("else branches of for loops aren't supported", self.source, s)
        items = self.unrolled(s.iter)
        if items is not None:
            return self.unroll(s, items)
        iterated = self.expr(s.iter)
        self.forget_assigned(s.body)
        target = self.target(s.target)
        return ast.For(target, iterated, self.block(s.body) or [ast.Pass()], [], lineno=1)

    def unroll(self, s, items):
        out = []
        for n in (n for x in s.body for n in ast.walk(x)):
            if isinstance(n, (ast.Break, ast.Continue)):
                raise self.error("'break' and 'continue' in a loop over modules aren't supported", n)
        for item in items:
            out += self.assign_known(s.target, item)
            out += self.block(copy.deepcopy(s.body))
        return out

    def assign_known(self, target, item) -> list[ast.stmt]:
        """Gives names to the values of one turn of an unrolled loop."""
        if isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(item, tuple):
                raise self.error("Provided tuple of values cannot be unpacked", target)
            return [x for t, i in zip(target.elts, item) for x in self.assign_known(t, i)]
        if isinstance(item, ModuleRef):
            self.locals.add(target.id)
            self.statics[target.id] = item
            return []
        node = self.node_of(item, target) if isinstance(item, Known) else item
        self.bind(target.id)
        return [ast.Assign([ast.Name(target.id, ast.Store())], node, lineno=1)]

    def unrolled(self, node):
        """The items of a loop that is unrolled (over modules), or None."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            name = node.func.id
            inner = [self.unrolled(a) for a in node.args]
            if name == "enumerate" and inner and inner[0] is not None:
                return [(Known(i), item) for i, item in enumerate(inner[0])]
            if name == "zip" and inner and any(i is not None for i in inner):
                count = min(len(i) for i in inner if i is not None)
                columns = [
                    i if i is not None else [
                        ast.Subscript(self.expr(a), ast.Constant(k), ast.Load()) for k in range(count)
                    ] for i, a in zip(inner, node.args)
                ]  # fmt: skip
                return list(zip(*columns))
            if name == "reversed" and inner and inner[0] is not None:
                return inner[0][::-1]
            if name in ("list", "tuple") and inner and inner[0] is not None:
                return inner[0]
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            receiver, inside = node.func.value, False
            if isinstance(receiver, ast.Attribute) and receiver.attr in ("_modules", "_parameters"):
                receiver, inside = receiver.value, True
            owner = self.value(receiver)
            if isinstance(owner, ModuleRef) and (
                inside or isinstance(owner.value, (ModuleDict, ParameterDict))
            ):
                names = list(getattr(owner.value, node.func.value.attr) if inside else owner.value.keys())
                values = [self.child(owner, n) for n in names]
                return {"items": [(Known(n), v) for n, v in zip(names, values)], "values": values,
                        "keys": [Known(n) for n in names]}.get(node.func.attr)  # fmt: skip
            return None
        found = self.value(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
        if isinstance(found, ModuleRef) and isinstance(found.value, (ModuleList, Sequential)):
            return [self.child(found, n) for n in found.value._modules]
        if isinstance(found, ModuleRef) and isinstance(found.value, ParameterList):
            return [self.attribute(found, str(i), node) for i in range(len(found.value))]
        if isinstance(found, ModuleRef) and isinstance(found.value, ModuleDict):
            return [Known(n) for n in found.value._modules]
        if type(found) is Known and isinstance(found.value, tuple):
            return [Known(v) for v in found.value]
        return None

    def child(self, owner: ModuleRef, name: str):
        """A submodule or parameter by name."""
        return self.attribute(owner, name, None)

    def _With(self, s):
        items = []
        for item in s.items:
            node = self.expr(item.context_expr)
            items.append(ast.withitem(node, item.optional_vars and self.target(item.optional_vars)))
        return ast.With(items, self.block(s.body) or [ast.Pass()], lineno=1)

    def _Assert(self, s):
        known = self.truth(s.test)
        if known:
            return []
        message = self.expr(s.msg) if s.msg is not None else ast.Constant("")
        return ast.Assert(self.expr(s.test), message)

    def _Raise(self, s):
        name, message = "RuntimeError", ast.Constant("")
        exc = s.exc
        if isinstance(exc, ast.Call):
            name = ast.unparse(exc.func).rpartition(".")[2]
            if exc.args:
                message = self.expr(exc.args[0])
        elif exc is not None:
            name = ast.unparse(exc)
        arguments = [message, ast.Constant(f"builtins.{name}")]
        return ast.Expr(ast.Call(_dotted("ops.prim.RaiseException"), arguments, []))

    def _Delete(self, s):
        return ast.Delete([
            ast.Subscript(self.expr(t.value), self.index(t.slice), ast.Del())
            if isinstance(t, ast.Subscript) else ast.Name(t.id, ast.Del()) for t in s.targets
        ])  # fmt: skip

    # --- known values

    def lookup(self, name):
        """A name of the function's surroundings, or _MISSING."""
        for scope in (self.closure, self.scope):
            if name in scope:
                return scope[name]
        return getattr(builtins, name, _MISSING)

    def static_value(self, node):
        """The Python value of an expression without variables, or _MISSING."""
        if isinstance(node, ast.JoinedStr):
            parts = [
                p.value if isinstance(p, ast.Constant) else self.static_value(p.value)
                for p in node.values
            ]
            return _MISSING if _MISSING in parts else "".join(map(str, parts))
        if isinstance(node, ast.Tuple):
            parts = [self.static_value(e) for e in node.elts]
            return _MISSING if any(p is _MISSING for p in parts) else tuple(parts)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            a, b = self.static_value(node.left), self.static_value(node.right)
            return _MISSING if a is _MISSING or b is _MISSING else a + b
        found = self.value(node)
        if isinstance(found, Known):
            return found.value
        try:
            return ast.literal_eval(node)
        except (ValueError, SyntaxError, TypeError):
            return _MISSING

    def truth(self, node) -> bool | None:
        """Whether a condition is known to hold, or not to; None if that is seen at run time."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            decisive = isinstance(node.op, ast.Or)
            values = [self.truth(v) for v in node.values]
            if decisive in values and None not in values[: values.index(decisive)]:
                return decisive
            return None if None in values else not decisive
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.compare_truth(node)
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.Call):
            return self.call_truth(node)
        found = self.value(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if isinstance(found, Known) and isinstance(found.value, (bool, type(None))):
            return bool(found.value)
        return None

    def compare_truth(self, node):
        left, right = self.value(node.left), self.value(node.comparators[0])
        op = node.ops[0]
        if isinstance(op, (ast.Is, ast.IsNot)):
            none = isinstance(right, ast.Constant) and right.value is None or (
                isinstance(right, Known) and right.value is None
            )
            if none and isinstance(left, Known):
                return (left.value is None) == isinstance(op, ast.Is)
            if none and isinstance(left, ast.expr) and self._not_none(node.left):
                return isinstance(op, ast.IsNot)
        if isinstance(left, Known) and isinstance(op, (ast.Eq, ast.NotEq)):
            other = right.value if isinstance(right, Known) else (
                right.value if isinstance(right, ast.Constant) else _MISSING
            )
            if other is not _MISSING and isinstance(left.value, (str, int, bool)):
                return (left.value == other) == isinstance(op, ast.Eq)
        return None

    def _not_none(self, node):
        """Whether an expression is a tensor that the module has."""
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            if isinstance(owner, ModuleRef):
                return isinstance(getattr(owner.value, node.attr, None), TensorBase)
        return False

    def call_truth(self, node):
        found = self.value(node.func)
        function = found.value if isinstance(found, Known) else None
        if function is hasattr and len(node.args) == 2:
            owner = self.value(node.args[0])
            name = self.static_value(node.args[1])
            if isinstance(owner, ModuleRef):
                return hasattr(owner.value, name)
        special = self.program.known_calls.get(function)
        return special

    def value(self, node):
        """A `Known`, or the expression to be evaluated at run time."""
        if isinstance(node, ast.Name):
            if node.id in self.statics:
                return self.statics[node.id]
            if node.id in self.locals:
                return ast.Name(node.id, ast.Load())
            found = self.lookup(node.id)
            if found is _MISSING:
                raise self.error(f"undefined value {node.id}", node)
            return Global(found)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.value(node.value), node.attr, node)
        if isinstance(node, ast.Subscript):
            owner = self.value(node.value)
            if isinstance(owner, ModuleRef):
                return self.item(owner, node)
        return self.made(node)

    def item(self, owner, node):
        """``self.layers[0]``, ``self.heads["a"]``."""
        index = self.static_value(node.slice)
        names = list(owner.value._modules) or [str(i) for i in range(len(owner.value))]
        if isinstance(index, str) and index in owner.value:
            return self.attribute(owner, index, node)
        if isinstance(index, int) and -len(names) <= index < len(names):
            return self.attribute(owner, names[index], node)
        raise self.error(
            "Unable to extract string literal index. ModuleDict indexing is only supported with "
            "string literals. Enumeration of ModuleList is supported, e.g. 'for index, v in "
            "enumerate(self): ...'", node,
        )  # fmt: skip

    def attribute(self, owner, name, node):
        if isinstance(owner, ModuleRef):
            return self.module_attribute(owner, name, node)
        if isinstance(owner, Known) and owner.node is None:
            value = owner.value
            if isinstance(value, (ftorch.nn.Module, TensorBase)):
                raise self.error(f"python value of type '{type(value).__name__}' cannot be used as a "
                                 "value. Perhaps it is a closed over global variable?", node)  # fmt: skip
            try:
                return Known(getattr(value, name))
            except AttributeError:
                if isinstance(value, (str, int, float, list, dict, tuple)):
                    return ast.Attribute(self.node_of(owner, node), name, ast.Load())
                shown = getattr(value, "__name__", type(value).__name__)
                raise self.error(f"module '{shown}' has no attribute '{name}'", node) from None
        return ast.Attribute(self.node_of(owner, node), name, ast.Load())

    def module_attribute(self, owner: ModuleRef, name, node):
        module = owner.value
        expression = ast.parse(access(ast.unparse(owner.node), [name]), mode="eval").body
        if name in module._modules:
            child = module._modules[name]
            return Known(None) if child is None else ModuleRef(child, expression)
        if name in module._parameters or name in module._buffers:
            value = module._parameters.get(name, module._buffers.get(name))
            return Known(None, ast.Constant(None)) if value is None else expression
        if name in module.__dict__ or hasattr(type(module), name):
            return self.plain_attribute(owner, name, expression, node)
        if not hasattr(module, name):
            raise self.error(
                f"Module '{type(module).__name__}' has no attribute '{name}'", node
            )
        return self.plain_attribute(owner, name, expression, node)

    def plain_attribute(self, owner, name, expression, node):
        module = owner.value
        declared = inspect.getattr_static(type(module), name, None)
        if isinstance(declared, property):
            return self.program.property_call(owner, name, declared)
        value = getattr(module, name)
        if inspect.ismethod(value) and value.__self__ is module:
            return MethodRef(owner, name)
        kept = self.program.attribute(module, name, value)
        if kept == "constant":
            return Known(value)
        if kept == "attribute":
            return expression
        if callable(value):
            return Known(value)
        raise self.error(
            f"Module '{type(module).__name__}' has no attribute '{name}' (This attribute exists on "
            f"the Python module, but we failed to convert Python type: '{type(value).__name__}' to a "
            f"TorchScript type. {self.program.reason(value)}. Its type was inferred; try adding a "
            "type annotation for the attribute.)", node,
        )  # fmt: skip

    # --- expressions

    def expr(self, node) -> ast.expr:
        """An expression for run time."""
        return self.node_of(self.value(node), node)

    def node_of(self, found, node) -> ast.expr:
        if not isinstance(found, Known):
            return found
        if found.node is not None:
            return found.node
        value = found.value
        if isinstance(value, MethodRef):
            raise self.error("methods are no values", node)
        closed = isinstance(found, Global) and not callable(value)
        text = None if closed else self.program.value_text(value)
        if text is None:
            kind = type(value).__name__
            raise self.error(
                f"python value of type '{kind}' cannot be used as a value. Perhaps it is a closed "
                "over global variable? If so, please consider passing it in as an argument or use a "
                "local variable instead.", node,
            )  # fmt: skip
        return ast.parse(text, mode="eval").body

    def made(self, node):
        handler = getattr(self, f"_{type(node).__name__}_", None)
        if handler is None:
            raise self.unsupported(node)
        return handler(node)

    def _Constant_(self, node):
        return node

    def _Tuple_(self, node):
        return ast.Tuple([self.expr(e) for e in node.elts], ast.Load())

    def _List_(self, node):
        return ast.List([self.expr(e) for e in node.elts], ast.Load())

    def _Dict_(self, node):
        if None in node.keys:
            raise NotSupportedError("dict expansion isn't supported", self.source, node)
        return ast.Dict([self.expr(k) for k in node.keys], [self.expr(v) for v in node.values])

    def _Starred_(self, node):
        return ast.Starred(self.expr(node.value), ast.Load())

    def _BinOp_(self, node):
        return ast.BinOp(self.expr(node.left), node.op, self.expr(node.right))

    def _UnaryOp_(self, node):
        return ast.UnaryOp(node.op, self.expr(node.operand))

    def _BoolOp_(self, node):
        return ast.BoolOp(node.op, [self.expr(v) for v in node.values])

    def _Compare_(self, node):
        known = self.compare_truth(node) if len(node.ops) == 1 else None
        if known is not None:
            return ast.Constant(known)
        if len(node.ops) > 1:  # a < b < c
            parts, left = [], self.expr(node.left)
            for op, right in zip(node.ops, node.comparators):
                right = self.expr(right)
                parts.append(ast.Compare(left, [op], [right]))
                left = right
            return ast.BoolOp(ast.And(), parts)
        return ast.Compare(self.expr(node.left), node.ops, [self.expr(node.comparators[0])])

    def _IfExp_(self, node):
        known = self.truth(node.test)
        if known is not None:
            return self.expr(node.body if known else node.orelse)
        return ast.IfExp(self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def _Subscript_(self, node):
        return ast.Subscript(self.expr(node.value), self.index(node.slice), ast.Load())

    def index(self, s):
        if isinstance(s, ast.Slice):
            return ast.Slice(*(p and self.expr(p) for p in (s.lower, s.upper, s.step)))
        if isinstance(s, ast.Tuple):
            return ast.Tuple([self.index(e) for e in s.elts], ast.Load())
        return self.expr(s)

    def _JoinedStr_(self, node):
        template, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                template += str(part.value)
            else:
                if part.conversion != -1:
                    raise NotSupportedError("Don't support conversion in JoinedStr", self.source, part)
                if part.format_spec is not None:
                    raise NotSupportedError("Don't support formatting in JoinedStr", self.source, part)
                template += "{}"
                values.append(self.expr(part.value))
        return ast.Call(ast.Attribute(ast.Constant(template), "format", ast.Load()), values, [])

    def _ListComp_(self, node):
        if len(node.generators) != 1:
            raise NotSupportedError(
                "Only a single generator is currently supported", self.source, node
            )
        g = node.generators[0]
        if g.ifs:
            raise NotSupportedError("Comprehension ifs are not supported yet", self.source, node)
        items = self.unrolled(g.iter)
        if items is not None:
            return self.unrolled_list(node, g, items)
        iterated = self.expr(g.iter)
        outer, statics = set(self.locals), dict(self.statics)
        target = self.target(g.target)
        made = ast.ListComp(self.expr(node.elt), [ast.comprehension(target, iterated, [], 0)])
        self.locals, self.statics = outer, statics
        return made

    _GeneratorExp_ = _ListComp_

    def unrolled_list(self, node, g, items):
        out, outer, statics = [], set(self.locals), dict(self.statics)
        for item in items:
            for target, value in zip(
                g.target.elts if isinstance(g.target, ast.Tuple) else [g.target],
                item if isinstance(item, tuple) else [item],
            ):
                self.locals.add(target.id)
                self.statics[target.id] = value if isinstance(value, Known) else Known(_MISSING, value)
            out.append(self.expr(copy.deepcopy(node.elt)))
        self.locals, self.statics = outer, statics
        return ast.List(out, ast.Load())

    def starred(self, node):
        """The items of ``*[...]`` where they are known to be so many, or None."""
        inner = node.value
        if isinstance(inner, ast.ListComp) and len(inner.generators) == 1:
            items = self.unrolled(inner.generators[0].iter)
            if items is not None:
                return self.unrolled_list(inner, inner.generators[0], items).elts
        found = self.value(inner)
        if isinstance(found, Known) and isinstance(found.value, (list, tuple)):
            return [self.node_of(Known(v), node) for v in found.value]
        return None

    def _DictComp_(self, node):
        g = node.generators[0]
        iterated = self.expr(g.iter)
        outer, statics = set(self.locals), dict(self.statics)
        target = self.target(g.target)
        made = ast.DictComp(self.expr(node.key), self.expr(node.value),
                            [ast.comprehension(target, iterated, [], 0)])  # fmt: skip
        self.locals, self.statics = outer, statics
        return made

    def _Call_(self, node):
        from ._calls import call

        return call(self, node)


def _text(body) -> str:
    from ._objects import unparse

    return unparse(ast.Module(body, []))


def _dotted(path) -> ast.expr:
    return ast.parse(path, mode="eval").body
