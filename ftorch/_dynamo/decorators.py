"""What code says to ``torch.compile`` (``torch._dynamo.decorators``)."""

from __future__ import annotations

import contextlib
import importlib
import sys

from .._serialization.pickling import _DimRange  # noqa: F401
from ..eager.runtime import capture_trace
from ..eager.tensor import TensorBase
from . import config

# These modules stand on this package.
_ABOVE = {
    "allow_in_graph": "compiler", "assume_constant_result": "compiler", "disable": "compiler",
    "set_stance": "compiler", "substitute_in_graph": "compiler",
    **dict.fromkeys(("disallow_in_graph", "forbid_in_graph", "graph_break", "run"), "_dynamo"),
}


def __getattr__(name):
    if name in _ABOVE:
        return getattr(importlib.import_module(f"ftorch.{_ABOVE[name]}"), name)
    raise AttributeError(f"module 'torch._dynamo.decorators' has no attribute '{name}'")


# --- sizes


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None) -> None:
    """Says that a size varies: from the second on, sizes share a program (`ftorch.eager.dynamic_shapes.families`).

    Raises:
        AssertionError: ``index`` is neither a number nor a list of some.

    >>> import ftorch as torch
    >>> x = torch.ones(4)
    >>> torch._dynamo.mark_dynamic(x, 0)
    >>> x._dynamo_dynamic_indices
    {0}
    """
    t._dynamo_dynamic_indices = getattr(t, "_dynamo_dynamic_indices", set()) | _indices(index)


def maybe_mark_dynamic(t, index) -> None:
    """`mark_dynamic`, where it is no error if the size turns out to be needed. Here it never is one."""
    t._dynamo_weak_dynamic_indices = getattr(t, "_dynamo_weak_dynamic_indices", set()) | _indices(index)


def mark_unbacked(t, index, hint_override=None, strict=False, specialize_on=None, shape_id=None,
                  min=None, max=None) -> None:
    """See `mark_dynamic`."""
    t._dynamo_unbacked_indices = getattr(t, "_dynamo_unbacked_indices", set()) | _indices(index)


def mark_static(t, index=None):
    """Says that a size (or, of a class of modules, each attribute) does not vary.

    Sizes are found to vary by the calls: one that does not has a program of its own anyway.

    Raises:
        TypeError: for what is neither a tensor nor a class.
    """
    if isinstance(t, type):
        return t
    if not isinstance(t, TensorBase):
        raise TypeError(f"mark_static expects a tensor/nn.Module class but received {type(t)}")
    if index is None:
        index = range(t.dim())
    t._dynamo_static_indices = getattr(t, "_dynamo_static_indices", set()) | _indices(tuple(index) if (
        isinstance(index, range)) else index)
    return None


def mark_static_address(t, guard: bool = False) -> None:
    """Says that a tensor stays where it is: programs take tensors wherever they are.

    Raises:
        TypeError: for what is no tensor.
    """
    if not isinstance(t, TensorBase):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"


def _indices(index):
    if isinstance(index, int):
        return {index}
    if not isinstance(index, (list, tuple)):
        raise AssertionError(f"Expected index to be int, list, or tuple, got {type(index)}")
    return set().union(*map(_indices, index))


# --- functions


def nonstrict_trace(traceable_fn):
    """A function that is captured by running it. So is every function here.

    Raises:
        AssertionError: for what cannot be called.
    """
    if not callable(traceable_fn):
        raise AssertionError("nonstrict_trace expects a callable")
    return traceable_fn


def dont_skip_tracing(fn=None):
    """The function as it is: no function is skipped for where it was written."""
    return (lambda f: f) if fn is None else fn


def skip_frame(msg: str = "") -> None:
    """Ends the capture: the function that calls this runs in Python."""
    _end(f"torch._dynamo.skip_frame({msg!r})")


def step_unsupported(msg: str = "") -> None:
    """See `skip_frame`."""
    _end(f"torch._dynamo.step_unsupported({msg!r})")


def _end(reason):
    capture = capture_trace.capturing()
    if capture is not None:
        capture.end(reason)


def is_dynamo_disable_recursive(method) -> bool | None:
    """Whether a function was given to ``torch.compiler.disable``; None if not."""
    return getattr(method, "_torchdynamo_disable_recursive", None)


class error_on_graph_break(contextlib.ContextDecorator):
    """Within (if true), a break raises as with ``fullgraph=True``.

    >>> import ftorch as torch
    >>> @torch.compile
    ... def f(x):
    ...     with torch._dynamo.error_on_graph_break(True):
    ...         torch._dynamo.graph_break()
    ...     return x + 1
    >>> f(torch.ones(1))
    Traceback (most recent call last):
    ftorch._dynamo.exc.Unsupported: Call to `torch._dynamo.graph_break()`
    ...
    """

    def __init__(self, error_on_graph_break: bool):
        self.error = error_on_graph_break

    def __enter__(self):
        self._capture = capture_trace.capturing()
        if self._capture is not None:
            self._before, self._capture.breaks_raise = self._capture.breaks_raise, self.error
        return self

    def __exit__(self, *_):
        if self._capture is not None:
            self._capture.breaks_raise = self._before


def patch_dynamo_config(arg1=None, arg2=None, **kwargs):
    """Settings of `torch._dynamo.config` for a while, in the function that calls this or is decorated."""
    return config.patch(arg1, arg2, **kwargs)


class _Unchanged(contextlib.ContextDecorator):
    """A ``with`` block, or a decorator, that changes nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def disable_nested_graph_breaks(fn=None):
    """Where programs end does not depend on how deep functions are."""
    return _Unchanged() if fn is None else fn


def set_recursion_limit(limit: int) -> None:
    """Python's recursion limit is the one that counts.

    Raises:
        ValueError: unless it is positive.
    """
    if limit < 1:
        raise ValueError("recursion limit must be greater or equal than 1")
    sys.setrecursionlimit(limit)


__all__ = [
    "disable_nested_graph_breaks", "dont_skip_tracing", "error_on_graph_break",
    "is_dynamo_disable_recursive", "mark_dynamic", "mark_static", "mark_static_address",
    "mark_unbacked", "maybe_mark_dynamic", "nonstrict_trace", "patch_dynamo_config",
    "set_recursion_limit", "skip_frame", "step_unsupported", *_ABOVE,
]
