"""Programs of Python functions, classes and modules, compiled with everything that they reach."""

from __future__ import annotations

import ast
import enum
import inspect
import weakref

from ..eager.device import device as device_class
from ..eager.dtype import dtype as dtype_class
from ..eager.formats import layout, memory_format
from ..eager.tensor import TensorBase
from ..fx.graph import Graph
from ..nn import Module, ParameterDict, ParameterList
from . import _layers, _prelude
from ._annotations import Attribute
from ._builder import Builder
from ._emit import class_text, define, emit_function, literal, qualified_class_name
from ._frontend import FunctionCompiler, ModuleRef
from ._module import ScriptFunction, is_compiled, wrap_module
from ._objects import CompilationUnitData
from ._types import Type, infer, type_of_annotation

__all__ = ["Program", "script_function", "script_module"]


class Program:
    """One compilation: the unit that is filled, and what was compiled into it."""

    known_calls: dict = {}  # function -> the value that all its calls have

    def __init__(self, unit: CompilationUnitData | None = None, of_class=False):
        self.unit = unit or CompilationUnitData()
        self.of_class = of_class  # made for a class and what that refers to
        self.functions: dict = {}
        self.classes: dict[type, str] = {}
        self.modules: dict[int, _ModuleProgram] = {}
        self.calls: list = []  # that are being compiled: (`FunctionCompiler`, the call)

    # --- values

    def literal(self, value) -> str:
        """A constant's text.

        Raises:
            RuntimeError: if there is none.
        """
        text = self.value_text(value)
        if text is None:
            raise RuntimeError(f"{value!r} cannot be a constant of a program")
        return text

    def value_text(self, value) -> str | None:
        """The text of a Python value, or None."""
        if isinstance(value, enum.Enum):
            return f"{self.class_name(type(value))}.{value.name}"
        if isinstance(value, (bool, int, float, str, type(None), complex, dtype_class, device_class,
                              layout, memory_format)):  # fmt: skip
            return literal(value)
        if isinstance(value, (list, tuple)):
            parts = [self.value_text(v) for v in value]
            if None in parts:
                return None
            inner = ", ".join(parts)
            if isinstance(value, list) or (value and all(type(v) is int for v in value)):
                return f"[{inner}]"
            return f"({inner},)" if len(parts) == 1 else f"({inner})"
        if inspect.isfunction(value) or isinstance(value, ScriptFunction):
            from ..fx import _targets

            path = _targets.public_path(value)
            if path is None:
                return self.adopt(value) if isinstance(value, ScriptFunction) else self.function(value)
        return None

    def reason(self, value) -> str:
        """Why a value has no type."""
        return f"Could not infer type of {type(value).__name__}"

    # --- functions

    def function(self, function) -> str:
        """The qualified name of a Python function, which is compiled."""
        if function not in self.functions:
            name = _unique(_function_name(function), self.unit.functions)
            self.functions[function] = name
            compiler = FunctionCompiler(self, function)
            made = emit_function(self.unit, compiler.compile(name.rpartition(".")[2]), name)
            made.unannotated = compiler.unannotated()
        return self.functions[function]

    def adopt(self, scripted: ScriptFunction) -> str:
        """The qualified name of a function that was compiled before."""
        if not scripted._is_traced and inspect.isfunction(scripted._original):
            return self.function(scripted._original)
        function = scripted._function
        name = function.unit.name_of(function) or scripted.qualified_name
        self.unit.include(function.unit)
        self.unit.functions.setdefault(name, function)
        return name

    def python_function(self, function) -> str:
        """The name of a function that is left to Python."""
        name = _function_name(function)
        self.unit.python[name] = function
        return name

    def prelude_function(self, namespace, name) -> str:
        """The qualified name of a function of the prelude."""
        path = f"__torch__.torch.{namespace + '.' if namespace else ''}{name}"
        if path not in self.unit.functions:
            text = _prelude.FUNCTIONS[namespace, name]
            emit_function(self.unit, text, path)
            for other in _prelude.needs(text):
                self.prelude_function(*other)
        return path

    def prelude_class(self, path) -> None:
        """Defines a class of the prelude."""
        if path not in self.unit.classes:
            define(self.unit, path, _prelude.CLASSES[path])

    # --- classes

    def class_name(self, cls: type) -> str | None:
        """The qualified name of a class, which is compiled; None for Python's own."""
        if cls in self.classes:
            return self.classes[cls]
        if cls.__module__ in ("builtins", "typing") or issubclass(cls, TensorBase):
            return None
        if issubclass(cls, Module) or issubclass(cls, Graph):
            return None
        kind = _compiled_classes.get(cls)
        if kind is None and not self.of_class:
            Program(of_class=True).class_name(cls)
            kind = _compiled_classes[cls]
        if kind is not None:
            self.unit.include(kind.unit)
            self.classes[cls] = kind.name
            return kind.name
        self.define_class(cls)
        kind = _compiled_classes[cls] = self.unit.classes[self.classes[cls]]
        kind.origin = cls
        return kind.name

    def define_class(self, cls: type) -> None:
        name = self.classes[cls] = qualified_class_name(cls, self.unit.classes)
        short = name.rpartition(".")[2]
        if issubclass(cls, enum.Enum):
            lines = [f"class {short}(Enum):"]
            lines += [f"  {m.name} = {literal(m.value)}" for m in cls]
            define(self.unit, name, "\n".join(lines) + "\n").represent(cls)
        elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
            self.named_tuple(cls, name, short)
        else:
            made = self.interface if getattr(cls, "_script_interface", False) else self.script_class
            made(cls, name, short)

    def named_tuple(self, cls, name, short):
        hints = _hints(cls)
        fields = {
            f: type_of_annotation(hints[f], self.class_name) if f in hints else Type("Tensor")
            for f in cls._fields
        }  # fmt: skip
        text = class_text(short, "NamedTuple", {k: str(v) for k, v in fields.items()}, [])
        define(self.unit, name, text).represent(cls)

    def interface(self, cls, name, short):
        """What a class declares, without bodies."""
        methods = []
        for key, function in _methods(cls).items():
            compiler = FunctionCompiler(self, function, class_name=name)
            compiler.declare()
            first = f"({compiler.self_name}"
            methods.append(compiler.header(key).replace(first, f"{first}: {name}", 1) + "  pass\n")
        define(self.unit, name, class_text(short, "Interface", {}, methods))

    def script_class(self, cls, name, short):
        """A class of Python's, as one of the program's."""
        methods: list[str] = []
        attributes = {field: type_of_annotation(note, self.class_name) or Type("Tensor")
                      for field, note in _hints(cls).items()}  # fmt: skip
        functions = _methods(cls)
        for key in sorted(functions, key=lambda k: k != "__init__"):
            function = functions[key]
            if getattr(function, "_torchscript_modifier", None) in ("IGNORE", "UNUSED"):
                continue
            compiler = FunctionCompiler(self, function, class_name=name)
            compiler.closure.setdefault(cls.__name__, cls)  # a decorator's class has no name yet
            compiler.attributes = attributes  # one for all: what __init__ sets the others read
            text = compiler.compile(key)
            first = compiler.node.args.args[0].arg
            methods.append(text.replace(f"({first}", f"({first}: {name}", 1))
        shown = {k: str(t) for k, t in attributes.items()}
        define(self.unit, name, class_text(short, "", shown, methods))

    # --- modules

    def attribute(self, module, name, value) -> str | None:
        return self.module_program(module).attribute(name, value)

    def method(self, module, name) -> str:
        """The name of a method of a submodule, which is compiled."""
        return self.module_program(module).method(name)

    def leave_to_python(self, module, name) -> None:
        self.module_program(module).python[name] = getattr(type(module), name)

    def property_call(self, owner: ModuleRef, name, declared):
        """A read of a property: a call of its getter."""
        program = self.module_program(owner.value)
        getter = program.compiled(f"property_{name}", declared.fget)
        return ast.Call(ast.Attribute(owner.node, getter, ast.Load()), [], [])

    def module_program(self, module) -> _ModuleProgram:
        if id(module) not in self.modules:
            self.modules[id(module)] = _ModuleProgram(self, module)
        return self.modules[id(module)]


