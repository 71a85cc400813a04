"""Python signatures for ops: argument names, overloads, varargs, made once at import.

An op with one overload gets an ordinary function with PyTorch's signature, compiled from its schema.
A name with several overloads gets a function that picks one (`overloads`).
"""

from __future__ import annotations

import functools
import inspect
import keyword
import sys
import types
from typing import Any

import numpy as np

from ..autograd.views import view_call
from ..call import op as _op
from ..core import dtype as _dtype
from ..core.public_functions import python_of
from ..core.registry import SCALAR, STATIC, OpDef
from ..dispatch import overrides, running_calls
from ..dispatch.running_calls import MISSING
from ..tensor import TensorBase, from_array
from . import deprecated_signatures, inline_caches, mismatch, overloads, publishing

FUNCTIONS, INPLACE = ("function", "inplace function"), ("inplace", "inplace function")  # among the forms
_SYNONYMS = {"dim": "axis", "keepdim": "keepdims"}  # NumPy's names, which PyTorch takes as well


class Bound:
    """One overload, ready to be called with (operands, static).

    Args:
        takes_none: whether lists of tensors may hold None where the schema says so; public functions take no such lists.
    """

    __slots__ = ("definition", "op", "is_view", "parameters", "positional", "names", "takes_none")

    def __init__(self, definition: OpDef, first: str, takes_none: bool = False):
        self.takes_none = takes_none
        self.definition = definition
        self.is_view = definition.is_view
        self.op = None if definition.is_view else _op.op_named(definition.full_name)
        self.parameters = []
        for i, a in enumerate(definition.schema.arguments):
            is_self = a.name == "self" and (i == 0 or a.type.base == "Tensor")
            name = first if is_self else a.name
            self.parameters.append((name, a, definition.kinds[i]))
        self.positional = [p for p in self.parameters if not p[1].is_keyword_only]
        self.names = {p[0]: i for i, p in enumerate(self.parameters)}

    def invoke(self, values, inplace=False, out=None):
        """Calls the op with one value per schema argument."""
        if self.is_view:
            return view_call(self.definition, values[0], tuple(values[1:]))
        operands, static = self.sorted_by_kind(values)
        if out is not None:
            return _op.call_out(self.op, operands, tuple(static), out)
        if inplace:
            return _op.call_inplace(self.op, operands, tuple(static))
        return _op.call(self.op, tuple(operands), tuple(static))

    def bind(self, args, kwargs):
        """One value per schema argument, or None where the arguments do not fit."""
        matched = self.match(args, kwargs)
        return None if matched is None else [value for _, value in matched]

    def match(self, args, kwargs):
        """(where it stands, value) of each schema argument; None where the arguments do not fit.

        A place is the number of a positional argument, (first, count) of a tuple of some, the name of a keyword; None for a
        default.
        """
        parameters = self.parameters
        places: list = list(range(len(args)))
        if len(args) > len(self.positional):
            if not self._takes_varargs(args):
                return None
            fixed = len(self.positional) - 1
            places[fixed:] = [(fixed, len(args) - fixed)]
            args = (*args[:fixed], tuple(args[fixed:]))
        matched: list = [None] * len(parameters)
        for i, (place, value) in enumerate(zip(places, args)):
            kind = self.positional[i][1].type
            if (
                kind.is_list
                and i == len(self.positional) - 1
                and kind.size in (None, 1)
                and (
                    type(value) in _INTEGERS
                    or kind.base in ("int", "SymInt")
                    and isinstance(value, TensorBase)
                    and (_is_size(value) if kind.size is None else _is_int(value))
                )
            ):
                place, value = (place, 1), (value,)
            if not _fits(value, kind, self.definition, i) and not (value is None and is_nothing(self.positional[i][1])):
                return None
            matched[i] = place, value
        for name, value in kwargs.items():
            i = self.names.get(name)
            if i is None:
                i = self._synonym(name)
            if i is None or matched[i] is not None:
                return None
            argument = parameters[i][1]
            if not _fits(value, argument.type, self.definition, i) and not (value is None and is_nothing(argument)):
                return None
            matched[i] = name, value
        for i, found in enumerate(matched):
            argument = parameters[i][1]
            if found is not None and found[1] is None and is_nothing(argument):
                matched[i] = None, argument.default
            elif found is not None and argument.type.suffixes == ("?", "[]") and not self.takes_none:
                if any(v is None for v in found[1]):
                    return None
            elif found is None:
                if not argument.has_default:
                    return None
                matched[i] = None, None if parameters[i][2] == SCALAR else argument.default
        return matched

    def compiled(self, matched, args, kwargs, inplace):
        """A function for calls with arguments of the same types; None if more decides than types."""
        if any(map(keyword.iskeyword, kwargs)) or not self.is_by_type(matched):
            return None
        scope = {f"default{i}": value for i, (place, value) in enumerate(matched) if place is None}
        places = [f"default{i}" if place is None else _written(place) for i, (place, _) in enumerate(matched)]
        if self.is_view:
            scope.update(_call=view_call, _what=self.definition)
            given = f"{places[0]}, {_tuple_of(places[1:])}"
        else:
            scope.update(_call=_op.call_inplace if inplace else _op.call, _what=self.op)
            operands, static = self.sorted_by_kind(places)
            given = f"{_tuple_of(operands)}, {_tuple_of(static)}"
        names = [f"a{i}" for i in range(len(args))] + ["/"] * bool(args)
        names += ["*"] * bool(kwargs) + list(kwargs)
        source = f"lambda {', '.join(names)}: _call(_what, {given})"
        return eval(compile(source, f"<ftorch {self.definition.full_name}>", "eval"), scope)

    def is_by_type(self, matched):
        """Whether the arguments' types say that they fit, whatever their values are."""
        return all(
            _by_type(value, argument.type)
            for (place, value), (_, argument, _) in zip(matched, self.parameters) if place is not None
        )

    def sorted_by_kind(self, values):
        """(operands, static arguments) among one thing per schema argument."""
        operands, static = [], []
        for value, (_, _, kind) in zip(values, self.parameters):
            (static if kind == STATIC else operands).append(value)
        return operands, static

    def _synonym(self, name):
        for own, others in mismatch.SYNONYMS.items():
            if name in others:
                return self.names.get(own)
        return self.names.get("self") if name == "input" else self.names.get(
            "input") if name == "self" else None

    def _takes_varargs(self, args):
        if len(self.positional) < 2:
            return False
        kind = self.positional[-1][1].type
        rest = args[len(self.positional) - 1 :]
        return (
            kind.is_list
            and kind.base in ("int", "SymInt")
            and all(type(a) is int or _is_size(a) for a in rest)
        )


