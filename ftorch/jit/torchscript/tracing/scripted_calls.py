"""Calls of compiled functions and modules in a trace: they stay calls, with their control flow."""

from __future__ import annotations

from ....eager.tensor import TensorBase
from .records import ProgramCall, Value

__all__ = ["calling"]


def calling(recorder, function, owner, args, kwargs, run):
    """Makes a call of a program's function, and records it.

    Args:
        owner: the object whose method it is, or None.
        run: makes the call.
    """
    if recorder.depth or not recorder.active:
        return run(*args, **kwargs)
    name = _name(recorder, function, owner)
    if name is None:  # a module that is no part of the traced one: its steps are recorded
        return run(*args, **kwargs)
    recorder.depth += 1
    try:
        result = run(*recorder.plain(args), **recorder.plain(kwargs))
    finally:
        recorder.depth -= 1
    several = isinstance(result, (tuple, list))
    results = list(result) if several else [result]
    if not results or not all(isinstance(r, TensorBase) for r in results):
        return result  # Python's values stay what they are
    recorder.units.append(function.unit)
    operands = [recorder.operand(a) for a in args]
    named = {k: recorder.operand(v) for k, v in kwargs.items()}
    results = [_own(recorder, r) for r in results]
    values = [recorder.bind(r, Value(function.name, frame=recorder.frame)) for r in results]
    path = None if owner is None else recorder.paths[id(owner)]
    recorder.frame.items.append(ProgramCall(name, operands, named, values, "tuple" if several else "one",
                                            effect=True, path=path))
    if not several:
        return results[0]
    return type(result)(*results) if hasattr(result, "_fields") else type(result)(results)


def _name(recorder, function, owner):
    """The function's name in its program, or the method's; None if the trace cannot reach it."""
    if owner is None:
        return function.unit.name_of(function)
    path, frame = recorder.paths.get(id(owner)), recorder.frame.path
    if path is None or frame is None or path[: len(frame)] != frame:
        return None
    return function.name


def _own(recorder, tensor):
    """A tensor that the trace does not know yet: a function may return its argument."""
    if id(tensor) not in recorder.values:
        return tensor
    recorder.depth += 1
    try:
        return tensor.detach()
    finally:
        recorder.depth -= 1
