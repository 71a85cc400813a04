"""``script``, and the functions that code which is scripted uses."""

from __future__ import annotations

import enum
import functools
import inspect
import linecache
import textwrap
import typing
import zlib

import ftorch

from ....nn import Module
from ..program.containers import ScriptDict, ScriptList
from ..program.modules import ScriptFunction, ScriptModule
from ..program.objects import Function
from ..program.services import services
from ..program.types import conforms, type_of_annotation
from ..tracing.recorder import Recorder
from . import annotations as _annotations
from . import calls
from .annotations import Attribute
from .functions import uncontained
from .recursive import Program, script_function, script_module

__all__ = [
    "Attribute", "CompilationUnit", "interface", "is_scripting", "isinstance", "script",
    "script_if_tracing", "script_method",
]

_isinstance = isinstance


def is_scripting() -> bool:
    """True where it is compiled by `script`, False in Python.

    >>> import ftorch as torch
    >>> torch.jit.is_scripting()
    False
    """
    return False


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Compiles a function, module or class, with its control flow (``torch.jit.script``).

    ``if``, ``while``, ``for``, early ``return`` and the rest of TorchScript stay in the program.
    Arguments are tensors unless annotated; what the code calls is compiled as well.

    Args:
        obj: a function; a module, whose ``forward`` and exported methods are compiled; or a class.
        example_inputs: has no effect.

    Returns:
        A `ScriptFunction` or a `RecursiveScriptModule`; classes come back as they are.

    Raises:
        OSError: the source is not there.
        RuntimeError: names are undefined, or values have no type.
        NotSupportedError: for what TorchScript does not know.

    >>> import ftorch as torch
    >>> @torch.jit.script  # doctest: +SKIP
    ... def f(x, n: int):
    ...     for i in range(n):
    ...         x = x + i
    ...     return x
    """
    if _isinstance(obj, (ScriptFunction,)) or (
        _isinstance(obj, ScriptModule) and hasattr(obj, "_c")
    ):
        return obj
    if _isinstance(obj, ScriptModule):
        return obj._script()
    if _isinstance(obj, Module):
        return script_module(obj)
    if inspect.isclass(obj):
        if issubclass(obj, Module):
            raise RuntimeError(
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, pass an "
                "instance instead"
            )
        if issubclass(obj, enum.Enum):
            return obj
        Program().class_name(obj)
        return obj
    if inspect.ismethod(obj):
        raise RuntimeError(
            "Cannot compile a method on its own: script the module, with the method marked by "
            "torch.jit.export"
        )
    if inspect.isfunction(obj):
        made = script_function(obj)
        made.__doc__ = obj.__doc__
        return made
    if type(obj) in (list, dict):
        return ScriptList(obj) if type(obj) is list else ScriptDict(obj)
    if type(obj).__module__ == "builtins":
        raise TypeError(f"{type(obj)} is a built-in class")
    raise RuntimeError(f"Could not get name of python class object: {obj!r}")


def script_method(fn):
    """Marks a method of a `ScriptModule` to be compiled."""
    return _annotations.export(fn)


def script_if_tracing(fn):
    """A function that is compiled where `trace` calls it, so that its control flow stays.

    >>> import ftorch as torch
    >>> torch.jit.script_if_tracing(lambda x: x + 1)(torch.zeros(1))
    tensor([1.])
    """

    @functools.cache
    def compiled():
        return script(fn)

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        recorder = Recorder.current
        if recorder is None or not recorder.active:
            return fn(*args, **kwargs)
        return compiled()(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def interface(obj):
    """Marks a class as the interface of script classes or modules, which declares methods."""
    if not inspect.isclass(obj):
        raise RuntimeError("interface must be applied to a class")
    obj._script_interface = True
    return obj


def isinstance(obj, target_type) -> bool:  # noqa: A001
    """Whether a value is of a type, also of one with parameters (``torch.jit.isinstance``).

    >>> import ftorch as torch
    >>> torch.jit.isinstance([1, 2], list[int])
    True
    """
    kinds = target_type if _isinstance(target_type, tuple) else (target_type,)
    for kind in kinds:
        if kind in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple):  # noqa: UP006
            raise RuntimeError(uncontained(getattr(kind, "__name__", str(kind)).capitalize()))
        found = type_of_annotation(kind)
        if found is not None and conforms(obj, found):
            return True
    return False


class CompilationUnit:
    """Functions compiled from TorchScript's text.

    >>> import ftorch as torch
    >>> unit = torch.jit.CompilationUnit("def f(x: Tensor, n: int) -> Tensor: return x * n")
    >>> unit.f(torch.ones(2), 3)
    tensor([3., 3.])
    """

    def __init__(self, lang=None, _frames_up=0):
        self._program = Program()
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang, rcb=None, _frames_up=0):
        """Adds the functions of a text."""
        import ast
        import textwrap

        source = textwrap.dedent(lang)
        for node in ast.parse(source).body:
            if not _isinstance(node, ast.FunctionDef):
                raise RuntimeError("expected a function definition")
            function = Function(node.name, node, self._program.unit)
            self._program.unit.functions[f"__torch__.{node.name}"] = function
            self._functions[node.name] = ScriptFunction(function)

    def __getattr__(self, name):
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")

    def find_function(self, name):
        """The function of a name, or None."""
        return self._functions.get(name)

    def get_functions(self):
        """All functions."""
        return list(self._functions.values())


def _calls_of_marks():
    """What calls of this module's functions are in compiled code."""
    from ... import compiler
    from . import trace

    Program.known_calls = {
        is_scripting: True, trace.is_tracing: False, compiler.is_compiling: False,
        getattr(ftorch.jit, "is_tracing", None): False,
    }
    for function, value in Program.known_calls.items():
        if function is not None:
            calls.register(function, calls.constant(value))
    calls.register(_annotations.annotate, calls.annotate)
    calls.register(isinstance, calls.checked_isinstance)


def functions_of_text(text: str, scope) -> dict:
    """{name: function} of the functions that a text defines, with its lines as their source."""
    source = textwrap.dedent(text)
    file = f"<string {zlib.crc32(source.encode()):08x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    defined: dict = {}
    exec(compile(source, file, "exec"), dict(scope), defined)
    return {name: _annotations.export(function) for name, function in defined.items()}


services.functions_of_text = functions_of_text
