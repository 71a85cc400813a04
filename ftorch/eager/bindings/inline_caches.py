"""Inline caches: what a call with arguments of some types and keywords of some names comes to.

Public functions in C (``native/src/recording/public_functions.cpp``) ask here once for each, and keep the answer. A cache entry
is ``(kind, types, what, operands, static)``: the kind of call; the arguments' types, where a list or tuple is
``(type, *types of elements)``; the op or the view's definition; and for each operand and static argument where it comes
from: the number of an argument, ``(first, count)`` for a tuple of several, or ``(constant,)``.

Where a class of tensors has a say (``__torch_function__``), the entry says to ask it, with the arguments as they were written:
no stack has to be looked through for the call.
"""

from __future__ import annotations

from ..core.public_functions import public_of
from ..dispatch import overrides, running_calls
from ..native import codes
from ..tensor import DISPATCHING, PLAIN, Tensor, TensorBase, modes
from . import deprecated_signatures, mismatch
from .overloads import FEW

SLOW, CALL, INPLACE, VIEW, OUT, ASK = map(int, codes.Call)
# What a plain tensor's geometry answers without Python.
GETTERS = {
    name: int(codes.Getter[getter.upper()])
    for name, getter in zip(
        "dim ndimension numel nelement size stride is_contiguous".split(),
        "dim dim numel numel size stride is_contiguous".split(), strict=True,
    )
}


def types_of(args) -> tuple:
    """The types of arguments, and of the elements of short lists; (type, None) for longer ones."""
    return tuple([
        _type_of(a) if type(a) not in (list, tuple) else (type(a), *(map(_type_of, a) if len(a) <= FEW else (None,)))
        for a in args
    ])


def _type_of(value):
    """A value's type; of tensors whose class has a say `TensorBase`, or `Tensor` where they are plain ones now."""
    kind = type(value)
    if not isinstance(value, TensorBase) or kind in PLAIN or kind in DISPATCHING or not overrides.has_say(kind):
        return kind
    return TensorBase if modes.subclasses else Tensor


def _with_say(values) -> set:
    """The classes of tensors that have a say in a call."""
    return {type(v) for v in overrides.flat_arguments(values, {}) if isinstance(v, TensorBase) and overrides.asks(v)}


def _ask(args, function, is_operator=False):
    """The cache entry of a call that a class answers.

    Args:
        function: the one in Python, which overrides know.
    """
    return ASK, types_of(args), overrides.asker(public_of(running_calls.known_as[function]), is_operator), (), ()


def slow(args):
    """The cache entry of a call that goes through Python."""
    return SLOW, types_of(args), None, (), ()


def learner(name, bounds, form):
    """What finds the cache entries of a function of some overloads; where there is one it raises PyTorch's errors.

    Args:
        bounds: the `signatures.Bound` of each, in the order in which they are tried.
        form: "function", "method", "inplace" or "inplace function".
    """

    writing = [b for b in bounds if "out" in b.definition.forms]

    def learn(args, names, function):
        positional = len(args) - len(names)
        classes = _with_say(args)
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
                    if text is not None and not deprecated_signatures.fits(name, form, args[:positional], given):
                        raise TypeError(text)
                continue
            if not bound.is_by_type(matched):
                break
            if bound.definition.numbers and not any(isinstance(a, TensorBase) for a in args):  # numbers alone
                text = mismatch.of_arguments(name, [b.definition for b in bounds], form, args[:positional], given)
                if text is not None:
                    raise TypeError(text)
            if classes:
                operands = [value for _, value in matched[:1]] if bound.is_view else bound.sorted_by_kind(
                    [value for _, value in matched])[0]
                if len(classes) > 1 or not classes <= _with_say([*operands, out]):
                    return slow(args)
                return _ask(args, function)
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

    def learn(args, names, function):
        if names or len(args) > 1 and not isinstance(args[1], types):
            return slow(args)
        classes = _with_say(args)
        if classes:
            return _ask(args, function, True) if len(classes) == 1 else slow(args)
        return INPLACE if is_inplace else CALL, types_of(args), op, operands, sources

    return learn
