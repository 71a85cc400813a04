"""The capturing front end of ``torch.compile`` (``torch._dynamo``).

This is PyTorch's face of `ftorch.jit`: settings, decorators, backends, exceptions. `ftorch.jit.compiled_function`
says when calls are captured, `ftorch.jit.capture` how they become programs.
"""

from __future__ import annotations

import importlib

from ..jit.graphs.explain import ExplainOutput, explain
from . import backends, config, decorators, exc, testing, utils
from .backends import list_backends, lookup_backend, register_backend
from .decorators import (
    disable_nested_graph_breaks,
    dont_skip_tracing,
    error_on_graph_break,
    is_dynamo_disable_recursive,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    nonstrict_trace,
    patch_dynamo_config,
    set_recursion_limit,
    skip_frame,
    step_unsupported,
)

# These modules stand on this package.
_ABOVE = {
    "allow_in_graph": "compiler", "assume_constant_result": "compiler", "compile": "jit.compiler",
    "disable": "compiler", "is_compiling": "compiler", "reset": "compiler",
    "set_stance": "compiler", "substitute_in_graph": "compiler",
}

__all__ = [
    "ExplainOutput", "backends", "config", "decorators", "disable_nested_graph_breaks",
    "disallow_in_graph", "dont_skip_tracing", "error_on_graph_break", "exc", "explain", "export",
    "forbid_in_graph", "graph_break", "is_dynamo_disable_recursive", "list_backends",
    "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "nonstrict_trace", "optimize", "optimize_assert", "patch_dynamo_config", "register_backend",
    "replay", "reset_code_caches", "run", "set_recursion_limit", "skip_frame", "step_unsupported",
    "testing", "utils", *_ABOVE,
]


def __getattr__(name):
    if name in _ABOVE:
        return getattr(importlib.import_module(f"ftorch.{_ABOVE[name]}"), name)
    if name in ("compiled_autograd", "eval_frame"):
        return importlib.import_module(f"ftorch._dynamo.{name}")
    if name in ("export", "ExportResult"):
        return getattr(importlib.import_module("ftorch._dynamo._exporting"), name)
    if name in ("OptimizedModule", "is_dynamo_supported", "is_inductor_supported"):
        return getattr(importlib.import_module("ftorch._dynamo.eval_frame"), name)
    raise AttributeError(f"module 'torch._dynamo' has no attribute '{name}'")


def optimize(backend="inductor", *, nopython=False, guard_export_fn=None, guard_fail_fn=None,
             disable=False, dynamic=None, **_):
    """A decorator that compiles with a backend: the older form of ``torch.compile``.

    Raises:
        InvalidBackend: nobody registered the backend's name.
    """
    from ..jit.compiler import compile

    backends.find(backend)
    return compile(backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend="inductor", **options):
    """`optimize` that does not fall back."""
    options.pop("nopython", None)
    return optimize(backend, nopython=True, **options)


def graph_break(msg: str = "") -> None:
    """Ends the program that is being captured: the call goes on in Python."""
    from ..eager.runtime import capture_trace

    capture = capture_trace.capturing()
    if capture is not None:
        capture.end(f"torch._dynamo.graph_break({msg!r})" if msg else "torch._dynamo.graph_break()")


def disallow_in_graph(fn):
    """A function that ends a program that is being captured."""
    from ..compiler import disable

    return disable(fn)


def forbid_in_graph(fn):
    """A function that must not be captured: with ``fullgraph=True`` a call raises."""
    from ..compiler import disable

    return disable(fn, reason="forbidden in graphs")


def run(fn=None):
    """A compiled function that captures nothing new."""
    import functools

    from ..jit.compiled_function import stance

    def wrapper(*args, **kwargs):
        outer, stance.name = stance.name, "eager_on_recompile"
        try:
            return fn(*args, **kwargs)
        finally:
            stance.name = outer

    return run if fn is None else functools.wraps(fn)(wrapper)


def replay(filename: str) -> None:
    """Captures are not recorded in files.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(f"{filename} is no record of a capture")


def reset_code_caches() -> None:
    """See `reset`."""
    from ..compiler import reset

    reset()