_INTEGERS = (int, *(np.dtype(code).type for code in np.typecodes["AllInteger"]))


def _written(place):
    """A place of `Bound.match` in terms of the positional arguments ``a0``, ``a1``, ... and the names of the others."""
    if isinstance(place, int):
        return f"a{place}"
    return place if isinstance(place, str) else _tuple_of([f"a{i}" for i in range(place[0], sum(place))])


def _is_int(value):
    return (type(value) is int) or isinstance(value, np.integer) or (
        isinstance(value, TensorBase) and not value._ftorch_geometry.shape
        and value._ftorch_geometry.dtype.category == 1
    ) or (isinstance(value, int) and not isinstance(value, bool))


def _is_size(value):
    """Whether a value can be an element of a tuple of ints: of tensors those of one element."""
    return (
        _is_int(value)
        or isinstance(value, TensorBase)
        and (value._ftorch_geometry.numel == 1 and value._ftorch_geometry.dtype.category == 1)
    )


def _is_number(value):
    return isinstance(value, (int, float, complex, np.number, np.bool_)) or (
        isinstance(value, TensorBase) and not value._ftorch_geometry.shape and not value.requires_grad
    )


def is_nothing(argument) -> bool:
    """Whether None stands for the default: that of dims is none of them."""
    return argument.default == () and argument.type.base in ("int", "SymInt") and not argument.type.is_optional


