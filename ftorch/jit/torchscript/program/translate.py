"""From a program's functions to Python functions, compiled once and run from then on.

A program's text is a small part of Python's syntax. Only what is listed here is translated; every
name is resolved here, against the table of ops, the program's own functions and its constants, and
attributes are looked up among those of the program's objects. So a file runs nothing but ops.
"""

from __future__ import annotations

import ast
import math

from . import aten_adapters, builtins, objects
from .aten import ATTRIBUTES, builtin
from .autocasts import ARITHMETIC
from .builtins import conversions
from .casts import CastError, cast
from .environment import ENVIRONMENT
from .objects import ClassType, Function, ScriptObject
from .types import Type, parse_type

__all__ = ["compile_function", "evaluate"]

_LITERALS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf),
             "nanj": complex(0, math.nan)}
_PLAIN_FUNCTIONS = frozenset(
    "len min max abs round sorted list tuple dict sum all any print range enumerate zip reversed ord chr "
    "hex oct bin hash divmod pow".split()
)
_MATH = frozenset("sqrt exp log floor ceil sin cos tan tanh pow".split())


class _Translator:
    """Makes Python's syntax tree of one function's."""

    def __init__(self, function: Function):
        self.function, self.unit = function, function.unit
        self.globals = dict(ENVIRONMENT)
        self.known: dict[str, str] = {}
        self.locals: set[str] = set()

    def error(self, node, message="is not part of TorchScript"):
        text = ast.unparse(node) if isinstance(node, ast.AST) else str(node)
        return RuntimeError(
            f"{text!r} {message} (line {getattr(node, 'lineno', '?')} of {self.function.name})"
        )

    def constant(self, value, hint="c") -> ast.expr:
        """A global name for an object."""
        key = f"{hint}{id(value)}"
        if key not in self.known:
            name = f"_{hint}{len(self.known)}"
            self.known[key] = name
            self.globals[name] = value
            self.globals.setdefault("_alive", []).append(value)
        return ast.Name(self.known[key], ast.Load())

    # --- functions

    def define(self, node: ast.FunctionDef, name: str) -> ast.FunctionDef:
        a = node.args
        if a.vararg or a.kwarg or node.decorator_list:
            raise self.error(node.name, "has a signature that TorchScript does not know")
        names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        outer = self.locals
        self.locals = outer | set(names) | _assigned(node)
        arguments = ast.arguments(
            posonlyargs=[], args=[ast.arg(f"v_{n}") for n in (x.arg for x in (*a.posonlyargs, *a.args))],
            vararg=None, kwonlyargs=[ast.arg(f"v_{x.arg}") for x in a.kwonlyargs],
            kw_defaults=[d and self.expr(d) for d in a.kw_defaults], kwarg=None,
            defaults=[self.expr(d) for d in a.defaults],
        )
        body = self.block(node.body)
        self.locals = outer
        return ast.FunctionDef(name, arguments, body, [], lineno=1, col_offset=0)

    def block(self, statements) -> list[ast.stmt]:
        out = []
        for s in statements:
            made = self.statement(s)
            out.extend(ast.copy_location(m, s) for m in (made if isinstance(made, list) else [made]))
        return out or [ast.Pass()]

    # --- statements

    def statement(self, s):
        handler = getattr(self, f"_{type(s).__name__}", None)
        if handler is None:
            raise self.error(s)
        return handler(s)

    def _Pass(self, s):
        return ast.Pass()

    def _Break(self, s):
        return ast.Break()

    def _Continue(self, s):
        return ast.Continue()

    def _Return(self, s):
        return ast.Return(self.expr(s.value) if s.value is not None else None)

    def _Expr(self, s):
        return ast.Expr(self.expr(s.value))

    def _Assign(self, s):
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Attribute):
            return self._set_attribute(s.targets[0], self.expr(s.value))
        return ast.Assign([self.target(t) for t in s.targets], self.expr(s.value), lineno=1)

    def _set_attribute(self, target, value):
        arguments = [self.expr(target.value), ast.Constant(target.attr), value]
        return ast.Expr(_called("_set", *arguments))

    def _AnnAssign(self, s):
        value = self.annotated(s.annotation, s.value)
        if isinstance(s.target, ast.Attribute):
            return self._set_attribute(s.target, value)
        return ast.Assign([self.target(s.target)], value, lineno=1)

    def _AugAssign(self, s):
        if isinstance(s.target, ast.Attribute):
            now = ast.BinOp(self.expr(s.target), s.op, self.expr(s.value))
            if isinstance(s.op, ast.Pow):
                now = _called("_pow", now.left, now.right)
            else:
                now = _called("_iop_" + type(s.op).__name__, now.left, now.right)
                self.globals.setdefault(now.func.id, _inplace(type(s.op).__name__))
            return self._set_attribute(s.target, now)
        return ast.AugAssign(self.target(s.target), s.op, self.expr(s.value))

    def _If(self, s):
        return ast.If(self.expr(s.test), self.block(s.body), self.block(s.orelse) if s.orelse else [])

    def _While(self, s):
        if s.orelse:
            raise self.error(s, "has an else branch")
        return ast.While(self.expr(s.test), self.block(s.body), [])

    def _For(self, s):
        if s.orelse:
            raise self.error(s, "has an else branch")
        return ast.For(self.target(s.target), self.expr(s.iter), self.block(s.body), [], lineno=1)

    def _With(self, s):
        items = [
            ast.withitem(_called("_with", self.expr(i.context_expr)),
                         i.optional_vars and self.target(i.optional_vars))
            for i in s.items
        ]
        return ast.With(items, self.block(s.body), lineno=1)

    def _Assert(self, s):
        message = [self.expr(s.msg)] if s.msg is not None else []
        return ast.Expr(_called("_assert", self.expr(s.test), *message))

    def _Raise(self, s):
        message, name = ast.Constant(""), "RuntimeError"
        if isinstance(s.exc, ast.Call):
            name = ast.unparse(s.exc.func)
            message = self.expr(s.exc.args[0]) if s.exc.args else message
        return ast.Expr(_called("_raise", message, ast.Constant(f"builtins.{name}")))

    def _Delete(self, s):
        return ast.Delete([self.target(t, ast.Del()) for t in s.targets])

    def _FunctionDef(self, s):
        self.locals = self.locals | {s.name}
        return self.define(s, f"v_{s.name}")

    def target(self, t, context=None):
        context = context or ast.Store()
        if isinstance(t, ast.Name):
            return ast.Name(f"v_{t.id}", context)
        if isinstance(t, (ast.Tuple, ast.List)):
            return ast.Tuple([self.target(e) for e in t.elts], context)
        if isinstance(t, ast.Subscript):
            return ast.Subscript(self.expr(t.value), self.index(t.slice), context)
        if isinstance(t, ast.Starred):
            return ast.Starred(self.target(t.value), context)
        raise self.error(t)

    # --- expressions

    def expr(self, e) -> ast.expr:
        handler = getattr(self, f"_{type(e).__name__}_", None)
        if handler is None:
            raise self.error(e)
        made = handler(e)
        return made if hasattr(made, "lineno") else ast.copy_location(made, e)

    def _Constant_(self, e):
        if e.value is Ellipsis or isinstance(e.value, (int, float, str, bool, complex, type(None))):
            return ast.Constant(e.value)
        raise self.error(e)

    def _Name_(self, e):
        if e.id in self.locals:
            return ast.Name(f"v_{e.id}", ast.Load())
        if e.id in _LITERALS:
            return self.constant(_LITERALS[e.id], "l")
        raise self.error(e, "is undefined: undefined value " + e.id)

    def _Attribute_(self, e):
        path = _path(e)
        if path and path[0] not in self.locals:
            if path[0] == "CONSTANTS" and len(path) == 2:
                return self.constant(self.unit.constants[int(path[1][1:])], "t")
            if path[0].startswith("__torch__"):
                return self.qualified(path, e)
        if e.attr.startswith("__"):
            raise self.error(e)
        return _called("_get", self.expr(e.value), ast.Constant(e.attr))

    def qualified(self, path, e):
        """What ``__torch__.a.b`` names: a function, a class, or a member of an enum."""
        found = self.unit.find(".".join(path))
        if isinstance(found, Function):
            return self.constant(found.compiled, "g")
        if isinstance(found, ClassType):
            return self.constant(found.python, "g")
        owner = self.unit.find(".".join(path[:-1])) if len(path) > 2 else None
        if isinstance(owner, ClassType) and owner.kind == "enum":
            return self.constant(owner.python[path[-1]], "g")
        python = self.unit.python.get(".".join(path))
        if python is not None:
            return self.constant(python, "g")
        raise self.error(e, "is not defined in the program")

    def _Subscript_(self, e):
        return ast.Subscript(self.expr(e.value), self.index(e.slice), ast.Load())

    def index(self, s):
        if isinstance(s, ast.Slice):
            parts = [p and _called("_convert", self.expr(p), self.constant(Type("int"), "y"))
                     for p in (s.lower, s.upper, s.step)]
            return ast.Slice(*parts)
        if isinstance(s, ast.Tuple):
            return ast.Tuple([self.index(x) for x in s.elts], ast.Load())
        return self.expr(s)

    def _Tuple_(self, e):
        return ast.Tuple([self.expr(x) for x in e.elts], ast.Load())

    def _List_(self, e):
        return ast.List([self.expr(x) for x in e.elts], ast.Load())

    def _Dict_(self, e):
        return ast.Dict([self.expr(k) for k in e.keys], [self.expr(v) for v in e.values])

    def _Starred_(self, e):
        return ast.Starred(self.expr(e.value), ast.Load())

    def _BinOp_(self, e):
        if isinstance(e.op, ast.Pow):
            return _called("_pow", self.expr(e.left), self.expr(e.right))
        if isinstance(e.op, ast.Mod) and isinstance(e.left, ast.Constant) and isinstance(
            e.left.value, str
        ):
            values = e.right.elts if isinstance(e.right, ast.Tuple) else [e.right]
            function = self.constant(builtins.percent_format, "g")
            return ast.Call(function, [self.expr(e.left), *map(self.expr, values)], [])
        if type(e.op) in ARITHMETIC:
            function = self.constant(ARITHMETIC[type(e.op)], "g")
            return ast.Call(function, [self.expr(e.left), self.expr(e.right)], [])
        return ast.BinOp(self.expr(e.left), e.op, self.expr(e.right))

    def _UnaryOp_(self, e):
        return ast.UnaryOp(e.op, self.expr(e.operand))

    def _BoolOp_(self, e):
        return ast.BoolOp(e.op, [self.expr(v) for v in e.values])

    def _Compare_(self, e):
        sides = [self.expr(side) for side in (e.left, *e.comparators)]
        if isinstance(e.ops[0], (ast.Eq, ast.NotEq)) and not any(isinstance(side, ast.Constant) for side in sides):
            compare = builtins.equal if isinstance(e.ops[0], ast.Eq) else builtins.unequal
            return ast.Call(self.constant(compare, "g"), sides, [])
        return ast.Compare(sides[0], e.ops, sides[1:])

    def _IfExp_(self, e):
        return ast.IfExp(self.expr(e.test), self.expr(e.body), self.expr(e.orelse))

    def _ListComp_(self, e):
        return self.comprehension(e, lambda: ast.ListComp(self.expr(e.elt), self.clauses(e)))

    def _DictComp_(self, e):
        return self.comprehension(
            e, lambda: ast.DictComp(self.expr(e.key), self.expr(e.value), self.clauses(e))
        )

    def comprehension(self, e, make):
        outer = self.locals
        self.locals = outer | {n.id for g in e.generators for n in ast.walk(g.target)
                               if isinstance(n, ast.Name)}
        made = make()
        self.locals = outer
        return made

    def clauses(self, e):
        return [
            ast.comprehension(self.target(g.target), self.expr(g.iter),
                              [self.expr(i) for i in g.ifs], 0)
            for g in e.generators
        ]

    # --- calls

    def _Call_(self, e):
        path = _path(e.func)
        if path is not None and path[0] not in self.locals:
            made = self.special(e, path)
            if made is not None:
                return made
        arguments, keywords = self.arguments(e)
        f = e.func
        if isinstance(f, ast.Attribute):
            if f.attr.startswith("__"):
                if f.attr == "__new__" and len(arguments) == 1:
                    return ast.Call(self.constant(_new, "g"), arguments, [])
                if f.attr not in objects.DUNDERS:
                    raise self.error(f)
            receiver = self.expr(f.value)
            return ast.Call(
                ast.Name("_call", ast.Load()), [receiver, ast.Constant(f.attr), *arguments], keywords
            )
        if isinstance(f, ast.Name) and f.id in self.locals:
            call = self.constant(_call_value, "g")
            return ast.Call(call, [self.expr(f), *arguments], keywords)
        raise self.error(f, "is not a function of the program")

    def arguments(self, e):
        if any(k.arg is None for k in e.keywords):
            raise self.error(e, "has keyword arguments that are not written out")
        return ([self.expr(a) for a in e.args],
                [ast.keyword(k.arg, self.expr(k.value)) for k in e.keywords])

    def special(self, e, path):
        """Calls of names that are not values: ops, conversions, the program's functions."""
        head = path[0]
        if head == "torch" and len(path) == 2:
            if path[1] == "device":
                return ast.Call(self.constant(_device, "g"), *self.arguments(e))
            return ast.Call(self.op("aten", path[1]), *self.arguments(e))
        if head == "torch" and len(path) == 3 and path[1] in ("linalg", "fft", "special"):
            return ast.Call(self.op("aten", f"{path[1]}_{path[2]}"), *self.arguments(e))
        if head == "torch" and len(path) == 3 and path[1] == "autograd":  # where programs' texts have these
            return ast.Call(self.op("aten", path[2]), *self.arguments(e))
        if head == "ops" and len(path) == 3:
            if path[1] == "prim" and path[2] in ATTRIBUTES:
                return _called("_get", self.expr(e.args[0]), ast.Constant(path[2]))
            return ast.Call(self.op(*path[1:]), *self.arguments(e))
        if head.startswith("__torch__"):
            return self.program_call(e, path)
        if len(path) > 1:
            return None
        if head in ("annotate", "unchecked_cast") and len(e.args) == 2:
            return self.annotated(e.args[0], e.args[1])
        if head == "uninitialized":
            return ast.Constant(None)
        if head == "isinstance":
            kinds = e.args[1].elts if isinstance(e.args[1], (ast.Tuple, ast.List)) else [e.args[1]]
            found = self.constant([self.type(k) for k in kinds], "y")
            return _called("_isinstance", self.expr(e.args[0]), found)
        if head in ("getattr", "hasattr") and isinstance(e.args[1], ast.Constant):
            return _called("_get", self.expr(e.args[0]), ast.Constant(str(e.args[1].value)))
        if head == "fork" and isinstance(e.args[0], ast.Attribute):
            inner = ast.Call(e.args[0], e.args[1:], e.keywords)
            return ast.Call(self.constant(builtins.completed, "g"), [self.expr(inner)], [])
        if head in ("fork", "awaitable", "wait"):
            name = "_wait" if head == "wait" else "_fork"
            arguments, keywords = self.arguments(e)
            return ast.Call(ast.Name(name, ast.Load()), arguments, _renamed(keywords))
        if head in conversions or head in _PLAIN_FUNCTIONS:
            return ast.Call(ast.Name(f"_f_{head}", ast.Load()), *self.arguments(e))
        return None

    def op(self, namespace, name) -> ast.expr:
        """A global name for an op. One that does not exist is an error only where it is called."""
        try:
            if name == "div" and self.unit.version < 4:
                return self.constant(aten_adapters.div_before_4, "o")
            found = builtin(namespace, name)
        except RuntimeError as error:
            message = str(error)

            def found(*_, **__):
                raise RuntimeError(message)

        return self.constant(found, "o")

    def program_call(self, e, path):
        if path[-1] == "__new__":
            kind = self.unit.class_named(".".join(path[:-1]))
            return ast.Call(self.constant(_new, "g"), [self.constant(kind.python, "g")], [])
        found = self.unit.find(".".join(path))
        function = self.qualified(path, e.func)
        if isinstance(found, ClassType) and found.kind == "class":
            function = self.constant(_constructor(found), "g")
        arguments, keywords = self.arguments(e)
        if isinstance(found, Function):
            keywords = _renamed(keywords)
        return ast.Call(function, arguments, keywords)

    def type(self, node) -> Type:
        return self.unit.resolve_type(parse_type(node))

    def annotated(self, annotation, value):
        kind = self.type(annotation)
        made = self.expr(value)
        if kind.name in ("int", "float", "bool", "complex") and not isinstance(value, ast.Constant):
            return _called("_convert", made, self.constant(kind, "y"))
        return made


