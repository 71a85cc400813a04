"""The names that compiled programs see: attribute access, conversions, TorchScript's builtins."""

from __future__ import annotations

from . import builtins, objects
from .aten import operator_named
from .autocasts import context_of
from .builtins import conversions
from .objects import ScriptObject
from .types import Type

__all__ = ["ENVIRONMENT"]


def _convert(value, kind: Type):
    """``annotate``: implicit conversions of one-element tensors to numbers, and of lists."""
    if kind.name in ("int", "float", "bool", "complex") and hasattr(value, "item"):
        return value.item()
    return value


def _annotated(value, kind: Type):
    if kind.name == "List" and type(value) is tuple:
        return list(value)
    return value


def _uninitialized(*_):
    return None


def _with(context):
    if not isinstance(context, ScriptObject):
        raise RuntimeError("with: not a context manager of the program")  # noqa: TRY004
    return context_of(context, context._type.name) or context


def _range(*args):
    return range(*map(int, args))


def _assert(condition, message=""):
    if not condition:
        raise builtins.RaisedError(f"AssertionError: {message}")


def _list(x=()):
    return list(x)


ENVIRONMENT = {
    "_get": objects.get_attribute, "_set": objects.set_attribute, "_call": objects.call_method,
    "_isinstance": objects.isinstance_of, "_convert": _convert, "_annotated": _annotated,
    "_with": _with, "_assert": _assert, "_raise": builtins.raise_exception,
    "_fork": builtins.forked, "_wait": builtins.awaited, "_pow": operator_named("pow"),
    "__builtins__": {},
}
ENVIRONMENT.update({f"_f_{k}": v for k, v in conversions.items()})
ENVIRONMENT.update(
    _f_range=_range,
    _f_enumerate=enumerate,
    _f_zip=zip,
    _f_reversed=lambda x: list(reversed(x)),
    _f_list=_list,
    _f_dict=builtins.SCALAR["dict"],
    _f_print=builtins.SCALAR["_print"],
    _f_divmod=divmod,
    _f_pow=operator_named("pow"),
    _f_sorted=lambda x: sorted(x),
    _f_ord=ord,
    _f_chr=chr,
    _f_hex=hex,
    _f_oct=oct,
    _f_bin=bin,
    _f_hash=hash,
    _f_round=operator_named("round"),
    _f_min=operator_named("min"),
    _f_max=operator_named("max"),
    _f_abs=operator_named("abs"),
    _f_sum=operator_named("sum"),
    _f_all=operator_named("all"),
    _f_any=operator_named("any"),
    _f_len=len,
    _f_tuple=tuple,
)