def _fits(value, kind, definition, index):
    """Whether a value can be an argument of a schema type."""
    if value is None:
        return kind.is_optional
    base = kind.base
    if kind.is_list:
        if base in ("int", "SymInt"):
            if isinstance(value, (tuple, list)):
                return all((_is_size if kind.size is None else _is_int)(v) for v in value)
            return kind.size is not None and _is_int(value)
        if base == "Tensor":
            return isinstance(value, (tuple, list)) and all(
                v is None and kind.suffixes[0] == "?" or isinstance(v, TensorBase) or mismatch.stands_for_tensor(v)
                for v in value
            )
        if base == "Scalar":
            return isinstance(value, (tuple, list)) and all(map(_is_number, value))
        return isinstance(value, (tuple, list)) or not isinstance(value, (TensorBase, str))
    if base == "Tensor":
        if isinstance(value, TensorBase):
            return True
        if mismatch.stands_for_tensor(value):
            return True
        return index in definition.numbers and isinstance(
            value, (int, float, complex, np.number, np.bool_)
        )
    if base in ("int", "SymInt"):
        return _is_int(value)
    if base == "float":
        return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if base == "bool":
        return isinstance(value, (bool, np.bool_))
    if base == "Scalar":
        return _is_number(value)
    if base == "ScalarType":
        return isinstance(value, _dtype.dtype) or value in (bool, int, float, complex)
    if base == "str":
        return isinstance(value, str)
    return True


def _by_type(value, kind):
    """Whether `_fits` finds that a value fits from its type alone (and those of its few elements)."""
    if isinstance(value, TensorBase):
        return kind.base == "Tensor"
    if isinstance(value, (list, tuple)):
        return len(value) <= overloads.FEW and not (
            kind.base != "Tensor" and any(isinstance(v, TensorBase) for v in value)
        )
    return kind.base != "ScalarType" or value is None or isinstance(value, _dtype.dtype)


# --- one overload: an ordinary function ----------------------------------------------


def _literal(argument):
    return repr(argument.default)


def _default(name, argument, kind):
    return f"_{name}" if kind == SCALAR and argument.default is not None else _literal(argument)


def _signature(bound: Bound, form: str):
    """(parameter source, names in schema order, NumPy's names of some, whether there is ``out``)."""
    parts, star = [], False
    names = [name for name, _, _ in bound.parameters]
    for name, argument, kind in bound.parameters:
        if argument.is_keyword_only and not star:
            parts.append("*")
            star = True
        parts.append(f"{name}={_default(name, argument, kind)}" if argument.has_default else name)
    synonyms = [other for own, other in _SYNONYMS.items() if own in names and other not in names]
    if synonyms and any(not a.has_default and n in _SYNONYMS for n, a, _ in bound.parameters):
        parts = _with_missing(bound)
        star = any(a.is_keyword_only for _, a, _ in bound.parameters)
    takes_out = form == "function" and "out" in bound.definition.forms
    if (takes_out or synonyms) and not star:
        parts.append("*")
    if takes_out:
        parts.append("out=None")
    parts.extend(f"{s}=None" for s in synonyms)
    return ", ".join(parts), names, synonyms, takes_out


def _with_missing(bound):
    # ``dim`` may come as ``axis``, so it and what follows must have defaults.
    parts, optional, star = [], False, False
    for name, argument, kind in bound.parameters:
        if argument.is_keyword_only and not star:
            parts.append("*")
            star = True
        optional = optional or name in _SYNONYMS
        default = _default(name, argument, kind) if argument.has_default else "_MISSING"
        parts.append(f"{name}={default}" if optional or argument.has_default else name)
    return parts