def _renamed(keywords):
    """Keywords as the parameters of compiled functions are called."""
    return [ast.keyword(f"v_{k.arg}", k.value) for k in keywords]


def _new(kind):
    """``Class.__new__(Class)``."""
    if not (isinstance(kind, type) and issubclass(kind, ScriptObject)):
        raise RuntimeError("__new__ of what is no class of the program")
    return kind()


def _constructor(kind: ClassType):
    def make(*args, **kwargs):
        made = kind.python()
        objects.call_method(made, "__init__", *args, **kwargs)
        return made

    return make


def _call_value(value, *args, **kwargs):
    if isinstance(value, ScriptObject):
        name = "forward" if "forward" in value._type.methods else "__call__"
        return objects.call_method(value, name, *args, **kwargs)
    if hasattr(value, "_script_function"):
        kwargs = {f"v_{k}": v for k, v in kwargs.items()}
    return value(*args, **kwargs)


def _device(*args):
    import ftorch as torch

    return torch.device(*args)


def _inplace(name):
    import operator

    names = {"Add": "iadd", "Sub": "isub", "Mult": "imul", "Div": "itruediv", "Mod": "imod",
             "FloorDiv": "ifloordiv", "BitAnd": "iand", "BitOr": "ior", "BitXor": "ixor",
             "MatMult": "imatmul", "LShift": "ilshift", "RShift": "irshift"}
    return getattr(operator, names[name])


