"""What programs are made of: compilation units, functions, classes and the objects of classes."""

from __future__ import annotations

import ast
import collections
import enum
import textwrap

from ....eager.core import forking
from ....eager.core.return_values import ReturnType
from ....eager.tensor import TensorBase
from .aten import ATTRIBUTES, CASTS, operator_named, takes_numbers
from .casts import cast
from .failures import failure
from .places import Places
from .schema import Schema
from .types import Type, conforms, name_of, named

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

    def __getattr__(self, name):
        """What Python asks of an object beside its attributes: constants, methods, properties."""
        kind = self._type
        if name in kind.constants:
            return kind.constants[name]
        function = kind.methods.get(name)
        if function is not None:
            return lambda *args, **kwargs: function(self, *args, **kwargs)
        getter = kind.accessor(name, "getter")
        if getter is not None:
            return getter(self)
        if name == "qualified_name":
            return kind.name
        raise AttributeError(f"'{kind.short_name}' object has no attribute '{name}'")

    def _method_names(self):
        return list(self._type.methods)

    def _has_method(self, name):
        return name in self._type.methods

    def _get_method(self, name):
        from .modules import ScriptMethod

        return ScriptMethod(self._type.methods[name], self)

    def hasattr(self, name):
        """Whether there is an attribute or constant of a name."""
        return name in self.__dict__ or name in self._type.constants

    def getattr(self, name):
        """An attribute or constant."""
        return getattr(self, name)

    def setattr(self, name, value):
        """Sets an attribute."""
        setattr(self, name, value)

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
)


class ClassType:
    """A class of a program.

    Attributes:
        kind: "module", "class", "namedtuple", "enum", "interface", or "bound" of a class of `torch.classes`.
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
        self.forward_pre_hooks: list[str] = []  # names of methods, as `forward_hooks`
        self.forward_hooks: list[str] = []
        self.node: ast.ClassDef | None = None
        self.python: type = object
        self.origin: type | None = None  # the Python class that it was compiled from
        self.source = ""
        self.ignored: dict = {}  # methods of a module that are left to Python

    @property
    def short_name(self):
        return self.name.rpartition(".")[2]

    def qualified_name(self) -> str:
        return self.name

    def make_python(self, fields=None):
        """Makes the Python class, once attributes and methods are known."""
        body: dict = {"_type": self, "_script_name": self.name}
        if self.kind == "namedtuple":
            made = collections.namedtuple(self.short_name, list(self.attributes))  # type: ignore
            self.represent(type(self.short_name, (made,), {"__slots__": ()}))
            return
        if self.kind == "enum":
            self.represent(enum.Enum(self.short_name, fields or {}))  # type: ignore[misc]
            return
        body["__slots__"] = ()
        for name in self.methods:
            if name in DUNDERS and name not in ("__init__", "__new__", "__enter__", "__exit__"):
                body[name] = _delegate(name)
        if "__eq__" in body:
            body.setdefault("__hash__", object.__hash__)
        self.represent(type(self.short_name, (ScriptObject,), body))

    def represent(self, python: type):
        """Makes a Python class the one of this class's objects."""
        self.python = python
        named(python, self.name)

    def accessor(self, name, kind) -> Function | None:
        """What reads ("getter") or sets ("setter") a property."""
        return self.methods.get(f"__{name}_{kind}")

    def __repr__(self):
        return self.name


_compiling = forking.rlock()


class Function:
    """A function or method: its text, its signature, and what it compiles to.

    Attributes:
        node: the ``ast.FunctionDef``, in TorchScript's syntax.
        owner: the class that it is a method of.
    """

    def __init__(self, name: str, node: ast.FunctionDef, unit, owner: ClassType | None = None,
                 source: str | None = None):
        self.name, self.node, self.unit, self.owner = name, node, unit, owner
        self._source = source
        self._compiled = None
        self._schema: Schema | None = None
        self._busy = False
        self.unannotated: frozenset[str] = frozenset()  # parameters that are tensors by default
        self.sizes: dict[str, int] = {}  # of parameters that are lists of a fixed number
        self.places: Places | None = None  # of its text in the Python source
        self.notes: dict | None = None  # of a traced one: {variable: (its name in Python, type, place)}

    @property
    def qualified_name(self):
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    @property
    def compiled(self):
        """The Python function that runs it. Its arguments come as the program has them."""
        if self._compiled is None:
            from .translate import compile_function

            with _compiling:  # a server's threads may come to it at once
                if self._compiled is not None:
                    return self._compiled
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
        compiled, count = self.compiled, self.schema.positional
        given = {f"v_{p[0]}": v for p, v in zip(self.schema.parameters[count:], values[count:])}
        try:
            result = compiled(*values[:count], **given)
        except Exception as error:
            raise failure(error) from None
        return _unnamed(result) if type(result) in (tuple, list, dict) or isinstance(result, ReturnType) else result


