"""Programs of Python functions, classes and modules, compiled with everything that they reach."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect

from ...._alias import is_own
from ....eager.core.device import device as device_class
from ....eager.core.dtype import dtype as dtype_class
from ....eager.core.formats import layout, memory_format, qscheme
from ....eager.tensor import TensorBase
from ....fx import _targets
from ....fx.graph import Graph
from ....nn import Module, ParameterDict, ParameterList
from ....nn.parameter import is_lazy
from ..program.modules import ScriptFunction, is_compiled, wrap_module
from ..program.objects import CompilationUnitData
from ..program.places import Places
from ..program.registered import compiled_classes, keep_class, keep_function, qualified_names
from ..program.services import services
from ..program.types import Type, infer, parse_type, type_of_annotation
from . import layers, prelude
from .annotations import Attribute
from .builder import Builder
from .context import FrontendError
from .dataclass_methods import with_source
from .emit import class_text, define, emit_function, literal, qualified_class_name
from .functions import FunctionCompiler, ModuleRef

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
                              layout, memory_format, qscheme)):
            return literal(value)
        if isinstance(value, (list, tuple)):
            parts = [self.value_text(v) for v in value]
            if None in parts:
                return None
            inner = ", ".join(parts)
            if isinstance(value, list) or (parts and all(type(v) is int for v in value)):
                return f"[{inner}]"
            return f"({inner},)" if len(parts) == 1 else f"({inner})"
        if inspect.isfunction(value) or isinstance(value, ScriptFunction):
            path = _targets.public_path(value)
            if path is None:
                return self.adopt(value) if isinstance(value, ScriptFunction) else self.function(value)
        return None

    def reason(self, value) -> str:
        """Why a value has no type."""
        if isinstance(value, list) and not value:
            return "List trace inputs must have elements"
        if isinstance(value, dict) and not value:
            return "Dictionary inputs must have entries"
        return f"Could not infer type of {type(value).__name__}"

    # --- functions

    def function(self, function) -> str:
        """The qualified name of a Python function, which is compiled."""
        if function not in self.functions:
            name = _unique(function_name(function), self.unit.functions)
            self.functions[function] = name
            compiler = FunctionCompiler(self, function)
            made = emit_function(self.unit, compiler.compile(name.rpartition(".")[2]), name)
            made.unannotated, made.sizes = compiler.unannotated(), compiler.sizes
            made.places = compiler.places().attach(made.node)
        return self.functions[function]

    def public_function(self, function) -> str | None:
        """The qualified name of a function of this package that is compiled by itself; None for others."""
        path = _targets.public_path(function)
        if path is None:
            return None
        namespace, _, name = path.removeprefix("torch").removeprefix(".").rpartition(".")
        if path in ("torch.nn.functional.interpolate", "torch.nn.functional.upsample"):
            raise RuntimeError(
                f"Function __torch__.{path} cannot be directly compiled because it is overloaded. It must be used in a "
                "context of a function where its inputs can determine which overload to call."
            )
        if (namespace, name) in prelude.FUNCTIONS:
            return self.prelude_function(namespace, name)
        scope: dict = {"_public": function}
        header, given = [], []
        for i, p in enumerate(inspect.signature(function).parameters.values()):
            scope[f"_default{i}"] = p.default
            note = "" if p.annotation is p.empty else f": _note{i}"
            scope[f"_note{i}"] = p.annotation
            header.append(p.name + note + ("" if p.default is p.empty else f" = _default{i}"))
            given.append(p.name if p.default is p.empty else f"{p.name}={p.name}")
        text = f"def {name}({', '.join(header)}):\n    return _public({', '.join(given)})\n"
        return self.function(services.functions_of_text(text, scope)[name])

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
        """The name of a function that is left to Python; any other callable has that of its class."""
        python = self.unit.python
        name = function_name(function if hasattr(function, "__name__") else type(function))
        if python.get(name, function) is not function:  # closures, and instances of one class, share it
            known = (n for n, other in python.items() if other is function)
            name = next(known, None) or _unique(name, python)
        python[name] = function
        return name

    def prelude_function(self, namespace, name) -> str:
        """The qualified name of a function of the prelude."""
        path = f"__torch__.torch.{namespace + '.' if namespace else ''}{name}"
        if path not in self.unit.functions:
            text = prelude.FUNCTIONS[namespace, name]
            emit_function(self.unit, text, path)
            for other in prelude.needs(text):
                self.prelude_function(*other)
        return path

    def prelude_class(self, path) -> None:
        """Defines a class of the prelude."""
        if path not in self.unit.classes:
            define(self.unit, path, prelude.CLASSES[path])

    # --- classes

    def class_name(self, cls: type) -> str | None:
        """The qualified name of a class, which is compiled; None for Python's own."""
        if cls in self.classes:
            return self.classes[cls]
        if cls.__module__ in ("builtins", "typing") or issubclass(cls, TensorBase):
            return None
        if issubclass(cls, Module) or issubclass(cls, Graph):
            return None
        kind = compiled_classes.get(cls)
        if kind is None and not self.of_class:
            Program(of_class=True).class_name(cls)
            kind = compiled_classes[cls]
        if kind is not None:
            self.unit.include(kind.unit)
            self.classes[cls] = kind.name
            return kind.name
        self.define_class(cls)
        kind = self.unit.classes[self.classes[cls]]
        kind.origin = cls
        keep_class(cls, kind)
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
        }
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
        places: dict[str, Places] = {}
        attributes = {field: type_of_annotation(note, self.class_name) or Type("Tensor")
                      for field, note in _hints(cls).items()}
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
            places[key] = compiler.places()
        shown = {k: str(t) for k, t in attributes.items()}
        kind = define(self.unit, name, class_text(short, "", shown, methods))
        for key, found in places.items():
            kind.methods[key].places = found.attach(kind.methods[key].node)

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
    return with_source(cls, found) if dataclasses.is_dataclass(cls) else found


