"""Frame inspection: the public call that is being made, found by the code objects on the stack, with its arguments."""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

from ..core import places
from ..core.public_functions import public_of, python_of
from ..tensor import TensorBase
from . import call_sites, watched_methods

# Frames between a public function and the hooks below; others are the engine's own doings.
_PASSED = {
    places.own_file(f"eager/{name}")
    for name in ("call/op.py", "dispatch/levels.py", "dispatch/overrides.py", "autograd/views.py",
                 "bindings/signatures.py", "tensor_api/methods.py", "tensor_api/indexing.py")
}
MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "<required>"})()  # a required argument that a call lacks
public: dict[int, object] = {}  # id of a code object -> the public function made of it
known_as: dict[object, object] = {}  # the function in Python behind a public one -> the public function that it is known as


def register(function, as_=None):
    """Remembers a public function (or what it is known as) by its code."""
    public[id(function.__code__)] = known_as[function] = function if as_ is None else as_


def own_code(function, name):
    """Gives a closure a code object of its own, so that `register` can tell it from its siblings."""
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)


def called(frame=None):
    """(public function, args, kwargs) of the call that is being made, or None for the engine's own.

    Args:
        frame: where to begin; by default the caller's caller.
    """
    frame = frame or sys._getframe(2)
    while frame is not None:
        function = public.get(id(frame.f_code))
        if function is not None:
            return (public_of(function), *_arguments(frame))
        name = frame.f_code.co_filename
        if name not in _PASSED and not name.startswith(places.GENERATED):  # a remembered overload's call
            return None
        frame = frame.f_back
    return None


def own_signature(function) -> inspect.Signature:
    """The signature of a public function's code, also where the one that is shown is PyTorch's."""
    function = watched_methods.original(python_of(function))
    if "__signature__" not in function.__dict__:
        return inspect.signature(function)
    declared = function.__dict__.get("__wrapped__")
    if declared is None:
        declared = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        declared.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(declared)


def _same(value, default):
    """Whether a value is a parameter's default; tensors are none."""
    return not isinstance(value, TensorBase) and value.__class__ is default.__class__ and value == default


def _positional(written, names, is_default) -> int | None:
    """How many of a function's parameters its call gave by position; None where the call does not say.

    Args:
        written: what `call_sites.keywords` says of it.
    """
    if written is None:
        return None
    count, by_name = written
    last = max((i + 1 for i, name in enumerate(names) if name not in by_name and not is_default[i]), default=0)
    is_method = names[:1] == ("self",)  # whose object the instruction may not count
    if last > count + is_method:
        return None  # somebody in between gave more: `functools.partial`
    return last if is_method or count > len(names) else max(last, count)


def _arguments(frame):
    """The arguments of a running function: positional ones as such, others where not the default."""
    code, scope = frame.f_code, frame.f_locals
    names = code.co_varnames
    count, keyword_only = code.co_argcount, code.co_kwonlyargcount
    function = public[id(code)]
    given = {
        p.name: p.default for p in own_signature(function).parameters.values()
    } if code.co_name == getattr(function, "__name__", None) else {}
    missing = [i for i, name in enumerate(names[: count + keyword_only]) if scope[name] is MISSING]
    scope_of = names[: count + keyword_only]
    is_default = [
        i in missing or name in given and (scope[name] is given[name] or _same(scope[name], given[name]))
        for i, name in enumerate(scope_of)
    ]
    written = call_sites.keywords(frame)
    positional = _positional(written, names[:count], is_default)
    if positional is None:  # as far as one can tell: those without a default
        empty = inspect.Parameter.empty
        positional = next((i for i in range(count) if given.get(names[i], empty) is not empty), count)
    positional = min([positional, *missing])
    args = [scope[name] for name in names[:positional]]
    kwargs = {name: scope[name] for i, name in enumerate(scope_of) if i >= positional and not is_default[i]}
    rest = count + keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        args.extend(scope[names[rest]])
        rest += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(scope[names[rest]])
        if code.co_flags & inspect.CO_VARARGS and scope.get("out") is not None:
            kwargs["out"] = scope["out"]
    if written is not None and len(kwargs) > 1:  # in the order in which they were written
        kwargs = {name: kwargs[name] for name in dict.fromkeys((*written[1], *kwargs)) if name in kwargs}
    return tuple(args), kwargs
