"""Calls of compiled functions and modules in a trace: they stay calls, with their control flow."""

from __future__ import annotations

from ....eager.call.op import hooks
from ....eager.core.device import device as device_class
from ....eager.tensor import TensorBase
from .recorder import Recorder
from .records import ProgramCall, Value, plain

__all__ = ["applying", "calling"]


def calling(recorder, function, owner, args, kwargs, run):
    """Makes a call of a program's function, and records it.

    Args:
        owner: the object whose method it is, or None.
        run: makes the call.
    """
    if recorder.is_idle:
        return run(*args, **kwargs)
    name = _name(recorder, function, owner)
    if name is None:  # a module that is no part of the traced one: its steps are recorded
        return run(*args, **kwargs)
    recorder.depth += 1
    try:
        result = run(*plain(args), **plain(kwargs))
    finally:
        recorder.depth -= 1
    recorder.units.append(function.unit)
    operands = [recorder.operand(a) for a in args]
    named = {k: recorder.operand(v) for k, v in kwargs.items()}
    values: list[Value] = []
    result, made = _bound(recorder, function.name, result, values)
    path = None if owner is None else recorder.paths[id(owner)]
    recorder.frame.items.append(ProgramCall(name, operands, named, values, effect=True, path=path, made=made))
    return result


def _custom_function(cls, args, kwargs):
    recorder = Recorder.current
    if (
        recorder is None or recorder.is_idle or cls.__module__.partition(".")[0] in _OWN
        or not any(isinstance(a, TensorBase) for a in args)
    ):
        return _before(cls, args, kwargs)
    return True, applying(recorder, cls, args, kwargs)


_OWN = ("ftorch", "torch")  # whose functions are made of ops
_before, hooks.custom_function = hooks.custom_function, _custom_function


def applying(recorder, cls, args, kwargs):
    """Applies an ``autograd.Function``, and records it as a call that is left to Python: its backward is its own.

    What is no tensor is for all calls what it is in the example.
    """
    args = plain(args)
    operands = [recorder.of(a) for a in args if isinstance(a, TensorBase)]
    recorder.depth += 1
    try:
        result = cls.apply(*args, **kwargs)
    finally:
        recorder.depth -= 1
    values: list[Value] = []
    result, made = _bound(recorder, cls.__name__, result, values)
    given = [None if isinstance(a, TensorBase) else (a,) for a in args]

    def apply(*tensors):
        left = iter(tensors)
        return cls.apply(*(next(left) if a is None else a[0] for a in given), **kwargs)

    apply.constants = tuple(a[0] for a in given if a is not None)  # type: ignore[attr-defined]
    apply.result_count = len(made) if isinstance(made, list) else None  # type: ignore[attr-defined]
    name = f"__torch__.python_{len(recorder.units)}.{cls.__name__}"
    recorder.units.append((name, apply))
    recorder.frame.items.append(ProgramCall(name, operands, {}, values, effect=True, made=made))
    return result


# What a trace has no values for: the kinds in PyTorch's words.
_KINDS = {
    type(None): "None", int: "Int", float: "Double", complex: "ComplexDouble", bool: "Bool", str: "String",
    device_class: "Device",
}


def _bound(recorder, name, result, values):
    """What a call gives, with tensors that the trace knows; the same with their values, which ``values`` gets.

    Raises:
        RuntimeError: for numbers, texts and None: what they are for other inputs would be lost.
    """
    if isinstance(result, TensorBase):
        result = _own(recorder, result)
        values.append(recorder.bind(result, Value(name, frame=recorder.frame)))
        return result, values[-1]
    if isinstance(result, dict):
        parts = {k: _bound(recorder, name, v, values) for k, v in result.items()}
        return {k: p[0] for k, p in parts.items()}, {k: p[1] for k, p in parts.items()}
    if isinstance(result, (tuple, list)):
        pairs = [_bound(recorder, name, r, values) for r in result]
        kind, tensors = type(result), [p[0] for p in pairs]
        return kind(*tensors) if hasattr(kind, "_fields") else kind(tensors), [p[1] for p in pairs]
    if type(result) in _KINDS:
        raise RuntimeError(f"Tracer cannot set value trace for type {_KINDS[type(result)]}. Supported types are tensor, "
                           "tensor list, and tuple of tensors.")
    return result, None  # an object of a class of the program: as it was in the example


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