def _called(name, *arguments):
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _path(e) -> list[str] | None:
    """["a", "b", "c"] of ``a.b.c``."""
    names: list[str] = []
    while isinstance(e, ast.Attribute):
        names.append(e.attr)
        e = e.value
    return [e.id, *reversed(names)] if isinstance(e, ast.Name) else None


def _assigned(node) -> set[str]:
    """Names that a function assigns to."""
    return {n.id for s in node.body for n in ast.walk(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del))}


def compile_function(function: Function):
    """The Python function for a program's function.

    Raises:
        RuntimeError: if its text is not a program's, or names what does not exist.
    """
    translator = _Translator(function)
    node = ast.fix_missing_locations(translator.define(function.node, "f"))
    module = ast.Module([node], [])
    scope = translator.globals
    scope["_program_function"] = function  # for the text of errors
    exec(compile(module, f"<torchscript {function.qualified_name}>", "exec"), scope)
    made = scope["f"]
    made.__name__ = function.name
    made.__qualname__ = function.qualified_name
    made._script_function = function
    return made


def evaluate(node, unit):
    """The value of a constant expression in a program."""
    holder = ast.FunctionDef("constant", ast.arguments([], [], None, [], [], None, []),
                             [ast.Return(node)], [])
    return compile_function(Function("constant", holder, unit))()


def checked(value, kind: Type):
    """A value cast to a type, for constants of classes.

    Raises:
        RuntimeError: if it does not fit.
    """
    try:
        return cast(value, kind)
    except CastError as error:
        raise RuntimeError(str(error)) from None
