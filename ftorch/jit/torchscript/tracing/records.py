"""What a trace is made of: values, statements, and frames of module calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....eager.core.geometry import Size
from ....eager.tensor import TensorBase

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = [
    "Frame", "ProgramCall", "ScopedPlace", "Statement", "TracedInt", "TracerWarning", "Value", "flat", "has_tensor",
    "parameter_names", "plain",
]


class TracerWarning(Warning):
    """A trace will not do what the function does for other inputs."""

    __module__ = "ftorch.jit"

    @staticmethod
    def ignore_lib_warnings():
        """Nothing: the library warns of nothing itself."""


class ScopedPlace(tuple):
    """The place of a call in Python, within scopes that the user has opened."""

    scope: str

    @classmethod
    def at(cls, place, scope):
        made = cls(place or ("", 0, 0))
        made.scope = scope
        return made


@dataclass(eq=False)
class Value:
    """A value of the program: the result of a statement, an input, an attribute or a constant."""

    hint: str
    kind: str = "result"  # "result", "input", "attribute", "constant", "unknown" (made in the trace)
    type: str = "Tensor"
    path: tuple[str, ...] = ()
    object: object = None
    frame: Frame | None = None
    named: str = ""  # the Python variable that it was in when it was first used
    detail: str | None = ""  # its type with the example's sizes; None: its object's when the trace is there


@dataclass(eq=False)
class Statement:
    """A call of an op."""

    op: str
    args: list
    kwargs: dict
    results: list[Value]
    shape: str = "one"  # "one", "tuple", "list", "none"
    effect: bool = False
    place: tuple | None = None  # (file, line, column) of the call in Python


@dataclass(eq=False)
class ProgramCall(Statement):
    """A call of a compiled function, ``op``, or of that method of the module that ``path`` leads to.

    ``made`` is what it gives, with values in the place of tensors: a value, or tuples, lists and dicts of such.
    """

    path: tuple[str, ...] | None = None
    made: object = None


@dataclass(eq=False)
class Frame:
    """A call of a module: what happened in it."""

    module: object = None
    path: tuple[str, ...] | None = ()
    parent: Frame | None = None
    items: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class TracedInt(int):
    """A size of a tensor, which the program computes."""

    value: Value
    recorder: Recorder

    @classmethod
    def make(cls, number, value, recorder):
        made = cls(number)
        made.value, made.recorder = value, recorder
        return made


def _traced_operator(name, op, swapped=False):
    plain = getattr(int, name)

    def apply(self, other):
        number = plain(self, other)
        if number is NotImplemented or type(number) is not int or not self.recorder.active:
            return number
        operands = [other, self] if swapped else [self, other]
        return self.recorder.number(op, operands, number)

    setattr(TracedInt, name, apply)


for _name, _op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("floordiv", "floordiv"),
                   ("mod", "remainder")):
    _traced_operator(f"__{_name}__", _op)
    _traced_operator(f"__r{_name}__", _op, swapped=True)
TracedInt.__neg__ = lambda self: self.recorder.number("neg", [self], -int(self))  # type: ignore


# --- values of calls


def plain(value):
    """Arguments with Python's own integers."""
    if type(value) is TracedInt:
        return int(value)
    if type(value) in (list, tuple, Size):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {k: plain(v) for k, v in value.items()}
    if type(value) is slice:
        return slice(*map(plain, (value.start, value.stop, value.step)))
    return value


def has_tensor(result):
    """Whether a call gave a tensor, or several values of which one is."""
    if isinstance(result, (tuple, list)):
        return any(isinstance(r, TensorBase) for r in result)
    return isinstance(result, TensorBase)


def flat(value):
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from flat(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from flat(v)
    else:
        yield value


def parameter_names(module):
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return list(code.co_varnames[1 : code.co_argcount]) if code is not None else []
