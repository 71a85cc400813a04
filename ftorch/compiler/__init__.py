"""What compiled code is told and asked (``torch.compiler``)."""

from __future__ import annotations

import contextlib
import functools
import sys

import numpy as np

from .._dynamo.backends import get_default_backend, set_default_backend
from .._dynamo.backends import list_backends as _list_backends
from ..eager.native.contexts import contextmanager, repeatable
from ..eager.runtime import capture_trace
from ..eager.tensor import TensorBase, modes
from ..jit.compiled_function import Compiled
from ..jit.compiled_function import stance as _stance
from ..jit.compiler import compile
from ..jit.compiling import is_capturing, is_compiling, is_exporting, not_compiling
from ..utils import _pytree as pytree
from . import config
from ._cache import load_cache_artifacts, save_cache_artifacts

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]


def disable(fn=None, recursive: bool = True, *, reason: str | None = None):
    """A function that is never part of a captured program: the caller's code runs in Python.

    >>> import ftorch as torch
    >>> @torch.compiler.disable
    ... def log(x):
    ...     print("seen", x)
    >>> log(1)
    seen 1
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, Compiled):
        return disable(fn.function, recursive, reason=reason)

    @functools.wraps(fn)
    def function(*args, **kwargs):
        capture = capture_trace.capturing()
        if capture is not None:
            capture.end(f"{fn!r} is disabled ({reason})" if reason else f"{fn!r} is disabled")
            capture.flush()
        with not_compiling():
            return fn(*args, **kwargs)

    function._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    function._torchdynamo_disable_recursive = recursive  # type: ignore[attr-defined]
    return function


def allow_in_graph(fn):
    """The function as it is: capturing records operations, so everything may be in a program."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """A decorator that gives the replacement back: functions are captured as they run."""
    return lambda traceable_fn: traceable_fn


def assume_constant_result(fn):
    """A function whose result a program takes as it was when it was captured.

    >>> import ftorch as torch
    >>> @torch.compiler.assume_constant_result
    ... def scale(): return torch.tensor(2.0).item()
    >>> torch.compile(lambda x: x * scale(), fullgraph=True)(torch.ones(1))
    tensor([2.])
    """

    @functools.wraps(fn)
    def function(*args, **kwargs):
        with capture_trace.outside_capture(), _unrecorded() as known:
            return fn(*known(args), **known(kwargs))

    return function


@contextmanager
def _unrecorded():
    """Within, no graph is made of what is called; gives a function from what is traced to its values."""
    from ..fx.experimental.proxy_tensor import Traced, TraceLevel

    def value(t):
        while isinstance(t, Traced):
            t = t._inner
        return t

    levels, functions = modes.levels, modes.function_modes
    first = next((i for i, level in enumerate(levels) if isinstance(level, TraceLevel)), len(levels))
    modes.levels, modes.function_modes = levels[:first], functions[:0]
    try:
        yield lambda given: pytree.tree_map_only(TensorBase, value, given)
    finally:
        modes.levels, modes.function_modes = levels, functions


def wrap_numpy(fn):
    """A function of tensors made of one of NumPy arrays; its results are tensors again.

    NumPy sees the values, so such a call is no part of a captured program, and has no gradient.

    >>> import ftorch as torch, numpy as np
    >>> torch.compiler.wrap_numpy(np.square)(torch.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """
    from ..eager.core import api

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        args, kwargs = pytree.tree_map_only(TensorBase, lambda t: t.numpy(), (args, kwargs))
        return pytree.tree_map(
            lambda v: api.from_numpy(np.asarray(v)) if isinstance(v, (np.ndarray, np.generic)) else v,
            fn(*args, **kwargs),
        )

    return wrapper


def nested_compile_region(fn=None, *, options=None, max_reuse_entries: int = 8, reuse_hash_fn=None):
    """Marks a function that is called again and again in a program.

    Calls are recorded one by one here, and XLA finds what is common: the function stays as it is.

    Raises:
        RuntimeError: with ``options``, which are PyTorch's own experiment.

    >>> import ftorch as torch
    >>> @torch.compiler.nested_compile_region
    ... def layer(x): return x * 2
    >>> torch.compile(lambda x: layer(layer(x)))(torch.ones(1))
    tensor([4.])
    """
    if options is not None:
        raise RuntimeError(
            "nested_compile_region config is an experimental feature for testing only."
        )
    if fn is None:
        return functools.partial(
            nested_compile_region, max_reuse_entries=max_reuse_entries, reuse_hash_fn=reuse_hash_fn
        )

    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner


# --- which guards a program keeps: for ``compile(..., options={"guard_filter_fn": ...})``


def skip_all_guards_unsafe(guard_entries):
    """Keeps no guard: a program stands for every call with such arguments, whatever else changed.

    >>> import ftorch as torch
    >>> state = {"scale": 2}
    >>> options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    >>> scaled = torch.compile(lambda x: x * state["scale"], options=options)
    >>> scaled(torch.ones(1))
    tensor([2.])
    >>> state["scale"] = 3
    >>> scaled(torch.ones(1))
    tensor([2.])
    """
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries):
    """Keeps no guard on globals."""
    return [not entry.is_global for entry in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    """Keeps no guard on modules and their attributes."""
    return [not e.orig_guard.source.is_unspecialized_nn_module() for e in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """Keeps no guard on the modules of ``torch.nn`` itself."""
    return [not e.orig_guard.source.is_unspecialized_builtin_nn_module() for e in guard_entries]


def keep_portable_guards_unsafe(guard_entries):
    """Keeps guards on tensors that are no globals."""
    return [
        entry.guard_type in ("GLOBAL_STATE", "SHAPE_ENV")
        or (entry.guard_type == "TENSOR_MATCH" and not entry.is_global)
        for entry in guard_entries
    ]


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """Keeps guards on tensors, on parameters only if asked."""
    from ..nn import Parameter

    return [
        entry.guard_type == "TENSOR_MATCH"
        and (keep_parameters or not isinstance(entry.value, Parameter))
        for entry in guard_entries
    ]


def is_dynamo_compiling() -> bool:
    """Whether a call of a compiled function is being captured: see `is_compiling`, which is also about exported modules."""
    return is_capturing()


def cudagraph_mark_step_begin() -> None:
    """Does nothing: programs do not share memory from one run to the next."""


def list_backends(exclude_tags=("debug", "experimental")) -> list[str]:
    """The backends of ``torch.compile``."""
    return _list_backends(exclude_tags)


def reset() -> None:
    """Forgets every captured program; functions are captured anew when next called."""
    from ..jit.graphs import logs

    logs._warned.clear()
    for compiled in list(Compiled.instances):
        compiled.reset()
    if compiled_autograd := sys.modules.get("ftorch._dynamo.compiled_autograd"):
        compiled_autograd._programs.clear()


_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class set_stance(contextlib.ContextDecorator):
    """How compiled functions behave from now on, or within a ``with`` block, or a function.

    Args:
        stance: "default"; "force_eager": as if not compiled; "eager_on_recompile": calls that no
            program stands for run in Python; "fail_on_recompile": they raise.
        force_backend: what calls that no program stands for are compiled with, or None.

    Raises:
        RuntimeError: for other stances, or ones but the default with a backend.

    >>> import ftorch as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     double(torch.ones(1))
    tensor([2.])
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self._new = stance, force_backend
        self._before = _stance.name, _stance.backend
        _stance.name, _stance.backend = self._new

    def __enter__(self):
        _stance.name, _stance.backend = self._new
        return self

    @repeatable
    def __exit__(self, *_):
        _stance.name, _stance.backend = self._before

    def __call__(self, func):
        _stance.name, _stance.backend = self._before  # as a decorator it counts during calls only
        return super().__call__(func)
