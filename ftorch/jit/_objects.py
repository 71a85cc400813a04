"""What programs are made of: compilation units, functions, classes and the objects of classes."""

from __future__ import annotations

import ast
import collections
import enum
import textwrap

from ..eager.tensor import TensorBase
from ._aten import ATTRIBUTES, operator_named
from ._failures import failure
from ._types import TENSOR, CastError, Type, cast, conforms, parse_type

__all__ = ["ClassType", "CompilationUnitData", "Function", "ScriptObject"]


class ScriptObject:
    """An object of a program's class. Its attributes are all that a program can reach of it."""

    __slots__ = ("__dict__", "__weakref__")
    _type: ClassType
    _script_name: str

    def __enter__(self):
        return call_method(self, "__enter__")

    def __exit__(self, *exc):
        call_method(self, "__exit__", *exc)

    def __repr__(self):
        return f"<{self._script_name} object>"


def _delegate(name):
    def method(self, *args):
        return call_method(self, name, *args)

    return method


# Methods with two underscores that programs may define and call.
DUNDERS = frozenset(
    f"__{n}__" for n in (
        "len contains getitem setitem delitem add sub mul truediv mod ne eq lt gt le ge and or xor "
        "neg bool iadd isub imul pow call init enter exit str hash new"
    ).split()
)  # fmt: skip


class ClassType:
    """A class of a program.

    Attributes:
        kind: "module", "class", "namedtuple", "enum" or "interface".
        attributes: {name: `Type`}; ``constants``: {name: value}; ``methods``: {name: `Function`}.
        python: the Python class of its objects.
    """

    def __init__(self, name: str, kind: str, unit: CompilationUnitData):
        self.name, self.kind, self.unit = name, kind, unit
        self.attributes: dict[str, Type] = {}
        self.constants: dict[str, object] = {}
        self.methods: dict[str, Function] = {}
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.node: ast.ClassDef | None = None
        self.python: type = object
        self.source = ""

    @property
    def short_name(self):
        return self.name.rpartition(".")[2]

    def make_python(self, fields=None):
        """Makes the Python class, once attributes and methods are known."""
        body: dict = {"_type": self, "_script_name": self.name}
        if self.kind == "namedtuple":
            made = collections.namedtuple(self.short_name, list(self.attributes))  # type: ignore
            self.python = type(self.short_name, (made,), {"__slots__": (), "_script_name": self.name})
            return
        if self.kind == "enum":
            self.python = enum.Enum(self.short_name, fields or {})  # type: ignore[misc]
            self.python._script_name = self.name  # type: ignore[attr-defined]
            return
        body["__slots__"] = ()
        for name in self.methods:
            if name in DUNDERS and name not in ("__init__", "__new__", "__enter__", "__exit__"):
                body[name] = _delegate(name)
        if "__eq__" in body:
            body.setdefault("__hash__", object.__hash__)
        self.python = type(self.short_name, (ScriptObject,), body)

    def __repr__(self):
        return f"<class {self.name}>"


class Function:
    """A function or method: its text, its signature, and what it compiles to.

    Attributes:
        node: the ``ast.FunctionDef``, in TorchScript's syntax.
        owner: the class that it is a method of.
    """

    def __init__(self, name: str, node: ast.FunctionDef, unit, owner: ClassType | None = None,
                 source: str | None = None):  # fmt: skip
        self.name, self.node, self.unit, self.owner = name, node, unit, owner
        self._source = source
        self._compiled = None
        self._schema: Schema | None = None
        self._busy = False

    @property
    def qualified_name(self):
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    @property
    def compiled(self):
        """The Python function that runs it. Its arguments come as the program has them."""
        if self._compiled is None:
            from ._translate import compile_function

            if self._busy:
                raise RuntimeError(
                    f"function '{self.name}' is called recursively. Recursive calls are not "
                    "supported"
                )
            self._busy = True
            try:
                self._compiled = compile_function(self)
            finally:
                self._busy = False
        return self._compiled

    @property
    def schema(self) -> Schema:
        if self._schema is None:
            self._schema = Schema(self)
        return self._schema

    @property
    def code(self) -> str:
        """The text, as PyTorch prints it: without the type of ``self``."""
        if self._source is not None:
            text = self._source
        else:
            text = unparse(self.node)
        if self.owner is not None and self.node.args.args:
            first = self.node.args.args[0].arg
            text = text.replace(f"({first}: {self.owner.name}", f"({first}", 1)
        return text.rstrip("\n") + "\n"

    def __call__(self, *args, **kwargs):
        """Calls it from Python: arguments are checked and converted.

        Raises:
            torch.jit.Error: for what the program raises; RuntimeError: for what fails in it.
        """
        values = self.schema.bind(args, kwargs)
        compiled = self.compiled
        try:
            return compiled(*values)
        except Exception as error:
            raise failure(error) from None


