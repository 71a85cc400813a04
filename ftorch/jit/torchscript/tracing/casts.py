"""What autocast does to the arguments of a traced call, as statements: the program casts wherever it is called."""

from __future__ import annotations

from ....eager.dispatch.autocast import casts_written
from ....eager.tensor import TensorBase
from .records import Statement, Value
from .source_notes import described

__all__ = ["cast_arguments"]


def cast_arguments(recorder, op: str, positional: list, named: dict, place) -> tuple[list, dict]:
    """The arguments of a call that is about to be recorded, with values of casts in the place of what is cast."""
    casts = casts_written(op, positional, named)
    if not casts:
        return positional, named

    def one(a):
        if isinstance(a, (list, tuple)):
            return [one(item) for item in a]
        dtype = casts.get(id(a)) if isinstance(a, TensorBase) else None
        if dtype is None:
            return a
        given = recorder.of(a)
        made = Value("to", frame=recorder.frame)
        made.detail = described(recorder.plainly(a.detach().to, dtype), [given])
        recorder.frame.items.append(Statement("to", [given, dtype, False, False, None], {}, [made], place=place))
        return made

    # PyTorch's compiler evaluates arguments from the last to the first.
    named = {k: one(v) for k, v in reversed(named.items())}
    return [one(a) for a in reversed(positional)][::-1], named
