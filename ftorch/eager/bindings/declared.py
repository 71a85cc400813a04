"""Schema checks: arguments of composites that fail, checked against their ATen schemas as PyTorch's argument parser does.

`functions/schemas.txt` has a line for each overload: the forms that it exists in ("function", "method"; "out": the
function takes ``out=``) and its schema. They are asked once a call has failed, for what PyTorch says of it: no call
that works is refused, and none takes longer.
"""

from __future__ import annotations

import functools
import opcode
from typing import NamedTuple

from ..._alias import is_own
from ..core import places
from ..core.schema import Schema, parse
from . import mismatch

_RAISE = opcode.opmap["RAISE_VARARGS"]


class Declaration(NamedTuple):
    """An overload of a composite; what `mismatch` asks of an op's declaration."""

    schema: Schema
    forms: tuple[str, ...]
    numbers: tuple = ()


@functools.cache
def lines() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """{ATen's name: [(forms, schema)]}"""
    found: dict[str, list] = {}
    with open(places.own_file("eager/functions/schemas.txt"), encoding="utf-8") as file:
        for line in file:
            forms, _, schema = line.rstrip("\n").partition("|")
            found.setdefault(schema.partition("(")[0].partition(".")[0], []).append((tuple(forms.split()), schema))
    return found


class Parser:
    """What a composite takes in one of its forms.

    Args:
        name: ATen's name of it, which is also the one in messages.
        form: "function" or "method".
    """

    def __init__(self, name: str, form: str):
        self.name, self.form = name, form

    @functools.cached_property
    def _declarations(self) -> list[Declaration]:
        return [Declaration(parse(text), forms) for forms, text in lines()[self.name] if self.form in forms]

    @functools.cached_property
    def _signatures(self):
        return [mismatch.Signature.of(d, self.name, self.form) for d in self._declarations]

    def explain(self, error: Exception, function, args, kwargs):
        """In the handler of a failed call: the result, where the composite has other names for what was given by keywords.

        Raises:
            TypeError: PyTorch's words for arguments that do not fit.
            Exception: what was raised, if they fit.
        """
        if _says_itself(error):
            raise error
        given = args
        if self.form == "method":
            if not args:
                raise TypeError(f"unbound method TensorBase.{self.name}() needs an argument") from None
            given = args[1:]
        for signature in self._signatures:
            if signature.error(self.name, given, kwargs) is None:
                if not kwargs or _has_begun(function, error):
                    raise error
                values, named = signature.bound(given, kwargs)
                return function(*args[: len(args) - len(given)], *values, **named)
        text = mismatch.message(self.name, self._declarations, self.form, args, kwargs)
        if text is None:
            raise error
        raise TypeError(text) from None


def misfit(schema: str, args, kwargs=None, form="method") -> TypeError:
    """PyTorch's error for a call that does not fit a schema.

    Args:
        args: as given; of a method the tensor is the first.
    """
    declaration = Declaration(parse(schema), (form,))
    return TypeError(mismatch.message(declaration.schema.name, [declaration], form, args, kwargs or {}))


def _has_begun(function, error) -> bool:
    """Whether an error was raised inside of a function, and not where its arguments were bound."""
    where = error.__traceback__
    while where is not None and where.tb_frame.f_code is not function.__code__:
        where = where.tb_next
    return where is not None


def _says_itself(error) -> bool:
    """Whether an error was raised about values in PyTorch's words, and is not Python's or NumPy's own."""
    if type(error) in (TypeError, AttributeError):
        return False
    where = error.__traceback__
    if type(error) not in (ValueError, IndexError, KeyError) or where is None:
        return True
    while where.tb_next is not None:
        where = where.tb_next
    code = where.tb_frame.f_code
    return is_own(where.tb_frame.f_globals.get("__name__")) and code.co_code[where.tb_lasti] == _RAISE


def parser(name: str, form: str) -> Parser | None:
    """That of a composite; None where it is Python in PyTorch, too."""
    return Parser(name, form) if any(form in forms for forms, _ in lines().get(name, ())) else None
