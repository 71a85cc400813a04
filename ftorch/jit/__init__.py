"""TorchScript (``script``, ``trace``, ``load``, ``save``) and captured programs (``compile``)."""

from ..eager.executor import stats
from ._annotations import Final, annotate, export, ignore, unused
from ._builtins import Future, RaisedError as Error, fork, wait
from ._module import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
)
from ._serialization import load, save
from .compiler import compile, is_compiling


def is_scripting() -> bool:
    """Whether code is being compiled by ``jit.script``: never, in eager code."""
    return False


def is_tracing() -> bool:
    """Whether code is being captured."""
    return is_compiling()


__all__ = [
    "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "TopLevelTracedModule", "TracedModule", "annotate", "compile", "export", "fork", "ignore",
    "is_compiling", "is_scripting", "is_tracing", "load", "save", "stats", "unused", "wait",
]  # fmt: skip