def _lenient(bound: Bound, form: str, synonyms, takes_out):
    """`_signature`'s parameters so that any arguments fit: missing ones are `MISSING`, the others ``_extra``, ``_unknown``."""
    parts = [] if form in FUNCTIONS else [bound.parameters[0][0]]
    star = False
    for name, argument, kind in bound.parameters[len(parts) :]:
        if argument.is_keyword_only and not star:
            parts.append("*_extra")
            star = True
        parts.append(f"{name}={_default(name, argument, kind) if argument.has_default else '_MISSING'}")
    parts += [] if star else ["*_extra"]
    parts += ["out=None"] * takes_out
    return ", ".join([*parts, *(f"{s}=None" for s in synonyms), "**_unknown"])


def _unfit(name):
    """For calls that `mismatch` finds nothing wrong with, which is asked first."""
    return TypeError(f"{name}() got arguments that it does not take")


def _stub(*args, **kwargs):
    return _build()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def _explain():
    """In the handler of a public function: makes the call if an older signature fits, else raises.

    What is raised is what PyTorch's parser says of the call, or else what was raised.
    """
    # Subclasses are meant for whoever traces.
    asked = type(sys.exc_info()[1]) in (TypeError, AttributeError, ValueError, IndexError, RuntimeError)
    text = mismatch.of_call(sys._getframe(1)) if asked else None
    if text is not None and (result := _older_call(sys._getframe(1))) is not NotImplemented:
        return result
    if text is None and (again := mismatch.renamed(sys._getframe(1))) is not None:
        function, args, kwargs = again
        return function(*args, **kwargs)
    if text is None:
        raise  # noqa: PLE0704
    raise TypeError(text) from None


def _older_call(frame):
    """The result of a public call that a frame belongs to, by an older signature; NotImplemented if there is none."""
    found = overrides.called(frame)
    if found is None or found[0].__name__ not in deprecated_signatures.NAMES:
        return NotImplemented
    function, args, kwargs = python_of(found[0]), *found[1:]
    name, form = function.__name__, function.__ftorch_form__
    return deprecated_signatures.call(name, form, args, kwargs, lambda: mismatch.texts(name, function.__ftorch_ops__, form))


class _Declared:
    """Stands behind a function for whoever asks for its signature: the schema's, without what takes wrong arguments."""

    def __init__(self, function, declaration):
        self._function, self._declaration = function, declaration

    @functools.cached_property
    def __signature__(self):
        return self._declaration()

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __get__(self, instance, owner=None):  # so that `inspect` takes it for a routine
        return self


def _single(bound: Bound, form: str, name: str):
    """A function with the schema's signature. Its code is compiled when it is first called or
    inspected: compiling hundreds of signatures would make up half of ftorch's import."""
    scope = {
        "_op": bound.op, "_call": _op.call, "_call_out": _op.call_out, "_view": view_call,
        "_call_inplace": _op.call_inplace, "_definition": bound.definition, "_MISSING": MISSING, "_explain": _explain,
        "_unfit": _unfit, "_name": name,
        "inf": float("inf"), "nan": float("nan"),
    }
    function = types.FunctionType(_stub.__code__, scope, name)
    function.__qualname__ = name

    def build():
        if function.__code__ is _stub.__code__:
            source, defaults = _source(bound, form, name)
            scope.update(defaults)
            exec(compile(source, f"<ftorch {bound.definition.full_name}>", "exec"), scope)
            real = scope[name]
            function.__defaults__, function.__kwdefaults__ = real.__defaults__, real.__kwdefaults__
            function.__code__ = real.__code__
            running_calls.register(function)  # by its code, which is new
        return function

    def declaration():
        shown: dict = {**scope, **_defaults(bound)}
        source = f"def {name}({_signature(bound, form)[0]}): pass"
        exec(compile(source, f"<ftorch {bound.definition.full_name}>", "exec"), shown)
        return inspect.signature(shown[name])

    scope["_build"] = build
    function.__wrapped__ = _Declared(function, declaration)  # type: ignore[attr-defined]
    return function


