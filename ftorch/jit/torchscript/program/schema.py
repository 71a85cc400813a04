"""Signatures of programs' functions: how they bind the arguments of calls from Python, and print."""

from __future__ import annotations

from typing import NamedTuple

from ....eager.tensor import TensorBase
from .casts import CastError, cast
from .types import TENSOR, Type, parse_type

__all__ = ["Argument", "Schema"]


class Argument(NamedTuple):
    """A parameter, or a result, of a function."""

    name: str
    type: Type
    default_value: object = None
    kwarg_only: bool = False
    N: int | None = None

    def has_default_value(self) -> bool:
        """Whether calls may leave it out."""
        return self.default_value is not None


class Schema:
    """A function's signature: binds and converts the arguments of a call from Python.

    Attributes:
        parameters: [(name, `Type`, the default's syntax tree or None)]; ``result``: the result's type.
        arguments, returns: the same as [`Argument`].
    """

    overload_name = ""

    def __init__(self, function):
        self.function = function
        self.name = function.name
        arguments = function.node.args
        self.parameters = []
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
        pairs = [*zip(positional, defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        for i, (a, default) in enumerate(pairs):
            if i == 0 and function.owner is not None:
                kind = Type(function.owner.name)
            else:
                kind = parse_type(a.annotation) if a.annotation is not None else TENSOR
                kind = function.unit.resolve_type(kind)
                if a.arg in function.sizes:
                    kind = Type(kind.name, kind.args, function.sizes[a.arg])
            self.parameters.append((a.arg, kind, default))
        self.keyword_only = len(arguments.kwonlyargs)
        self.unannotated = function.unannotated
        returns = function.node.returns
        self.result = function.unit.resolve_type(parse_type(returns)) if returns else TENSOR
        self._defaults: dict = {}

    @property
    def positional(self) -> int:
        """How many arguments can be given by position."""
        return len(self.parameters) - self.keyword_only

    @property
    def arguments(self) -> list[Argument]:
        return [
            Argument(n, t, None if d is None else self.default(i), i >= self.positional)
            for i, (n, t, d) in enumerate(self.parameters)
        ]

    @property
    def returns(self) -> list[Argument]:
        return [Argument("", self.result)]

    def __str__(self):
        parts = []
        for i, (name, kind, default) in enumerate(self.parameters):
            if i == self.positional:
                parts.append("*")
            text = f"{kind.shown()} {name}"
            parts.append(text if default is None else f"{text}={_shown(self.default(i))}")
        result = self.result.shown()
        result = f"({result})" if result.startswith("(") else result
        return f"{self.name}({', '.join(parts)}) -> {result}"

    def default(self, i):
        """The value of a parameter's default."""
        if i not in self._defaults:
            from .translate import evaluate

            value = evaluate(self.parameters[i][2], self.function.unit)
            if self.parameters[i][1].name == "Tuple":
                value = tuple(value)
            self._defaults[i] = value
        value = self._defaults[i]
        return list(value) if type(value) is list else value

    def bind(self, args, kwargs):
        """The arguments in order, converted.

        Raises:
            RuntimeError: if they do not fit the signature.
        """
        name = self.name
        if len(args) > self.positional:
            raise RuntimeError(
                f"{name}() takes {self.positional} positional argument(s) but {len(args)} was/were "
                f"given.  Declaration: {self}" if self.keyword_only else
                f"{name}() expected at most {len(self.parameters)} argument(s) but received "
                f"{len(args)} argument(s). Declaration: {self}"
            )
        values = []
        used = 0
        for i, (parameter, kind, default) in enumerate(self.parameters):
            if i < len(args):
                if parameter in kwargs:
                    raise RuntimeError(f"Argument '{parameter}' specified both as positional and "
                                       f"keyword argument. Schema: {self}")
                value = args[i]
            elif parameter in kwargs:
                value = kwargs[parameter]
                used += 1
            elif default is not None:
                values.append(self.default(i))
                continue
            else:
                raise RuntimeError(
                    f"{name}() is missing value for argument '{parameter}'. Declaration: {self}"
                )
            if i == 0 and self.function.owner is not None:
                values.append(value)
                continue
            try:
                values.append(cast(value, kind, self.function.unit.instance))
            except CastError as error:
                raise RuntimeError(self._mismatch(i, value, error)) from None
        if used < len(kwargs):
            unknown = next(k for k in kwargs if all(k != p[0] for p in self.parameters))
            raise RuntimeError(f"Unknown keyword argument '{unknown}' for operator '{name}'. "
                               f"Schema: {self}")
        return values

    def _mismatch(self, i, value, error):
        parameter, kind, _ = self.parameters[i]
        found = "Tensor" if isinstance(value, TensorBase) else type(value).__name__
        note = ""
        if parameter in self.unannotated:
            note = (f"Inferred '{parameter}' to be of type 'Tensor' because it was not annotated with "
                    "an explicit type.\n")
        wanted = f"{kind} (inferred)" if note else str(kind)
        return (
            f"{self.name}() Expected a value of type '{wanted}' for argument "
            f"'{parameter}' but instead found type '{found}'.\n{note}Position: {i}\nValue: {value!r}\n"
            f"Declaration: {self}\nCast error details: {error}"
        )


def _shown(value) -> str:
    """A default as PyTorch writes it: floats with 17 digits, strings in double quotes."""
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text + "." if text.lstrip("-").isdigit() else text
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(_shown, value))
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    return str(value)

