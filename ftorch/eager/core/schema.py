"""ATen's schema grammar: parsed and printed without loss.

A schema such as ``sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType?
dtype=None) -> Tensor`` says what an operator takes and returns, and what it aliases or mutates.
Everything the library derives for an operator (Python signature, overloads, views, in-place forms)
is read off it.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import re
from dataclasses import dataclass, field


class SchemaError(ValueError):
    """The text is not a schema in ATen's grammar."""


@dataclass(frozen=True)
class Alias:
    """``(a)``, ``(a!)`` or ``(a -> *)``: which arguments and results share memory.

    A bare ``!`` (``Tensor! out``) is a set of its own, printed ``($0! -> )``: `after` is then the empty name.
    """

    sets: tuple[str, ...]
    is_write: bool = False
    after: tuple[str, ...] = ()

    def __str__(self):
        mark = "!" if self.is_write else ""
        after = f" -> {'|'.join(self.after)}" if self.after else ""
        return f"({'|'.join(self.sets)}{mark}{after})"


@dataclass(frozen=True)
class Type:
    """A base type with its list and optional suffixes, outermost last: ``int[2]?``, ``Tensor?[]``."""

    base: str
    suffixes: tuple[str, ...] = ()
    alias: Alias | None = None

    @property
    def is_optional(self):
        return bool(self.suffixes) and self.suffixes[-1] == "?"

    @property
    def is_list(self):
        return any(suffix != "?" for suffix in self.suffixes)

    @property
    def size(self):
        """The ``2`` of ``int[2]``, or None."""
        for suffix in self.suffixes:
            if suffix[1:-1].isdigit():
                return int(suffix[1:-1])
        return None

    def __str__(self):
        # An alias stands right behind the base type: Tensor(a!)[], Tensor(a)?.
        return f"{self.base}{self.alias or ''}{''.join(self.suffixes)}"


@dataclass(frozen=True)
class Argument:
    """One parameter: its type, name and default (as text, ``None`` where it has none)."""

    type: Type
    name: str
    default_text: str | None = None
    is_keyword_only: bool = False

    @property
    def has_default(self):
        return self.default_text is not None

    def has_default_value(self) -> bool:
        """As `torch._C.Argument` says it."""
        return self.has_default

    # What that calls these.
    kwarg_only = property(lambda self: self.is_keyword_only)
    alias_info = property(lambda self: self.type.alias)
    is_write = property(lambda self: self.type.alias is not None and self.type.alias.is_write)
    is_out = property(lambda self: self.is_write and self.is_keyword_only)

    @functools.cached_property
    def default(self):
        """The default as a Python value; enum names (``Mean``, ``long``) stay strings."""
        text = self.default_text
        if text is None:
            return None
        constants = {"True": True, "False": False, "None": None, "Mean": 1, "Sum": 2}
        if text in constants:
            return constants[text]
        if text in ("inf", "-inf", "nan"):
            return float(text)
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text
        return tuple(value) if isinstance(value, list) else value

    @functools.cached_property
    def default_value(self):
        """The default as `torch._C.Argument` has it: lists, of one number as many as the type says."""
        default, size = self.default, self.type.size
        if isinstance(default, tuple):
            return list(default)
        return [default] * size if size and self.type.is_list and isinstance(default, (int, float)) else default

    def __str__(self):
        default = "" if self.default_text is None else f"={self.default_text}"
        return f"{self.type} {self.name}{default}"


@dataclass(frozen=True)
class Return:
    """One result: its type, and its name if it has one."""

    type: Type
    name: str | None = None

    def __str__(self):
        return f"{self.type} {self.name}" if self.name else str(self.type)