def _defaults(bound: Bound):
    """{name: value} of the defaults that are part of the program; other values are operands of it."""
    return {
        f"_{name}": a.default
        for name, a, kind in bound.parameters
        if kind == SCALAR and a.has_default and a.default is not None
    }


def _source(bound: Bound, form: str, name: str):
    """(the function's source, {name: value} of the defaults it mentions).

    It takes any arguments: what does not fit is refused inside, where the call can be told from its frame.
    """
    _, names, synonyms, takes_out = _signature(bound, form)
    lines = [f"def {name}({_lenient(bound, form, synonyms, takes_out)}):", "    try:"]
    lines.append("        if _extra or _unknown: raise _unfit(_name)")
    for synonym in synonyms:
        own = next(o for o, s in _SYNONYMS.items() if s == synonym)
        argument, kind = next((a, kind) for n, a, kind in bound.parameters if n == own)
        default = _default(own, argument, kind) if argument.has_default else "_MISSING"
        is_other = "is not" if default in ("None", "True", "False", "_MISSING") else "!="
        lines += [
            f"        if {synonym} is not None:", f"            if {own} {is_other} {default}: raise _unfit(_name)",
            f"            {own} = {synonym}",
        ]
    # A missing operand is refused as one of a wrong type is; a missing static argument would get as far as the kernel.
    for required in [n for n, a, kind in bound.parameters if kind == STATIC and not a.has_default]:
        lines.append(f"        if {required} is _MISSING: raise _unfit(_name)")
    for parameter in [n for n, a, _ in bound.parameters if is_nothing(a)]:
        lines.append(f"        if {parameter} is None: {parameter} = ()")
    operands, static, defaults = [], [], _defaults(bound)
    for parameter, _, kind in bound.parameters:
        if kind == STATIC:
            static.append(parameter)
        elif f"_{parameter}" in defaults:
            operands.append(f"(None if {parameter} is _{parameter} else {parameter})")
        else:
            operands.append(parameter)
    if bound.is_view:
        lines.append(f"        return _view(_definition, {names[0]}, {_tuple_of(names[1:])})")
    else:
        call = f"_op, {_tuple_of(operands)}, {_tuple_of(static)}"
        if takes_out:
            lines.append(f"        if out is not None: return _call_out({call}, out)")
        lines.append(f"        return {'_call_inplace' if form in INPLACE else '_call'}({call})")
    # Arguments that the parser refuses may fail anywhere, and have PyTorch's text whatever failed.
    lines.append("    except (TypeError, AttributeError, ValueError, IndexError, RuntimeError): return _explain()")
    return "\n".join(lines), defaults


def _tuple_of(items):
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _is_simple(bound: Bound, form: str):
    """Whether an ordinary signature does: one overload, no varargs."""
    if form in FUNCTIONS:
        return True
    return not any(
        a.type.is_list and a.type.base in ("int", "SymInt") and not a.is_keyword_only
        for _, a, _ in bound.parameters[1:]
    )


def make(name: str, definitions: list[OpDef], form: str, path: str | None = None):
    """The public function, method or in-place method of a name.

    Args:
        definitions: the overloads that exist in this form.
        form: "function", "method", "inplace", or for that as a function "inplace function".
        path: the namespace that it is a builtin function of; of methods "Tensor". None: it is Python's.
    """
    first = "input" if form in FUNCTIONS else "self"
    bounds = [Bound(d, first) for d in definitions]
    # Overloads with more specific types go first: a list of ints is never a Tensor.
    if len(bounds) == 1 and _is_simple(bounds[0], form):
        function = _single(bounds[0], form, name)
    else:
        function = overloads.overloaded(name, bounds, form)
    function.__module__ = "ftorch"
    running_calls.register(function)
    function.__doc__ = _document(name, bounds, form)
    function.__ftorch_ops__ = definitions  # type: ignore[attr-defined]
    function.__ftorch_op__ = definitions[0]  # type: ignore[attr-defined]
    function.__ftorch_form__ = form  # type: ignore[attr-defined]
    if path is None:
        return function
    learn = inline_caches.learner(name, bounds, form)
    return publishing.method(function, learn) if path == "Tensor" else publishing.function(function, path, learn)


