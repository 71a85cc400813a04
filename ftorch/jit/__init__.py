"""TorchScript (``script``, ``trace``, ``load``, ``save``) and captured programs (``compile``)."""

from ..eager.executor import stats
from ._annotations import Final, annotate, export, ignore, unused
from . import _script
from ._builtins import Future, RaisedError as Error, fork, wait
from ._module import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
)
from ._script import (
    Attribute,
    CompilationUnit,
    interface,
    is_scripting,
    isinstance,
    script,
    script_if_tracing,
    script_method,
)
from ._serialization import load, save
from ._trace import TracerWarning, TracingCheckError, is_tracing, trace, trace_module
from .compiler import compile, is_compiling


_script._calls_of_marks()

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError",
    "annotate", "compile", "export", "fork", "ignore",
    "interface", "is_compiling", "is_scripting", "is_tracing", "isinstance", "load", "save", "script",
    "script_if_tracing", "script_method", "stats", "trace", "trace_module", "unused", "wait",
]  # fmt: skip