@dataclass(frozen=True)
class Schema:
    """A parsed operator schema. ``str`` gives the text back."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    namespace: str = ""
    is_tuple: bool = field(default=False)  # whether the results stand in parentheses

    @property
    def is_view(self):
        """Whether a result aliases an argument that is not written to."""
        return any(r.type.alias is not None and not r.type.alias.is_write for r in self.returns)

    @property
    def overload_name(self):
        return self.overload

    @property
    def is_mutable(self):
        """Whether an argument is written to."""
        return any(a.is_write for a in self.arguments)

    @property
    def is_inplace(self):
        return bool(self.arguments) and self.arguments[0].name == "self" and self.mutates("self")

    def mutates(self, name):
        return any(
            a.name == name and a.type.alias is not None and a.type.alias.is_write
            for a in self.arguments
        )

    def __repr__(self):
        return str(self)

    def __str__(self):
        parts, seen_star = [], False
        for argument in self.arguments:
            if argument.is_keyword_only and not seen_star:
                parts.append("*")
                seen_star = True
            parts.append(str(argument))
        returns = ", ".join(map(str, self.returns))
        if self.is_tuple:
            returns = f"({returns})"
        overload = f".{self.overload}" if self.overload else ""
        prefix = f"{self.namespace}::" if self.namespace else ""
        return f"{prefix}{self.name}{overload}({', '.join(parts)}) -> {returns}"


_HEAD = re.compile(r"(?:(?P<namespace>\w+)::)?(?P<name>[\w]+)(?:\.(?P<overload>\w+))?\s*\(")
_TYPE = re.compile(
    r"(?P<base>[A-Za-z_][\w.]*)"
    r"(?:\s*\(\s*(?P<alias>[a-z0-9*|]+)\s*(?P<write>!)?(?:\s*->\s*(?P<after>[a-z0-9*|]+))?\s*\)|(?P<fresh>\s*!))?"
    r"(?P<suffixes>(?:\s*(?:\[\s*\d*\s*\]|\?))*)"
)
_SUFFIX = re.compile(r"\[\d*\]|\?")


def _split(text):
    """The comma-separated parts of ``text``, commas in brackets left alone."""
    parts, depth, start = [], 0, 0
    quote = None
    for i, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


def _parse_type(text, fresh):
    match = _TYPE.match(text)
    if not match:
        raise SchemaError(f"expected a type at {text!r}")
    alias = None
    if match["alias"]:
        after = tuple(match["after"].split("|")) if match["after"] else ()
        alias = Alias(tuple(match["alias"].split("|")), bool(match["write"]), after)
    elif match["fresh"]:
        alias = Alias((f"${next(fresh)}",), True, ("",))
    return Type(match["base"], tuple(_SUFFIX.findall("".join(match["suffixes"].split()))), alias), match.end()


def _parse_argument(text, is_keyword_only, fresh):
    type_, end = _parse_type(text, fresh)
    name, equals, default = map(str.strip, text[end:].partition("="))
    if not name.isidentifier():
        raise SchemaError(f"expected an argument name in {text!r}")
    return Argument(type_, name, default if equals else None, is_keyword_only)


def _parse_return(text, fresh):
    type_, end = _parse_type(text, fresh)
    return Return(type_, text[end:].strip() or None)


def qualified(schema: Schema) -> Schema:
    """The schema as overloads of ``torch.ops`` show it: its namespace, ``aten`` if it has none, is part of the name.

    >>> qualified(parse("relu(Tensor self) -> Tensor")).name
    'aten::relu'
    """
    return dataclasses.replace(schema, name=f"{schema.namespace or 'aten'}::{schema.name}", namespace="")


def in_place(schema: Schema) -> Schema:
    """The schema of an op's in-place form.

    >>> str(in_place(parse("aten::addr(Tensor self, Tensor vec1) -> Tensor")))
    'aten::addr_(Tensor(a!) self, Tensor vec1) -> Tensor(a!)'
    """
    written = dataclasses.replace(schema.arguments[0].type, alias=Alias(("a",), is_write=True))
    first = dataclasses.replace(schema.arguments[0], type=written)
    return dataclasses.replace(
        schema, name=f"{schema.name}_", arguments=(first, *schema.arguments[1:]), returns=(Return(written),), is_tuple=False
    )


def parse(text: str) -> Schema:
    """Parses one schema.

    Raises:
        SchemaError: if the text is not in the grammar.

    >>> schema = parse("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    >>> schema.name, schema.overload, [a.name for a in schema.arguments]
    ('sub', 'Tensor', ['self', 'other', 'alpha'])
    """
    text = text.strip()
    head = _HEAD.match(text)
    if not head:
        raise SchemaError(f"expected 'name.overload(' in {text!r}")
    close = _closing(text, head.end())
    arguments, keyword_only, fresh = [], False, itertools.count()  # numbers of alias sets without a name
    for part in _split(text[head.end() : close]):
        if part == "*":
            keyword_only = True
        else:
            arguments.append(_parse_argument(part, keyword_only, fresh))
    arrow, returns = text[close + 1 :].strip()[:2], text[close + 1 :].strip()[2:].strip()
    if arrow != "->":
        raise SchemaError(f"expected '->' in {text!r}")
    is_tuple = returns.startswith("(")
    parts = _split(returns[1:-1]) if is_tuple else [returns]
    return Schema(
        head["name"], head["overload"] or "", tuple(arguments),
        tuple(_parse_return(part, fresh) for part in parts), head["namespace"] or "", is_tuple,
    )


def _closing(text, start):
    depth = 1
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise SchemaError(f"unbalanced parentheses in {text!r}")