def _document(name, bounds: list[Bound], form):
    definitions = [bound.definition for bound in bounds]
    kernel_doc = getattr(definitions[0].kernel, "__doc__", None) or ""
    calls = "\n".join(_call_line(name, bound, form) for bound in bounds)
    schemas = "\n".join(f"    {d.schema}" for d in definitions)
    return f"{kernel_doc.strip()}\n\n{calls}\n\nATen schema:\n\n{schemas}\n".lstrip()


def _call_line(name, bound: Bound, form):
    """How an overload is called: ``sum(input, dim, keepdim=False, *, dtype=None) -> Tensor``."""
    parts, star = [], False
    for i, (parameter, argument, _) in enumerate(bound.parameters):
        if i == 0 and form not in FUNCTIONS:
            continue
        if argument.is_keyword_only and not star:
            parts.append("*")
            star = True
        parts.append(f"{parameter}={_literal(argument)}" if argument.has_default else parameter)
    if form == "function" and "out" in bound.definition.forms:
        parts += ["out=None"] if star else ["*", "out=None"]
    returns = ", ".join(str(r.type.base) for r in bound.definition.schema.returns)
    count = len(bound.definition.schema.returns)
    return f"{name}({', '.join(parts)}) -> {returns if count == 1 else f'({returns})'}"


# --- operators -----------------------------------------------------------------------

# NumPy's arrays are not among them: `Tensor` leaves the operation to NumPy, which makes an array of the
# tensor and a tensor of the result.
_OPERANDS = (TensorBase, int, float, complex, np.number, np.bool_)


def taken_by_operator(op: _op.Op) -> tuple[type, ...]:
    """The classes of operands that an operator passes on to its op as they are."""
    return (TensorBase,) if op.name == "matmul" else (TensorBase, int, float, complex)


def commutes(op: _op.Op) -> bool:
    """Whether the number goes second in any case: it is the one that PyTorch takes in full precision."""
    return op.name in ("add", "mul")


def binary(op: _op.Op, extra: tuple, static: tuple, reflected: bool, name: str):
    """``__add__`` or ``__radd__`` of a binary op; other operands get a chance by NotImplemented."""
    call, plain = _op.call, _op.PLAIN
    numbers = (int, float, bool, complex)
    no_numbers = op.name == "matmul"
    operands = TensorBase if no_numbers else _OPERANDS
    number_second, special = commutes(op), _op.special

    if reflected:
        inverse, product = (
            (_op.op_named("reciprocal"), _op.op_named("mul.Tensor")) if op.name == "div" else (None, None)
        )

        def reflected_method(self, other):
            if not isinstance(other, operands):
                if name == "__rtruediv__" and isinstance(other, np.ndarray):
                    return self.reciprocal() * other
                if not (mismatch.stands_for_tensor(other) and overrides.has_say(type(other))):
                    return NotImplemented
            try:
                if number_second:
                    return call(op, (self, other, *extra), static)
                if inverse is not None and not special[0] and self.__class__ in plain and other.__class__ in numbers:
                    return call(product, (call(inverse, (self,), ()), other), ())
                return call(op, (other, self, *extra), static)
            except TypeError as error:
                return overrides.declined(error)

        method: Any = reflected_method
    else:

        def forward_method(self, other):
            try:
                if other.__class__ in plain:
                    return call(op, (self, other, *extra), static)
                if other.__class__ not in numbers:
                    if isinstance(other, np.ndarray) and op.name == "eq":
                        return call(op, (self, from_array(other), *extra), static)
                    if not isinstance(other, operands) and not mismatch.stands_for_tensor(other):
                        return NotImplemented
                elif no_numbers:
                    return NotImplemented
                return call(op, (self, other, *extra), static)
            except TypeError as error:
                return overrides.declined(error)

        method = forward_method
    method.__name__ = name
    running_calls.own_code(method, name)
    return method


