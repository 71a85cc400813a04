"""The ways of calls: what a call with arguments of some types and keywords of some names comes to.

Public functions in C (``native/src/public_functions.cpp``) ask here once for each, and follow it from then on without
Python. A way is ``(kind, types, what, operands, static)``: the kind of call; the arguments' types, where a list or tuple is
``(type, *types of elements)``; the op or the view's definition; and for each operand and static argument where it comes
from: the number of an argument, ``(first, count)`` for a tuple of several, or ``(constant,)``.
"""

from __future__ import annotations

from ..tensor import TensorBase
from . import mismatch, older
from .overloads import FEW

SLOW, CALL, INPLACE, VIEW, OUT = range(5)  # as in ``public_functions.cpp``; OUT: the last operand is what is written to
# What a plain tensor's geometry answers without Python, by the number that stands for it there.
GETTERS = {"dim": 1, "ndimension": 1, "numel": 2, "nelement": 2, "size": 3, "stride": 4, "is_contiguous": 5}


def types_of(args) -> tuple:
    """The types of arguments, and of the elements of short lists; (type, None) for longer ones."""
    return tuple([
        type(a) if type(a) not in (list, tuple) else (type(a), *(map(type, a) if len(a) <= FEW else (None,))) for a in args
    ])


def slow(args):
    """The way through Python."""
    return SLOW, types_of(args), None, (), ()


def learner(name, bounds, form):
    """What finds the ways of a function of some overloads; where there is one it raises PyTorch's errors.

    Args:
        bounds: the `signatures.Bound` of each, in the order in which they are tried.
        form: "function", "method", "inplace" or "inplace function".
    """

    writing = [b for b in bounds if "out" in b.definition.forms]

    def learn(args, names):
        positional = len(args) - len(names)
        given = dict(zip(names, args[positional:]))
        kwargs = dict(given)
        out = kwargs.pop("out", None) if form == "function" else None
        if out is not None and not isinstance(out, TensorBase):
            return slow(args)
        for bound in bounds if out is None else writing:
            matched = bound.match(args[:positional], kwargs)
            if matched is None:
                if len(bounds) == 1:
                    text = mismatch.of_arguments(name, [bound.definition], form, args[:positional], given)
                    if text is not None and not older.fits(name, form, args[:positional], given):
                        raise TypeError(text)
                continue
            if not bound.is_by_type(matched):
                break
            sources = [
                (value,) if place is None else positional + names.index(place) if isinstance(place, str) else place
                for place, value in matched
            ]
            if bound.is_view:
                return VIEW, types_of(args), bound.definition, (sources[0],), tuple(sources[1:])
            operands, static = bound.sorted_by_kind(sources)
            if out is not None:
                return OUT, types_of(args), bound.op, (*operands, positional + names.index("out")), tuple(static)
            return INPLACE if form.startswith("inplace") else CALL, types_of(args), bound.op, tuple(operands), tuple(static)
        return slow(args)

    return learn


def operator_learner(op, operands, static, is_inplace=False, types=()):
    """That of an operator of one or two operands.

    Args:
        operands: where they come from.
        types: classes of the other operand that the op takes; for others the method in Python says what becomes of them.
    """
    sources = tuple([(value,) for value in static])

    def learn(args, names):
        if names or len(args) > 1 and not isinstance(args[1], types):
            return slow(args)
        return INPLACE if is_inplace else CALL, types_of(args), op, operands, sources

    return learn