def unparse(node) -> str:
    """Python text with TorchScript's indentation."""
    lines = []
    for line in ast.unparse(ast.fix_missing_locations(node)).split("\n"):
        bare = line.lstrip(" ")
        lines.append(" " * ((len(line) - len(bare)) // 2) + bare)
    return "\n".join(lines)


class Schema:
    """A function's signature: binds and converts the arguments of a call from Python."""

    def __init__(self, function: Function):
        self.function = function
        arguments = function.node.args
        self.parameters = []
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
        pairs = [*zip(positional, defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        for i, (a, default) in enumerate(pairs):
            if i == 0 and function.owner is not None:
                kind = Type(function.owner.name)
            else:
                kind = parse_type(a.annotation) if a.annotation is not None else TENSOR
                kind = function.unit.resolve_type(kind)
            self.parameters.append((a.arg, kind, default))
        self.keyword_only = len(arguments.kwonlyargs)
        returns = function.node.returns
        self.returns = function.unit.resolve_type(parse_type(returns)) if returns else TENSOR
        self._defaults = {}

    def __str__(self):
        parts = []
        for name, kind, default in self.parameters:
            text = f"{kind.shown()} {name}"
            parts.append(text if default is None else f"{text}={_default_text(default)}")
        return f"{self.function.name}({', '.join(parts)}) -> {self.returns.shown()}"

    def default(self, i):
        """The value of a parameter's default."""
        if i not in self._defaults:
            from ._translate import evaluate

            self._defaults[i] = evaluate(self.parameters[i][2], self.function.unit)
        value = self._defaults[i]
        return list(value) if type(value) is list else value

    def bind(self, args, kwargs):
        """The arguments in order, converted.

        Raises:
            RuntimeError: if they do not fit the signature.
        """
        name = self.function.name
        if len(args) > len(self.parameters) - self.keyword_only:
            raise RuntimeError(
                f"{name}() expected at most {len(self.parameters)} argument(s) but received "
                f"{len(args)} argument(s). Declaration: {self}"
            )
        values = []
        used = 0
        for i, (parameter, kind, default) in enumerate(self.parameters):
            if i < len(args):
                if parameter in kwargs:
                    raise RuntimeError(
                        f"{name}() got multiple values for argument '{parameter}'"
                    )
                value = args[i]
            elif parameter in kwargs:
                value = kwargs[parameter]
                used += 1
            elif default is not None:
                values.append(self.default(i))
                continue
            else:
                raise RuntimeError(
                    f"{name}() is missing value for argument '{parameter}'. Declaration: {self}"
                )
            if i == 0 and self.function.owner is not None:
                values.append(value)
                continue
            try:
                values.append(cast(value, kind))
            except CastError as error:
                raise RuntimeError(self._mismatch(i, value, error)) from None
        if used < len(kwargs):
            unknown = next(k for k in kwargs if all(k != p[0] for p in self.parameters))
            raise RuntimeError(f"Unknown keyword argument '{unknown}' for operator '{name}'. "
                               f"Schema: {self}")  # fmt: skip
        return values

    def _mismatch(self, i, value, error):
        parameter, kind, _ = self.parameters[i]
        found = "Tensor" if isinstance(value, TensorBase) else type(value).__name__
        return (
            f"{self.function.name}() Expected a value of type '{kind}' for argument "
            f"'{parameter}' but instead found type '{found}'.\nPosition: {i}\nValue: {value!r}\n"
            f"Declaration: {self}\nCast error details: {error}"
        )


def _default_text(node):
    if isinstance(node, ast.Constant) and type(node.value) is float:
        return repr(node.value).removesuffix("0") if node.value % 1 == 0 else repr(node.value)
    return ast.unparse(node).replace("'", '"')


# --- access from compiled code ---------------------------------------------------------


def get_attribute(obj, name):
    """``obj.name`` in a program."""
    if isinstance(obj, ScriptObject):
        try:
            return obj.__dict__[name]
        except KeyError:
            pass
        kind = obj._type
        if name in kind.constants:
            return kind.constants[name]
        if name in kind.methods:
            return lambda *args: kind.methods[name].compiled(obj, *args)
    elif isinstance(obj, TensorBase):
        if name in ATTRIBUTES:
            return ATTRIBUTES[name](obj)
    elif isinstance(obj, tuple) and name in getattr(type(obj), "_fields", ()):
        return getattr(obj, name)
    elif isinstance(obj, enum.Enum) and name in ("name", "value"):
        return getattr(obj, name)
    elif type(obj).__name__ == "device" and name in ("type", "index"):
        return getattr(obj, name)
    shown = getattr(type(obj), "_script_name", type(obj).__name__)
    raise RuntimeError(f"'{shown}' object has no attribute or method '{name}'.")


def set_attribute(obj, name, value):
    """``obj.name = value`` in a program."""
    if not isinstance(obj, ScriptObject):
        raise RuntimeError(f"cannot assign to attribute '{name}' of {type(obj).__name__}")
    obj.__dict__[name] = value


def call_method(obj, name, *args, **kwargs):
    """``obj.name(...)`` in a program: a method, or an op by its name as a method."""
    if isinstance(obj, ScriptObject):
        method = obj._type.methods.get(name)
        if method is not None:
            if kwargs:
                kwargs = {f"v_{k}": v for k, v in kwargs.items()}
            return method.compiled(obj, *args, **kwargs)
        value = obj.__dict__.get(name)
        if isinstance(value, ScriptObject):
            return call_method(value, "forward", *args, **kwargs)
        if name == "__init__" and not args:
            return None
        left = obj._type.unit.python.get(obj._script_name)
        if isinstance(left, dict) and name in left:
            from ._module import wrap_module

            return left[name](wrap_module(obj), *args, **kwargs)
        if callable(value):
            return value(*args, **kwargs)
        raise RuntimeError(f"Tried to access nonexistent attribute or method '{name}' of type "
                           f"'{obj._script_name}'.")  # fmt: skip
    if isinstance(obj, TensorBase):
        if name == "tolist":
            return obj.tolist()
        if name == "view" and args and type(args[0]) is int:  # x.view(2, 3)
            args = (list(args),)
    function = None if name.startswith("__") else operator_named(name)
    if function is None:
        raise RuntimeError(f"'{type(obj).__name__}' object has no attribute or method '{name}'.")
    return function(obj, *args, **kwargs)


def isinstance_of(value, kinds) -> bool:
    """``isinstance`` in a program; ``kinds`` are `Type`."""
    return any(conforms(value, k) for k in kinds)


class CompilationUnitData:
    """Everything that a program defines, by qualified name.

    Attributes:
        importer: makes known what a name needs (an archive's reader), or None.
    """

    def __init__(self, importer=None):
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, ClassType] = {}
        self.constants: list = []
        self.python: dict[str, object] = {}  # functions left to Python (`ignore`)
        self.importer = importer
        self.clashes: set[str] = set()  # what parts define differently under one name
        self.version = 10  # of the ops' signatures, as files state it

    def find(self, name: str):
        """The `Function` or `ClassType` of a qualified name, or None."""
        for _ in range(2):
            if name in self.functions:
                return self.functions[name]
            if name in self.classes:
                return self.classes[name]
            if self.importer is None or not self.importer(name):
                return None
        return None

    def include(self, other: CompilationUnitData) -> None:
        """Adds what another unit defines, whose objects become parts of this one's."""
        for name, kind in other.classes.items():
            if kind is not None:
                self.classes.setdefault(name, kind)
        if self.constants and other.constants:
            self.clashes.add("CONSTANTS")
        self.constants = self.constants or other.constants
        for name, function in other.functions.items():
            if self.functions.setdefault(name, function).code != function.code:
                self.clashes.add(name)
        self.python.update({k: v for k, v in other.python.items() if k not in self.python})
        self.clashes |= other.clashes

    def class_named(self, name: str) -> ClassType:
        found = self.find(name)
        if not isinstance(found, ClassType):
            raise RuntimeError(f"Unknown type name '{name}'")
        return found

    def resolve_type(self, t: Type) -> Type:
        """A type with what it names made known."""
        if t.is_class:
            self.find(t.name)
        for a in t.args:
            self.resolve_type(a)
        return t


def dedented(source_lines) -> str:
    """A function's lines without the indentation they have in a class."""
    return textwrap.dedent("\n".join(source_lines))
