"""The capturing front end of ``torch.compile`` (``torch._dynamo``).

`compiled` says when calls are captured, `watch` and `guards` on what Python state a program depends,
`capture` how a program runs, `gradients` how it is differentiated, `lower` how it becomes XLA's.
"""

from __future__ import annotations

import importlib

from . import backends, config, exc, testing, utils
from .backends import list_backends, lookup_backend, register_backend
from .explain import ExplainOutput, explain

# These modules stand on this package.
_ABOVE = {
    "allow_in_graph": "compiler", "assume_constant_result": "compiler", "compile": "jit.compiler",
    "disable": "compiler", "is_compiling": "compiler", "reset": "compiler",
    "set_stance": "compiler", "substitute_in_graph": "compiler",
}  # fmt: skip

__all__ = [
    "ExplainOutput", "backends", "config", "disallow_in_graph", "exc", "explain", "export",
    "forbid_in_graph", "graph_break", "list_backends", "lookup_backend", "mark_dynamic", "mark_static",
    "mark_static_address", "maybe_mark_dynamic", "optimize", "optimize_assert", "register_backend",
    "replay", "reset_code_caches", "run", "testing", "utils", *_ABOVE,
]  # fmt: skip


def __getattr__(name):
    if name in _ABOVE:
        return getattr(importlib.import_module(f"ftorch.{_ABOVE[name]}"), name)
    if name == "eval_frame":
        return importlib.import_module("ftorch._dynamo.eval_frame")
    if name == "OptimizedModule":
        return importlib.import_module("ftorch._dynamo.eval_frame").OptimizedModule
    raise AttributeError(f"module 'torch._dynamo' has no attribute '{name}'")


def optimize(backend="inductor", *, nopython=False, guard_export_fn=None, guard_fail_fn=None,
             disable=False, dynamic=None, **_):  # fmt: skip
    """A decorator that compiles with a backend: the older form of ``torch.compile``."""
    from ..jit.compiler import compile

    return compile(backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend="inductor", **options):
    """`optimize` that does not fall back."""
    options.pop("nopython", None)
    return optimize(backend, nopython=True, **options)


def graph_break(msg: str = "") -> None:
    """Ends the program that is being captured: the call goes on in Python."""
    from ..eager import executor

    capture = executor.capturing()
    if capture is not None:
        capture.end(f"torch._dynamo.graph_break({msg!r})" if msg else "torch._dynamo.graph_break()")


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None) -> None:
    """Says that a size varies: from the second on, sizes share a program (`ftorch._dynamo.sharing`)."""
    _check_index(t, index)
    indices = index if isinstance(index, (list, tuple)) else (index,)
    t._dynamo_dynamic_indices = getattr(t, "_dynamo_dynamic_indices", set()) | set(indices)


def maybe_mark_dynamic(t, index) -> None:
    """See `mark_dynamic`."""
    _check_index(t, index)


def mark_unbacked(t, index, **_) -> None:
    """See `mark_dynamic`."""
    _check_index(t, index)


def mark_static(t, index=None) -> None:
    """Says that a size does not vary. Sizes are found to vary by the calls, so nothing is to be done."""


def mark_static_address(t, guard: bool = True) -> None:
    """Says that a tensor stays where it is: programs take tensors wherever they are."""


def _check_index(t, index):
    for i in index if isinstance(index, (list, tuple)) else (index,):
        if not isinstance(i, int) or not -t.dim() <= i < t.dim():
            raise AssertionError(f"a dimension of a tensor of {t.dim()} was expected, not {i!r}")


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

    from .compiled import stance

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


def export(f, *extra_args, aten_graph=False, **_):
    """A function from example arguments to (graph, guards): the older form of ``torch.export``."""
    from ..fx.experimental.proxy_tensor import make_fx

    def inner(*args, **kwargs):
        from collections import namedtuple

        result = namedtuple("ExportResult", ["graph_module", "guards"])
        return result(make_fx(lambda *a: f(*a, **kwargs))(*args), [])

    return inner(*extra_args) if extra_args else inner