def _methods(cls) -> dict:
    """The functions of a class, with its properties' by the names that programs have for them."""
    found = {}
    for name, value in vars(cls).items():
        if inspect.isfunction(value):
            found[name] = value
        elif isinstance(value, property):
            found[f"__{name}_getter"] = value.fget
            if value.fset is not None:
                found[f"__{name}_setter"] = value.fset
    return found


_compiled_classes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # -> `ClassType`


def _hints(cls):
    import typing

    try:
        return typing.get_type_hints(cls)
    except Exception:  # a name that is not there
        return dict(getattr(cls, "__annotations__", {}))


def _function_name(function):
    module = function.__module__ or "__main__"
    if module.partition(".")[0] == "ftorch":
        module = "torch" + module.removeprefix("ftorch")
    parts = [] if module == "__main__" else [
        p if p.isidentifier() else f"_{p}" for p in module.split(".")
    ]  # fmt: skip
    return ".".join(["__torch__", *parts, function.__name__])


def _unique(name, taken):
    base, n = name, 0
    while name in taken:
        name, n = f"{base}{n}", n + 1
    return name


class _ModuleProgram:
    """What is compiled of one module."""

    def __init__(self, program: Program, module: Module):
        self.program, self.module = program, module
        self.texts: dict[str, str] = {}
        self.started: set[str] = set()
        self.unannotated: dict[str, frozenset[str]] = {}
        self.returns: dict[str, Type | None] = {}  # the types of methods' results
        self.python: dict = {}
        self.hints = {}
        for cls in reversed(type(module).__mro__):
            self.hints.update(getattr(cls, "__annotations__", {}))
        self.constants = set(getattr(module, "__constants__", ()))
        if is_compiled(module):
            self.name = module._c._type.name
        else:
            self.name = qualified_class_name(type(module), program.unit.classes)
            program.unit.classes[self.name] = None  # type: ignore[assignment]  (taken)

    def declared(self, name):
        """The type that the class declares for an attribute, or None."""
        note = self.hints.get(name)
        if note is None:
            return None
        if isinstance(note, str):
            import sys
            import typing

            scope = {**vars(typing), **vars(sys.modules.get(type(self.module).__module__, typing))}
            try:
                note = eval(note, scope)
            except Exception:
                return None
        return note

    def is_constant(self, name):
        import typing

        note = self.hints.get(name)
        final = typing.get_origin(note) is typing.Final or note is typing.Final or (
            isinstance(note, str) and "Final" in note
        )
        return final or name in self.constants

    def kind(self, name, value) -> Type | None:
        """The type of an attribute, or None if it has none."""
        if isinstance(value, Attribute):
            return type_of_annotation(value.type, self.program.class_name)
        note = self.declared(name)
        found = None
        if note is not None and not self.is_constant(name):
            found = type_of_annotation(note, self.program.class_name)
        if found is None:
            found = infer(value, self.program.class_name)
        return found

    def attribute(self, name, value) -> str | None:
        """"constant", "attribute", or None where the value has no type."""
        if isinstance(value, Attribute):
            return "attribute"
        own = type(self.module).__module__.startswith("ftorch.nn")
        if self.is_constant(name) or (own and name not in ("training",)):
            if isinstance(value, (bool, int, float, str, type(None), tuple, list, dtype_class,
                                  device_class)) and (
                self.program.value_text(value) is not None
            ):
                return "constant"
        if isinstance(value, (list, tuple, dict)) and not isinstance(value, TensorBase) and not value:
            return "attribute" if self.kind(name, value) is not None else None
        if callable(value) and not isinstance(value, TensorBase):
            return None
        if value is None and self.declared(name) is None:
            return "constant"
        return "attribute" if self.kind(name, value) is not None else None

    def method(self, name) -> str:
        if is_compiled(self.module):
            return name
        function = getattr(type(self.module), name, None)
        own = self.module.__dict__.get(name)
        if own is not None:
            function = getattr(own, "__func__", own)
        written = _layers.forward_of(self.module) if name == "forward" else None
        if written is not None:
            if "forward" not in self.started:
                self.started.add("forward")
                self.texts["forward"] = written
                for other in _prelude.needs(written):
                    self.program.prelude_function(*other)
                for child in self.module.modules():
                    if child is not self.module and ".forward(" in written:
                        self.program.module_program(child).methods()
            return "forward"
        return self.compiled(name, function)

    def compiled(self, name, function) -> str:
        if name not in self.started:
            self.started.add(name)
            modifier = getattr(function, "_torchscript_modifier", None)
            if modifier == "IGNORE":
                self.python[name] = function
                return name
            compiler = FunctionCompiler(self.program, function, module=self.module)
            self.texts[name] = compiler.compile(name)
            self.unannotated[name] = compiler.unannotated()
            self.returns[name] = compiler.returns
        elif name not in self.texts and name not in self.python:
            raise RuntimeError(f"\nmethod '{name}' is called recursively. Recursive calls are not supported")
        return name

    def methods(self):
        """The methods to start from: ``forward`` and what is exported."""
        forward = type(self.module).forward
        if forward is not Module.forward and (
            getattr(forward, "_torchscript_modifier", None) not in ("UNUSED", "IGNORE")
        ):
            self.method("forward")
        for name in dir(type(self.module)):
            function = inspect.getattr_static(type(self.module), name)
            if getattr(function, "_torchscript_modifier", None) == "EXPORT":
                self.method(name)


def script_module(module: Module):
    """A `RecursiveScriptModule` of a module: its ``forward``, its exports, and what they call."""
    if is_compiled(module):
        return module
    program = Program()
    for m in module.modules():
        if not is_compiled(m):
            program.module_program(m)
    program.module_program(module).methods()
    for m in module.modules():
        if m is not module and not isinstance(m, (ParameterList, ParameterDict)) and not is_compiled(m):
            _try_methods(program.module_program(m))
    return wrap_module(Builder(program).build(module))


def _try_methods(inner: _ModuleProgram):
    """Compiles a submodule's own ``forward``: for calls from Python and later programs."""
    if "forward" in inner.started:
        return
    state = set(inner.started), dict(inner.texts)
    try:
        inner.methods()
    except Exception:  # a submodule that the program does not call need not compile
        inner.started, inner.texts = state


def script_function(function) -> ScriptFunction:
    """A `ScriptFunction` of a Python function."""
    program = Program()
    name = program.function(function)
    return ScriptFunction(program.unit.functions[name], function, function.__name__)
