"""What compiled code is told and asked (``torch.compiler``)."""

from __future__ import annotations

import contextlib
import functools

from ._dynamo.backends import list_backends as _list_backends
from ._dynamo.compiled import Compiled, is_compiling
from ._dynamo.compiled import stance as _stance
from .eager import executor
from .jit.compiler import compile

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
    "substitute_in_graph",
]  # fmt: skip


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
        capture = executor.capturing()
        if capture is not None:
            name = getattr(fn, "__qualname__", fn)
            capture.end(f"{name} is disabled ({reason})" if reason else f"{name} is disabled")
            capture.flush()
        return fn(*args, **kwargs)

    function._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
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
        with executor.outside_capture():
            return fn(*args, **kwargs)

    return function


def is_dynamo_compiling() -> bool:
    """Whether code is being captured: see `is_compiling`."""
    return is_compiling()


def is_exporting() -> bool:
    """Whether code is being exported."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Does nothing: programs do not share memory from one run to the next."""


def list_backends(exclude_tags=("debug", "experimental")) -> list[str]:
    """The backends of ``torch.compile``."""
    return _list_backends(exclude_tags)


def reset() -> None:
    """Forgets every captured program; functions are captured anew when next called."""
    from ._dynamo import logs

    logs._warned.clear()
    for compiled in list(Compiled.instances):
        compiled.reset()


_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class set_stance(contextlib.ContextDecorator):
    """How compiled functions behave from now on, or within a ``with`` block, or a function.

    Args:
        stance: "default"; "force_eager": as if not compiled; "eager_on_recompile": calls that no
            program stands for run in Python; "fail_on_recompile": they raise.

    Raises:
        RuntimeError: for other stances.

    >>> import ftorch as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     double(torch.ones(1))
    tensor([2.])
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self._new, self._before = stance, _stance.name
        _stance.name = stance

    def __enter__(self):
        _stance.name = self._new
        return self

    def __exit__(self, *_):
        _stance.name = self._before

    def __call__(self, func):
        _stance.name = self._before  # as a decorator it counts during calls only
        return super().__call__(func)