def _unnamed(value):
    """What a program returned with tuples for the named results of ops: their names are left behind."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if isinstance(item, (tuple, list, dict)):
                value[key] = _unnamed(item)
        return value
    if kind is list:
        value[:] = [_unnamed(item) if isinstance(item, (tuple, list, dict)) else item for item in value]
        return value
    if kind is tuple or isinstance(value, ReturnType):
        return tuple(_unnamed(item) if isinstance(item, (tuple, list, dict)) else item for item in value)
    return value


def unparse(node) -> str:
    """Python text with TorchScript's indentation."""
    lines = []
    for line in ast.unparse(ast.fix_missing_locations(node)).split("\n"):
        bare = line.lstrip(" ")
        lines.append(" " * ((len(line) - len(bare)) // 2) + bare)
    return "\n".join(lines)


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
        getter = kind.accessor(name, "getter")
        if getter is not None:
            return getter.compiled(obj)
    elif isinstance(obj, TensorBase):
        if name in ATTRIBUTES:
            return ATTRIBUTES[name](obj)
    elif isinstance(obj, tuple) and name in (
        *getattr(obj, "_fields", ()),
        *getattr(obj, "_names", ()),
    ):
        return getattr(obj, name)
    elif isinstance(obj, enum.Enum) and name in ("name", "value"):
        return getattr(obj, name)
    elif type(obj).__name__ == "device" and name in ("type", "index"):
        return getattr(obj, name)
    shown = name_of(type(obj)) or type(obj).__name__
    raise RuntimeError(f"'{shown}' object has no attribute or method '{name}'.")


def set_attribute(obj, name, value):
    """``obj.name = value`` in a program."""
    if not isinstance(obj, ScriptObject):
        raise RuntimeError(f"cannot assign to attribute '{name}' of {type(obj).__name__}")
    setter = obj._type.accessor(name, "setter")
    if setter is not None:
        setter.compiled(obj, value)
    else:
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
            from .modules import wrap_module

            return left[name](wrap_module(obj), *args, **kwargs)
        if callable(value):
            return value(*args, **kwargs)
        raise RuntimeError(f"Tried to access nonexistent attribute or method '{name}' of type "
                           f"'{obj._script_name}'.")
    if hasattr(type(obj), "_qualified") and not name.startswith("_"):  # packed weights
        return getattr(obj, name)(*args, **kwargs)
    if isinstance(obj, TensorBase):
        if name == "tolist":
            return obj.tolist()
        if name in CASTS:
            return getattr(obj, name)(*args, **kwargs)
        if name == "type":
            name = "to"
        if args and type(args[0]) is int and takes_numbers(name):  # x.view(2, 3)
            args = (list(args),)
    function = None if name.startswith("__") else operator_named(name)
    if function is None:
        raise RuntimeError(f"'{type(obj).__name__}' object has no attribute or method '{name}'.")
    return function(obj, *args, **kwargs)


def isinstance_of(value, kinds) -> bool:
    """``isinstance`` in a program; ``kinds`` are `Type`."""
    return any(conforms(value, k) for k in kinds)


_BOUND = "__torch__.torch.classes."


def _bound_class(name: str, unit) -> ClassType | None:
    """The class of packed weights of a name."""
    from ...._quantized._script_states import CLASSES

    if name not in CLASSES:
        return None
    kind = ClassType(name, "bound", unit)
    kind.python = CLASSES[name]
    return kind


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
        if name.startswith(_BOUND):
            return _bound_class(name, self)
        for _ in range(2):
            if name in self.functions:
                return self.functions[name]
            if name in self.classes:
                return self.classes[name]
            if self.importer is None or not self.importer(name):
                return None
        return None

    def name_of(self, function: Function) -> str | None:
        """The qualified name of a function that the unit defines."""
        return next((n for n, f in self.functions.items() if f is function), None)

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

    def instance(self, value, name: str):
        """An object of a class for an object of the Python class that it was compiled from, or None.

        Attributes are copied: what the program does to its object the other one does not see.
        """
        kind = self.classes.get(name)
        if isinstance(value, ScriptObject):
            return value if kind is not None and kind.kind == "interface" else None
        if kind is not None and kind.kind == "namedtuple" and isinstance(value, (tuple, list)):
            types = kind.attributes.values()
            return kind.python(*(cast(v, t, self.instance) for v, t in zip(value, types, strict=True)))
        if kind is None or kind.origin is None or not isinstance(value, kind.origin):
            return None
        made = kind.python()
        for attribute, t in kind.attributes.items():
            made.__dict__[attribute] = cast(getattr(value, attribute), t, self.instance)
        return made

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
