"""From Python functions to programs: names resolved, modules unrolled, types written out.

The result is the text of a TorchScript function: Python's own statements, over ops and functions of
the program. What is known while compiling (submodules, constants, functions) is a `Known`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
import typing

import ftorch

from ...._alias import is_own
from ....eager.tensor import TensorBase
from ....fx._interception import original
from ..program.modules import is_compiled
from ..program.objects import unparse
from ..program.places import Places
from ..program.types import NONE, Type, infer, type_of_annotation
from .calls import instance_types
from .checker import Checker
from .context import (
    _COMMENT,
    _MISSING,
    _UNSUPPORTED,
    FrontendError,
    Global,
    Known,
    MethodRef,
    ModuleRef,
    NotSupportedError,
    UnsupportedNodeError,
    _highlight,
    beginning,
    parse_function,
    uncontained,
)
from .emit import access
from .expressions import Expressions
from .inference import accepts
from .statements import Statements

__all__ = ["FrontendError", "FunctionCompiler", "NotSupportedError", "UnsupportedNodeError",
           "parse_function"]

# Annotations of lists of a fixed number, which a single value stands for.
_FIXED = re.compile(r"_size_(\d)_(?:t|any_t)(_opt)?|BroadcastingList(\d)\[(\w+)\]")

# Types of which a value has one: that of a variable says what ``isinstance`` gives.
_DISTINCT = frozenset({"Tensor", "int", "float", "bool", "str", "List", "Dict", "Tuple", NONE.name})


def _of_each(source: str) -> str:
    """The types that comments behind the parameters, each on a line of its own, declare."""
    before = source[: source.index("# type: (...)")]
    return ", ".join(m[1].strip() for m in re.finditer(r"#\s*type:\s*(?!ignore)([^#\n]+)", before))


def _own(value):
    """What a name stands for; a function also while a trace, during which it is compiled, has another in its place."""
    return original(value) if inspect.isfunction(value) else value


class FunctionCompiler(Statements, Expressions):
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
        self.defaults = {
            n: p.default for n, p in inspect.signature(function).parameters.items()
            if p.default is not p.empty
        }
        self.statics: dict[str, Known] = {}
        self.locals: set[str] = set()
        self.attributes: dict[str, Type] = {}  # of a script class: what it sets of itself
        self.parameters: dict[str, Type] = {}
        self.types: dict[str, Type] = {}  # of the parameters, and of variables that declare theirs
        self.narrowed: dict[str, list[Type]] = {}  # what of a declared type is left within a branch
        self.body: list[ast.stmt] = []  # what the text is made of
        self.sizes: dict[str, int] = {}  # of parameters that are lists of a fixed number
        self.returns: Type | None = None  # the result's: declared, or known once it is compiled
        self.self_name: str | None = None

    # --- errors

    def unsupported(self, node):
        kind = type(node).__name__
        text = _UNSUPPORTED.get(kind, kind)
        return UnsupportedNodeError(f"{text} aren't supported", self.source, beginning(node))

    def error(self, message, node):
        return RuntimeError(f"\n{message}{_highlight(self.source, node)}")

    # --- the function

    @property
    def shown_name(self) -> str:
        """The function's name in errors."""
        name = self.function.__name__
        return name if self.module is None else f"{type(self.module).__name__}.{name}"

    def compile(self, name: str) -> str:
        """The text of the function under a name.

        Raises:
            FrontendError: for Python that TorchScript does not know.
            RuntimeError: for names that are undefined and types that do not fit.
        """
        caller, node = self.program.calls[-1] if self.program.calls else (None, None)
        try:
            return self.text(name)
        except (RuntimeError, FrontendError) as error:
            if caller is None or type(error) is not RuntimeError and not isinstance(error, FrontendError):
                raise
            raise type(error)(
                f"{error}'{self.shown_name}' is being compiled since it was called from "
                f"'{caller.shown_name}'{_highlight(caller.source, node, whole=True)[1:]}"
            ) from None

    def text(self, name: str) -> str:
        """What `compile` gives."""
        self.declare()
        self.locals = set(self.types)
        if self.module is not None and self.self_name:
            self.statics[self.self_name] = ModuleRef(
                self.module, ast.Name(self.self_name, ast.Load())
            )
        body = self.block(self.node.body) or [ast.Pass()]
        known = dict(self.types)
        if self.module is not None:
            known.pop(self.self_name, None)
        self.returns = Checker(self, known, self.returns).check(body)
        self.body = body
        lines = textwrap.indent(unparse(ast.Module(body, [])), "  ")
        return f"{self.header(name)}{lines}\n"

    def places(self) -> Places:
        """Where the statements of the text, after `compile`, come from."""
        name = self.function.__name__
        return Places(self.body, lambda origin: _highlight(self.source, origin, within=name)[2:-1], self.source)

    def declare(self) -> None:
        """Finds the types of the parameters, and what is declared of the result's."""
        a = self.node.args
        keyword = next((d for d in a.kw_defaults if d is not None), None)
        if a.vararg is not None or a.kwarg is not None or keyword is not None:
            at = a.kwarg or a.vararg
            raise NotSupportedError(
                "Compiled functions can't take variable number of arguments or use keyword-only "
                "arguments with defaults", self.source, beginning(at, 1, len(at.arg) + 1) if at else keyword,
            )
        names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        types, self.returns = self.signature(names)
        self.parameters = dict(zip(names, types))
        self.sizes = {name: kind.size for name, kind in self.parameters.items() if kind.size is not None}
        self.types = dict(self.parameters)
        self.self_name = names[0] if names and (self.module is not None or self.class_name) else None

    def header(self, name: str) -> str:
        """The first line of the function's text, after `declare`."""
        a = self.node.args
        count = len(self.parameters) - len(a.kwonlyargs)
        defaults = [None] * (count - len(a.defaults))
        defaults += [*a.defaults, *a.kw_defaults]
        parameters = []
        for i, ((n, t), default) in enumerate(zip(self.parameters.items(), defaults)):
            if i == count:
                parameters.append("*")
            if n == self.self_name:
                parameters.append(n)
            else:
                parameters.append(f"{n}: {t}" + self.default(n, t, default))
        arrow = f" -> {self.returns}" if self.returns is not None else ""
        return f"def {name}({', '.join(parameters)}){arrow}:\n"

    def default(self, name, kind, node) -> str:
        """A parameter's default as the text has it."""
        if node is None:
            return ""
        value = self.defaults[name]
        if isinstance(value, (list, dict)):
            raise self.error(
                "Mutable default parameters are not supported because Python binds them to the "
                "function and they persist across function calls.\n As a workaround, make the default "
                "None and instantiate the default parameter within the body of the function. Found "
                f"{type(value)} on parameter {name}", self.node,
            )
        if kind.name == "float" and type(value) is int:
            value = float(value)
        found = infer(value, self.program.class_name)
        if found is None or not accepts(kind, found):
            raise self.error(f'Expected a default value of type {kind} on parameter "{name}".', self.node)
        if isinstance(value, TensorBase):
            constants = self.program.unit.constants
            constants.append(value)
            return f"=CONSTANTS.c{len(constants) - 1}"
        return f"={self.program.literal(value)}"

    def unannotated(self) -> frozenset[str]:
        """The parameters that are tensors because nothing else is said."""
        a = self.node.args
        if _COMMENT.search(self.source):
            return frozenset()
        return frozenset(
            p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.annotation is None
        )

    def signature(self, names) -> tuple[list[Type], Type | None]:
        """The types of the parameters and of the result."""
        comment = _COMMENT.search(self.source)
        annotations = {p.arg: p.annotation for p in (
            *self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs)}
        types = []
        own = is_own(self.function.__module__, "nn")  # has no annotations
        for i, n in enumerate(names):
            note = annotations[n]
            if note is None and own and self.defaults.get(n, _MISSING) is None:
                types.append(Type("Optional", (Type("Tensor"),)))
                continue
            if i == 0 and (self.module is not None or self.class_name):
                types.append(Type(self.class_name or "Any"))
            else:
                types.append(Type("Tensor") if note is None else self.type(note))
        returns = self.node.returns
        if comment and all(v is None for v in annotations.values()):
            said = _of_each(self.source) if comment[1].strip() == "..." else comment[1]
            given = ast.parse(f"({said},)" if said.strip() else "()", mode="eval").body
            expected = len(names) - (self.module is not None or self.class_name is not None)
            if len(given.elts) not in (expected, len(names)):
                last = self.node.args.args[-1] if self.node.args.args else self.node
                raise self.error(
                    f"Number of type annotations ({len(given.elts)}) did not match the number of function parameters "
                    f"({expected})", beginning(self.node, 0, (last.end_col_offset or 0) - self.node.col_offset))
            found = [self.type(e) for e in given.elts]
            types[len(types) - len(found) :] = found
            returns = ast.parse(comment[2].strip(), mode="eval").body
        return types, None if returns is None or self._names_module(returns) else self.type(returns)

    def _names_module(self, node) -> bool:
        """Whether an annotation is the class of the module whose method this is: what ``self`` is."""
        text = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
        return self.module is not None and text == type(self.module).__name__

    def type(self, node) -> Type:
        """The type that an annotation in the source names."""
        text = ast.unparse(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        fixed = _FIXED.fullmatch(text)
        if fixed is not None:
            inner = Type("int") if fixed[1] else self.type(ast.parse(fixed[4], mode="eval").body)
            kind = Type("List", (inner,), int(fixed[1] or fixed[3]))
            return Type("Optional", (kind,)) if fixed[2] else kind
        scope = {**vars(typing), "Tensor": ftorch.Tensor, **vars(builtins), **self.scope,
                 **self.closure}
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
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.compare_truth(node)
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.Call):
            return self.call_truth(node)
        found = self.value(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if isinstance(found, Global):  # variables of a module are no values of its functions
            return None
        if isinstance(found, Known) and isinstance(found.value, (bool, type(None))):
            return bool(found.value)
        return None

    def compare_truth(self, node):
        left, right = self.value(node.left), self.value(node.comparators[0])
        op = node.ops[0]
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, ModuleRef):
            name = self.static_value(node.left)
            if isinstance(right.value, ftorch.nn.ModuleDict) and isinstance(name, str):
                return (name in right.value) == isinstance(op, ast.In)
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
        if function is isinstance and len(node.args) == 2:
            return self.instance_truth(*node.args)
        return self.program.known_calls.get(function)

    def instance_truth(self, node, classes) -> bool | None:
        """What the type that a variable declares, or a module that an attribute is, says of ``isinstance``.

        Modules are also what names stand for in a loop over some.
        """
        is_part = isinstance(node, ast.Attribute) or isinstance(node, ast.Name) and isinstance(self.value(node), ModuleRef)
        if is_part and not isinstance(classes, (ast.Subscript, ast.BinOp)):
            kinds = self.static_value(classes)
            kinds = kinds if isinstance(kinds, tuple) else (kinds,)
            if all(isinstance(k, type) and issubclass(k, ftorch.nn.Module) for k in kinds):
                owner = self.value(node)
                return isinstance(owner, ModuleRef) and isinstance(owner.value, kinds)
        fits = self.fits(node, classes)
        return fits[0][1] if fits and len({fit for _, fit in fits}) == 1 else None

    def fits(self, node, classes) -> list[tuple[Type, bool]]:
        """Which of the types that a variable may have here are instances of classes; empty if none can tell."""
        if not isinstance(node, ast.Name) or node.id in self.statics or node.id not in self.types:
            return []
        kind = self.types[node.id]
        alternatives = self.narrowed.get(node.id)
        if alternatives is None:
            if kind.name == "Optional":
                alternatives = [*kind.args, NONE]
            else:
                alternatives = list(kind.args) if kind.name == "Union" else [kind]
        if any(a.name not in _DISTINCT and not a.name.startswith("__torch__.") for a in alternatives):
            return []
        wanted = instance_types(self, classes)
        return [(a, any(str(a) == k or a.name.lower() == k for k in wanted)) for a in alternatives]

    def branches(self, test) -> tuple[dict[str, list[Type]], dict[str, list[Type]]]:
        """What is left of declared types where a condition holds, and where it does not."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            holds, fails = self.branches(test.operand)
            return fails, holds
        if not (isinstance(test, ast.Call) and len(test.args) == 2):
            return self.narrowed, self.narrowed
        function = self.value(test.func)
        if not isinstance(function, Known) or function.value is not isinstance:
            return self.narrowed, self.narrowed
        fits = self.fits(test.args[0], test.args[1])
        if not fits:
            return self.narrowed, self.narrowed
        name = test.args[0].id  # type: ignore[attr-defined]
        return (
            self.narrowed | {name: [kind for kind, fit in fits if fit]},
            self.narrowed | {name: [kind for kind, fit in fits if not fit]},
        )

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
            if node.id in ("inf", "nan") and isinstance(found, float):
                return Known(found)
            return Global(_own(found))
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
        if not isinstance(owner.value, ftorch.nn.ModuleDict):
            raise self.error(
                "Expected integer literal for index but got a variable or non-integer. ModuleList/Sequential indexing is only "
                "supported with integer literals. For example, 'i = 4; self.layers[i](x)' will fail because i is not a "
                "literal. Enumeration is supported, e.g. 'for index, v in enumerate(self): out = v(inp)'", node,
            )
        raise self.error(
            "Unable to extract string literal index. ModuleDict indexing is only supported with "
            "string literals. Enumeration of ModuleList is supported, e.g. 'for index, v in "
            "enumerate(self): ...'", node,
        )

    def attribute(self, owner, name, node):
        if isinstance(owner, ModuleRef):
            return self.module_attribute(owner, name, node)
        if isinstance(owner, Known) and owner.node is None:
            value = owner.value
            if isinstance(value, (ftorch.nn.Module, TensorBase)):
                raise self.error(f"python value of type '{type(value).__name__}' cannot be used as a "
                                 "value. Perhaps it is a closed over global variable?", node)
            try:
                return Known(_own(getattr(value, name)))
            except AttributeError:
                if isinstance(value, (str, int, float, list, dict, tuple)):
                    return ast.Attribute(self.node_of(owner, node), name, ast.Load())
                shown = getattr(value, "__name__", type(value).__name__)
                if inspect.ismodule(value) and shown.partition(".")[0] in ("ftorch", "torch"):
                    raise self.error(f"object has no attribute {name}", node) from None
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
                f"Module '{type(module).__name__}' has no attribute '{name}' ", node
            )
        return self.plain_attribute(owner, name, expression, node)

    def plain_attribute(self, owner, name, expression, node):
        module = owner.value
        if is_compiled(module) and name in module._c._type.methods:
            return MethodRef(owner, name)
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
        )
