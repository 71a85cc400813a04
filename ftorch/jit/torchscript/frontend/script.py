"""``script``, and the functions that code which is scripted uses."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import keyword
import linecache
import sys
import textwrap
import typing
import zlib

import ftorch

from ...._old_names import place_in
from ....nn import Module
from ..deprecations import warn_switch, warn_use
from ..program.builtins import Future
from ..program.containers import ScriptDict, ScriptList
from ..program.modules import ScriptFunction, ScriptModule
from ..program.registered import compiled_function, compiling
from ..program.services import services
from ..program.types import conforms, type_of_annotation
from ..tracing.recorder import Recorder
from . import annotations as _annotations
from . import calls
from .annotations import Attribute
from .context import Source, beginning
from .context import _highlight as highlight
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
    warn_switch("script")
    if not compiling:
        return obj
    if _isinstance(obj, (ScriptFunction,)) or (
        _isinstance(obj, ScriptModule) and hasattr(obj, "_c")
    ):
        return obj
    if _isinstance(obj, ScriptModule):
        return obj._script()
    if _isinstance(obj, Module):
        return script_module(_prepared(obj, {}))
    if hasattr(obj, "__prepare_scriptable__"):
        obj = obj.__prepare_scriptable__()
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
        made = compiled_function(obj)
        if made is not None:
            return made
        made = script_function(obj)
        made.__doc__ = obj.__doc__
        return made
    if type(obj) in (list, dict):
        return ScriptList(obj) if type(obj) is list else ScriptDict(obj)
    if type(obj).__module__ == "builtins":
        raise TypeError(f"{type(obj)} is a built-in class")
    raise RuntimeError(f"Could not get name of python class object: {obj!r}")


def _prepared(module, known):
    """What is compiled in a module's place: what its ``__prepare_scriptable__`` gives, with submodules that are such, too.

    As in PyTorch, the submodules of the module itself are replaced.

    Args:
        known: {id: (module, what it became)}; modules that were replaced live on there, so that none made later has their id.
    """
    if id(module) in known:
        return known[id(module)][1]
    hook = getattr(module, "__prepare_scriptable__", None)
    made = module if hook is None else hook()
    known[id(module)] = module, made
    if not _isinstance(made, Module) or _isinstance(made, ScriptModule):
        return made
    for name, value in list(vars(made).items()):
        if name == "_modules":
            for key, child in value.items():
                if child is not None:
                    value[key] = _prepared(child, known)
        elif _isinstance(value, Module):
            vars(made)[name] = _prepared(value, known)
    return made


def script_method(fn):
    """Marks a method of a `ScriptModule` to be compiled."""
    warn_switch("script_method")
    return _annotations.export(fn) if compiling else fn


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
    warn_use("interface")
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
        if kind in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple, typing.Optional):  # noqa: UP006
            raise RuntimeError(uncontained(getattr(kind, "__name__", str(kind))))
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
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang, rcb=None, _frames_up=0):
        """Adds the functions of a text.

        Args:
            rcb: gives the value of a name that the text refers to; by default those where the method is called.

        Raises:
            RuntimeError: the text is no TorchScript, or a function of it is there already.
        """
        frame = sys._getframe(_frames_up + 1)
        scope = {**_NAMES, **frame.f_globals, **frame.f_locals} if rcb is None else {**_NAMES, **_asked(lang, rcb)}
        made = functions_of_text(lang, {**scope, "__name__": "__main__"})
        for name, function in made.items():
            if name in self._functions:
                raise RuntimeError(f"method '{name}' already defined.")
            self._program.function(function)
        for name, function in made.items():
            compiled = ScriptFunction(self._program.unit.functions[self._program.functions[function]])
            compiled._qualified = name
            self._functions[name] = compiled

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
    """{name: function} of the functions that a text defines, with its lines as their source.

    Raises:
        RuntimeError: the text has anything else, or is no Python.
    """
    source = textwrap.dedent(text)
    file = f"<string {zlib.crc32(source.encode()):08x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise RuntimeError(f"{error.msg}:\n  File \"<string>\", line {error.lineno}\n{error.text or ''}") from None
    for node in body:
        if not _isinstance(node, ast.FunctionDef):
            word = source.split("\n")[node.lineno - 1][node.col_offset :].split()[0]
            kind, length = (word, len(word)) if keyword.iskeyword(word) else ("ident", 1)
            place = Source(source)
            place.file = "<string>"
            raise RuntimeError(f"expected def but found '{kind}' here{highlight(place, beginning(node, 0, length))}")
    names = [node.name for node in body]
    defined = dict(scope)
    exec(compile(source, file, "exec", flags=annotations.compiler_flag), defined)  # annotations are for the compiler
    return {name: _annotations.export(defined[name]) for name in names}


# What texts can name without an import.
_NAMES = {"torch": ftorch, "Tensor": ftorch.Tensor, "Future": Future,
          **{name: getattr(typing, name) for name in ("List", "Dict", "Optional", "Tuple", "Union", "Any", "NamedTuple")}}


def _asked(text: str, names) -> dict:
    """{name: value} of what a text refers to, where ``names`` knows it."""
    used = {n.id for n in ast.walk(ast.parse(textwrap.dedent(text))) if _isinstance(n, ast.Name)}
    found = {name: names(name) for name in used}
    return {name: value for name, value in found.items() if value is not None}


services.functions_of_text = functions_of_text

place_in("jit", CompilationUnit)