def _hints(cls):
    import typing

    try:
        return typing.get_type_hints(cls)
    except Exception:  # a name that is not there
        return dict(getattr(cls, "__annotations__", {}))


def function_name(function, name: str | None = None):
    """The qualified name in programs of a function of Python's."""
    name = name or function.__name__
    module = getattr(function, "__module__", None) or "__main__"
    if module.partition(".")[0] == "ftorch":
        module = "torch" + module.removeprefix("ftorch")
    parts = [] if module == "__main__" else [
        p if p.isidentifier() else f"_{p}" for p in module.split(".")
    ]
    return ".".join(["__torch__", *parts, "_lambda" if name == "<lambda>" else name])


def _unique(name, taken):
    base, n = name, 0
    while name in taken:
        name, n = f"{base}{n}", n + 1
    return name


_CALL, _HOOK = "_call_with_hooks", "_hook_"
_NONE = ("None", "NoneType")


class _ModuleProgram:
    """What is compiled of one module."""

    def __init__(self, program: Program, module: Module):
        self.program, self.module = program, module
        self.texts: dict[str, str] = {}
        self.started: set[str] = set()
        self.unannotated: dict[str, frozenset[str]] = {}
        self.sizes: dict[str, dict[str, int]] = {}
        self.places: dict[str, Places] = {}
        self.returns: dict[str, Type | None] = {}  # the types of methods' results
        self.python: dict = {}
        self.hooked: dict = {}  # the hooks that are methods, by name
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
            try:
                found = infer(value, self.program.class_name)
            except (RuntimeError, FrontendError):  # its class is no TorchScript: nobody minds until a program uses it
                return None
        return found

    def attribute(self, name, value) -> str | None:
        """"constant", "attribute", or None where the value has no type."""
        if isinstance(value, Attribute):
            return "attribute"
        own = is_own(type(self.module).__module__, "nn")
        if self.is_constant(name) or (own and name not in ("training",)):
            if isinstance(value, (bool, int, float, str, type(None), tuple, list, dtype_class,
                                  device_class)) and (
                self.program.value_text(value) is not None
            ):
                return "constant"
        if isinstance(value, (list, dict)) and not value and self.declared(name) is None:
            return None  # of what it is a list, nobody can tell
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
        written = layers.forward_of(self.module) if name == "forward" else None
        if written is not None:
            if "forward" not in self.started:
                self.started.add("forward")
                self.texts["forward"] = written
                for other in prelude.needs(written):
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
            self.unannotated[name], self.sizes[name] = compiler.unannotated(), compiler.sizes
            self.places[name] = compiler.places()
            self.returns[name] = compiler.returns
        elif name not in self.texts and name not in self.python:
            raise RuntimeError(f"\nmethod '{name}' is called recursively. Recursive calls are not supported")
        return name

    def result(self, name) -> Type | None:
        """The type of a method's result, or None where nothing says it."""
        if is_compiled(self.module):
            method = self.module._c._type.methods.get(name)
            return method.schema.result if method is not None and method.node.returns is not None else None
        if name not in self.returns and name in self.texts:  # a layer's, which is written here
            returns = ast.parse(self.texts[name]).body[0].returns  # type: ignore[attr-defined]
            self.returns[name] = None if returns is None else parse_type(returns)
        return self.returns.get(name)

    def hooks(self):
        """(names of the methods that the module's forward pre-hooks are, those of its forward hooks).

        Raises:
            RuntimeError: for a hook that cannot be compiled, or whose name a method has.
        """
        found = []
        for table, word in ((self.module._forward_pre_hooks, "Pre-hook"), (self.module._forward_hooks, "Hook")):
            names = []
            for hook in table.values():
                name, kind = getattr(hook, "__name__", type(hook).__name__), type(self.module).__name__
                if not name.isidentifier():
                    raise RuntimeError(
                        f"Expected a single top-level function: {word.lower()} {name} of module '{kind}'. Hooks of "
                        "scripted modules are functions with a name; remove the others before scripting."
                    )
                if word == "Pre-hook" and "return" not in getattr(hook, "__annotations__", {}):
                    raise RuntimeError(
                        f"Pre-hook '{name}' on module '{kind}' is missing a return annotation. Return annotations "
                        "are required, please add one.\nThis error occurred while scripting the forward pre-hook "
                        f"'{name}' on module '{kind}'. If you did not want to script this pre-hook remove it from "
                        "the original NN module before scripting."
                    )
                if name in self.started and self.hooked.get(name) is not hook:
                    raise RuntimeError(
                        f"Can't define hook: {name} on class: {self.name} because a method or hook with that name "
                        "already exists."
                    )
                self.hooked[name] = hook
                names.append(self.compiled(name, hook))
                # PyTorch's loader keeps hooks apart from methods, so what calls them needs methods of the same text.
                self.texts[f"{_HOOK}{name}"] = self.texts[name].replace(f"def {name}(", f"def {_HOOK}{name}(", 1)
            found.append(names)
        return found

    def call_name(self) -> str:
        """The method that a call of the module is: ``forward``, or where it has hooks one that calls them, too."""
        if is_compiled(self.module) or "forward" not in self.texts:
            return "forward"
        before, after = self.hooks()
        if not before and not after:
            return "forward"
        if _CALL not in self.started:
            self.started.add(_CALL)
            self.texts[_CALL] = self._call_text(before, after)
        return _CALL

    def _call_text(self, before, after):
        heads = {n: ast.parse(self.texts[n]).body[0] for n in ("forward", *before, *after)}
        parameters = heads["forward"].args.args[1:]
        notes = [ast.unparse(p.annotation) if p.annotation else "Tensor" for p in parameters]
        names = [p.arg for p in parameters]
        result = heads["forward"].returns
        inputs, lines = "_inputs0", [f"  _inputs0 = ({''.join(f'{n}, ' for n in names)})"]
        for k, name in enumerate(before, 1):
            returns = ast.unparse(heads[name].returns) if heads[name].returns else "None"
            if returns in _NONE:
                lines.append(f"  _none{k} = self.{_HOOK}{name}({inputs}, )")
                continue
            value = f"self.{_HOOK}{name}({inputs}, )"
            lines.append(f"  _inputs{k} = {value if returns.startswith('Tuple') else f'({value}, )'}")
            inputs = f"_inputs{k}"
        given = "".join(f"({inputs})[{i}], " for i in range(len(names)))
        lines.append(f"  _result0 = self.forward({given})")
        output = "_result0"
        for k, name in enumerate(after, 1):
            lines.append(f"  _result{k} = self.{_HOOK}{name}({inputs}, {output}, )")
            if heads[name].returns is not None and ast.unparse(heads[name].returns) not in _NONE:
                output, result = f"_result{k}", heads[name].returns
        returned = f" -> {ast.unparse(result)}" if result is not None else ""
        shown = "".join(f", {n}: {t}" for n, t in zip(names, notes))
        return "\n".join([f"def {_CALL}(self{shown}){returned}:", *lines, f"  return {output}"]) + "\n"

    def methods(self):
        """The methods to start from: ``forward`` and what is exported."""
        forward = type(self.module).forward
        if forward is not Module.forward and (
            getattr(forward, "_torchscript_modifier", None) not in ("UNUSED", "IGNORE")
        ):
            self.method("forward")
            self.call_name()
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
            _check_initialized(m)
            program.module_program(m)
    program.module_program(module).methods()
    for m in module.modules():
        if m is not module and not isinstance(m, (ParameterList, ParameterDict)) and not is_compiled(m):
            _try_methods(program.module_program(m))
    return wrap_module(Builder(program).build(module))


def _check_initialized(module: Module):
    """Raises: parameters or buffers have no shape yet, whose module has not been called."""
    cls = type(module)
    for kind, tensors in (("parameters", module._parameters), ("buffers", module._buffers)):
        for name, tensor in tensors.items():
            if is_lazy(tensor):
                raise RuntimeError(
                    f"'{cls.__module__}.{cls.__qualname__}' has uninitialized {kind} {name}. Did you forget "
                    "to run a forward pass?"
                )


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
    name = program.public_function(function) or program.function(function)
    made = ScriptFunction(program.unit.functions[name], function, function.__name__)
    keep_function(made, name)
    qualified_names[function] = made.qualified_name
    return made


services.script_module = script_module
