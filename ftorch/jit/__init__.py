"""TorchScript (``script``, ``trace``, ``load``, ``save``) and captured programs (``compile``)."""

from .._submodules import on_demand as _on_demand
from ..eager.runtime.executor import stats
from . import annotations
from .compiler import compile, is_compiling
from .torchscript.files.serialization import load, save
from .torchscript.freeze import freeze, optimize_for_inference, run_frozen_optimizations
from .torchscript.frontend import script as _script
from .torchscript.frontend.annotations import (
    Final,
    ScriptWarning,
    _overload,
    _overload_method,
    annotate,
    export,
    ignore,
    unused,
)
from .torchscript.frontend.script import (
    Attribute,
    CompilationUnit,
    interface,
    is_scripting,
    isinstance,
    script,
    script_if_tracing,
    script_method,
)
from .torchscript.frontend.trace import (
    TracerWarning,
    TracingCheckError,
    _get_trace_graph,  # noqa: F401
    is_tracing,
    trace,
    trace_module,
)
from .torchscript.graph import graph as _graph  # noqa: F401  (fills a slot of programs' services)
from .torchscript.program.builtins import Future, fork, wait
from .torchscript.program.builtins import RaisedError as Error
from .torchscript.program.modules import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
)
from .torchscript.settings import (
    enable_onednn_fusion,
    export_opnames,
    fuser,
    last_executed_optimized_graph,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    strict_fusion,
)

_script._calls_of_marks()

_isinstance, _fork, _wait, _set_fusion_strategy = isinstance, fork, wait, set_fusion_strategy

_script_if_tracing = script_if_tracing  # the name that torchvision imports


def _unwrap_optional(x):
    """``x``. Raises AssertionError if it is None. In scripts: its type without None."""
    assert x is not None, "Unwrapping null optional"
    return x


def _unique_state_dict(module, keep_vars=False):
    """The module's state, of each tensor under the first of its names."""
    found, seen = {}, set()
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            found[name] = value if keep_vars else value.detach()
    return found



__getattr__ = _on_demand(globals(), "_recursive _state frontend")

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "_overload",
    "_overload_method",
    "annotate",
    "annotations",
    "compile",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_compiling",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "last_executed_optimized_graph",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "stats",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]
