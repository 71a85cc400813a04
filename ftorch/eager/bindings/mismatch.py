"""Overload resolution that fails: what is said of a call that fits no signature, in PyTorch's words.

Its argument parser names the first thing that is wrong where one signature is meant, and lists all of them where
several could be.
"""

from __future__ import annotations

import numbers
import re
import sys

import numpy as np

from ..call import op as _op
from ..call.argument_types import stands_for_tensor, type_name
from ..core import places
from ..core.public_functions import python_of
from ..core.schema import Type
from ..dispatch import overrides
from ..dispatch.running_calls import MISSING
from ..tensor import TensorBase

_CALLS = places.own_file("eager/call/")
# Names with signatures from before `alpha` and `beta` were keywords. They are not shown, but make the others
# "several".
_WITH_OLDER = frozenset(
    "add addbmm addcdiv addcmul addmm addmv addr baddbmm sspaddmm sub subtract saddmm".split()
)
_TYPE_NAMES = {
    "SymInt": "int", "ScalarType": "torch.dtype", "Scalar": "Number", "Layout": "torch.layout",
    "MemoryFormat": "torch.memory_format", "Device": "torch.device", "Generator": "torch.Generator",
    "Storage": "torch.Storage",
}
# How PyTorch sorts signatures: by what their types are called in C++.
_SORTED_AS = {"SymInt": "c10::SymInt", "int": "int64_t", "float": "double", "str": "c10::string_view"}
# Signatures that PyTorch lists and that others answer for here (those that take numbers for tensors), and those
# of which it shows other types: by names.
_POLYNOMIALS = " ".join(
    f"special_{name}" for name in (
        *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    )
)
_OTHER = "(Tensor input, Number other, *, Tensor out = None)"
_ALSO = {
    "eq ne ge gt le lt greater greater_equal less less_equal not_equal fmod copysign": [_OTHER],
    "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift remainder": [
        "(Number self, Tensor other)",
        _OTHER,
    ],
    "xlogy special_xlogy special_xlog1py special_zeta": ["(Number self, Tensor other, *, Tensor out = None)", _OTHER],
    _POLYNOMIALS: ["(Number x, Tensor n, *, Tensor out = None)", "(Tensor x, Number n, *, Tensor out = None)"],
    "pow": [
        "(Number self, Tensor exponent, *, Tensor out = None)",
        "(Tensor input, Number exponent, *, Tensor out = None)",
    ],
    "float_power": [
        "(Number self, Tensor exponent, *, Tensor out = None)",
        "(Tensor input, Number exponent, *, Tensor out = None)",
    ],
    "clamp clip": ["(Tensor input, Number min = None, Number max = None, *, Tensor out = None)"],
    "clamp_max": ["(Tensor input, Number max, *, Tensor out = None)"],
    "clamp_min": ["(Tensor input, Number min, *, Tensor out = None)"],
    "multiply floor_divide true_divide": ["(Tensor input, Number other)"],
    "div": ["(Tensor input, Number other, *, str? rounding_mode)"],
    "divide": ["(Tensor input, Number other)", "(Tensor input, Number other, *, str? rounding_mode)"],
    "subtract rsub": ["(Tensor input, Number other, Number alpha = 1)"],
    "movedim moveaxis": ["(Tensor input, int source, int destination)"],
    "narrow": ["(Tensor input, int dim, Tensor start, int length)"],
    "mm bmm": ["(Tensor input, Tensor mat2, torch.dtype out_dtype, *, Tensor out = None)"],
    "addmm": [
        "(Tensor input, Tensor mat1, Tensor mat2, torch.dtype out_dtype, *, Number beta = 1, "
        "Number alpha = 1, Tensor out = None)"
    ],
    "baddbmm": [
        "(Tensor input, Tensor batch1, Tensor batch2, torch.dtype out_dtype, *, Number beta = 1, "
        "Number alpha = 1, Tensor out = None)"
    ],
    "round": ["(Tensor input, *, int decimals, Tensor out = None)"],
    "masked_fill index_fill": [],
}
_ARITHMETIC = frozenset("div divide floor_divide multiply subtract true_divide".split())
_ONLY_FUNCTIONS = frozenset("mm bmm addmm baddbmm".split())
_LISTED_TYPES = {
    ("std", "correction"): "Scalar",
    ("var", "correction"): "Scalar",
    ("std_mean", "correction"): "Scalar",
    ("var_mean", "correction"): "Scalar",
    ("quantile", "q"): "float",
    ("nanquantile", "q"): "float",
    ("renorm", "p"): "Scalar",
    ("renorm", "maxnorm"): "Scalar",
    ("hardshrink", "lambd"): "Scalar",
    ("softshrink", "lambd"): "Scalar",
    ("linalg_vector_norm", "ord"): "Scalar",
    ("linalg_cond", "p"): "Scalar",
    ("linalg_matrix_norm", "ord"): "Scalar",
    ("trapz", "dx"): "float",
}
SYNONYMS = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}


_OPTIONS = {"dtype": "None", "layout": "None", "device": "None", "pin_memory": "False"}


class Parameter:
    """One parameter as the parser reads it."""

    def __init__(self, type_, name, *, default=None, keyword_only=False, numbers_too=False):
        self.type, self.name, self.default, self.keyword_only = type_, name, default, keyword_only
        self.numbers_too = numbers_too
        self.optional = default is not None

    @property
    def type_text(self):
        return type_text(self.type)

    def sorted_as(self):
        kind = _SORTED_AS.get(self.type.base, self.type.base)
        if self.type.is_list:
            kind = {"int": "IntArrayRef", "SymInt": "c10::SymIntArrayRef", "Tensor": "TensorList"}.get(
                self.type.base, kind
            )
            kind += f"[{self.type.size}]" if self.type.size is not None else ""
        default = "" if self.default is None else f"={self.default}"
        return f"{kind}{'?' * self.type.is_optional} {self.name}{default}"

    def text(self):
        return f"{self.type_text} {self.name}" + ("" if self.default is None else f" = {self.default}")

    def takes(self, value, fits):
        if value is None:
            return self.type.is_optional or self.default == "None" or (
                self.default == "{}" and self.type.base in ("int", "SymInt"))
        return fits(value, self)


def type_text(kind) -> str:
    """A schema's type in messages: ``int[]`` is "tuple of ints"."""
    if kind.is_list:
        base = {"SymInt": "int"}.get(kind.base, kind.base)
        return f"tuple of {base}s"
    return _TYPE_NAMES.get(kind.base, kind.base)


class Signature:
    """What a call can look like: the parameters of an overload in one of its forms."""

    def __init__(self, parameters, bare=False):
        self.parameters = parameters
        self.bare = bare  # a method of the tensor alone, which has no parser
        self.least = sum(not p.optional for p in parameters)
        self.positional = sum(not p.keyword_only for p in parameters)
        parts = [p.sorted_as() for p in parameters if p.name != "out"]
        star = next((i for i, p in enumerate(parameters) if p.keyword_only), None)
        if star is not None:
            parts.insert(star, "*")
        self.order = ", ".join(parts)

    @classmethod
    def of(cls, definition, name, form):
        """That of a declaration."""
        parameters = []
        own = next((i for i, a in enumerate(definition.schema.arguments) if a.name == "self"), 0)
        for i, a in enumerate(definition.schema.arguments):
            if i == own and not form.endswith("function"):
                continue
            kind = a.type
            other = _LISTED_TYPES.get((name, a.name))
            if other is not None and kind.base in ("float", "Scalar"):
                kind = Type(other, kind.suffixes)
            default = a.default_text
            if default is not None and default[:1] in "'[":
                default = default.replace("'", '"').replace("[", "{").replace("]", "}").replace(", ", ",")
            if default is not None and kind.base == "float" and not kind.is_list and default[-1:] == ".":
                default += "0"
            if (a.name, default) == ("reduction", "1"):
                default = "at::Reduction::Mean"
            parameters.append(Parameter(
                kind, "input" if a.name == "self" and kind.base == "Tensor" and not kind.is_list else a.name, default=default,
                keyword_only=a.is_keyword_only, numbers_too=i in definition.numbers,
            ))
        factory = next((i for i, p in enumerate(parameters) if p.name == "dtype"), None) if any(
            p.name == "pin_memory" for p in parameters
        ) else None
        options = [] if factory is None else parameters[factory:]
        del parameters[len(parameters) - len(options) :]
        # Of a factory the tensor's options are the last, and none of them is listed as optional.
        parameters += [p for p in options if p.name not in _OPTIONS]
        if form == "function" and "out" in definition.forms:
            returns = definition.schema.returns
            several = len(returns) > 1 or any(r.type.is_list for r in returns)
            kind = Type("Tensor", ("[]", "?") if several else ("?",))
            parameters.append(Parameter(kind, "out", default="None", keyword_only=True))
        for p in options:
            if p.name in _OPTIONS:
                p.default, p.optional = _OPTIONS[p.name], True
                parameters.append(p)
        if options:
            parameters.append(Parameter(Type("bool", ("?",)), "requires_grad", default="False", keyword_only=True))
        return cls(parameters, bare=not form.endswith("function") and not parameters)

    @classmethod
    def read(cls, text, form):
        """That of a text, "(Tensor input, Number other)"; None if it has no such form."""
        parameters, keyword_only = [], False
        for part in text[1:-1].split(", "):
            if part == "*":
                keyword_only = True
                continue
            declared, _, default = part.partition(" = ")
            kind, _, name = declared.rpartition(" ")
            kind = {"Number": "Scalar", "torch.dtype": "ScalarType"}.get(kind, kind)
            optional = default == "None" or kind.endswith("?")
            parameters.append(Parameter(
                Type(kind.removesuffix("?"), ("?",) if optional else ()), name, default=default or None,
                keyword_only=keyword_only,
            ))
        if form == "function":
            return cls(parameters)
        written = [p for p in parameters if p.name != "out"]
        return None if parameters[0].name == "self" else cls(written if form.endswith("function") else written[1:])

    def text(self):
        parts = [p.text() for p in self.parameters]
        for i, p in enumerate(self.parameters):
            if p.keyword_only:
                parts.insert(i, "*")
                break
        return f"({', '.join(parts)})"

    def error(self, name, args, kwargs):
        """What the parser says of arguments that do not fit."""
        if self.bare and (args or kwargs):
            what = f"no arguments ({len(args)} given)" if args and not kwargs else "no keyword arguments"
            return f"TensorBase.{name}() takes {what}"
        varargs = self.positional == 1 and self.parameters[0].type.is_list and (
            self.parameters[0].type.base in ("int", "SymInt")
        ) and (len(args) < 2 or _is_int(args[0]))
        if len(args) > self.positional and not varargs:
            return self._too_many(name, args)
        place, taken = 0, set()  # keywords
        for i, p in enumerate(self.parameters):
            by_keyword = place >= len(args)
            if not by_keyword:
                if p.keyword_only:
                    return self._too_many(name, args)
                value = args[place]
            else:
                names = (p.name, *SYNONYMS.get(p.name, ()))
                keyword = next((n for n in names if n in kwargs), None)
                value = MISSING if keyword is None else kwargs[keyword]
                taken.add(keyword)
            if value is MISSING:
                if not p.optional:
                    return self._missing(name, i)
                place += not by_keyword
                continue
            if not p.takes(value, _fits):
                if varargs and not place and not by_keyword and _is_int(value):
                    wrong = next((j for j, v in enumerate(args) if not _is_int(v)), None)
                    if wrong is not None:
                        return _unpacking(name, p, wrong, args[wrong])
                    place = len(args)
                    continue
                return self._wrong(name, p, value, place, by_keyword)
            place += not by_keyword
        names = {p.name: i for i, p in enumerate(self.parameters)}
        if any(key not in names and key not in taken for key in kwargs):  # what is named is the first without its own name
            return f"{name}() got an unexpected keyword argument '{next(key for key in kwargs if key not in names)}'"
        for key in kwargs:
            at = names.get(key)
            if at is not None and at < min(len(args), self.positional):
                return f"{name}() got multiple values for argument '{key}'"
        return None

    def own_names(self, kwargs):
        """Keywords under the names of the parameters that they stand for."""
        named = {p.name for p in self.parameters}
        other = {s: p.name for p in self.parameters for s in SYNONYMS.get(p.name, ())}
        return {key if key in named else other.get(key, key): value for key, value in kwargs.items()}

    def bound(self, args, kwargs):
        """The arguments of a call that fits in the signature's order: (positional ones, those that are keywords only)."""
        named = self.own_names(kwargs)
        values = list(args)
        for p in self.parameters[len(args):]:
            if p.keyword_only or p.name not in named:
                break
            values.append(named.pop(p.name))
        return values, named

    def _too_many(self, name, args):
        count, given = self.positional, len(args)
        if self.least != count:
            return f"{name}() takes from {self.least} to {count} positional arguments but {given} were given"
        return (
            f"{name}() takes {count} positional argument{'' if count == 1 else 's'} but {given} "
            f"{'was' if given == 1 else 'were'} given"
        )

    def _missing(self, name, first):
        names = [f'"{p.name}"' for p in self.parameters[first:] if not p.optional]
        return (
            f"{name}() missing {len(names)} required positional argument{'s' * (len(names) == 1)}: {', '.join(names)}"
        )

    def _wrong(self, name, p, value, place, by_keyword):
        if by_keyword:
            return f"{name}(): argument '{p.name}' must be {p.type_text}, not {type_name(value)}"
        where = f"{name}(): argument '{p.name}' (position {place + 1}) must be {p.type_text}"
        if p.type.is_list and isinstance(value, (list, tuple)):
            wrong = next((j for j, v in enumerate(value) if not _element_fits(v, p)), None)
            if wrong is not None:
                if p.type.base == "Tensor":
                    return f"expected Tensor as element {wrong} in argument {place}, but got {type_name(value[wrong])}"
                if wrong and p.type.base in ("int", "SymInt"):
                    return _unpacking(name, p, wrong, value[wrong])
                return f"{where}, but found element of type {type_name(value[wrong])} at pos {wrong}"
        return f"{where}, not {type_name(value)}"


def _unpacking(name, p, at, value):
    return (
        f"{name}(): argument '{p.name}' failed to unpack the object at pos {at + 1} with error \"type must "
        f"be {p.type_text},but got {type_name(value)}\""
    )


def _is_int(value):
    return isinstance(value, (numbers.Integral, np.integer)) and not isinstance(value, (bool, np.bool_)) or (
        isinstance(value, TensorBase) and not value.is_floating_point() and not value.is_complex()
        and not value.shape
    )


def _is_number(value):
    return isinstance(value, (numbers.Number, np.number, np.bool_)) or (
        isinstance(value, TensorBase) and not value.requires_grad and not value.shape
    )


def _element_fits(value, p):
    base = p.type.base
    if base in ("int", "SymInt"):
        return _is_int(value)
    if base == "Tensor":
        return stands_for_tensor(value)
    if base in ("float", "Scalar"):
        return _is_number(value)
    return True


_CLASSES = {"Layout": "layout", "MemoryFormat": "memory_format", "Generator": "Generator"}


def _fits(value, p):
    base = p.type.base
    if p.type.is_list:
        if isinstance(value, (list, tuple)):
            # The parser looks at the first number only; what is wrong behind it is found when they are read.
            return all(_element_fits(v, p) for v in value)
        return p.type.size is not None and _is_int(value)
    if base == "Tensor":
        return stands_for_tensor(value) or (
            p.numbers_too and isinstance(value, (numbers.Number, np.number, np.bool_))
        )
    if base in ("int", "SymInt"):
        return _is_int(value)
    if base in ("float", "Scalar"):
        return _is_number(value) and not (base == "float" and isinstance(value, complex))
    if base == "bool":
        return isinstance(value, (bool, np.bool_))
    if base == "str":
        return isinstance(value, str)
    if base == "ScalarType":
        return type(value).__name__ == "dtype" or value in (bool, int, float, complex)
    if base == "Device":
        return isinstance(value, str) or type(value).__name__ == "device" or _is_int(value)
    if base in _CLASSES:
        return type(value).__name__ == _CLASSES[base]
    return True


# --- several signatures ---------------------------------------------------------------


def _is_smaller(a, b):
    """Whether a parameter's type is to be tried before another one."""
    first, second = (f"{p.type.base}{'[]' * p.type.is_list}{'?' * p.type.is_optional}" for p in (a, b))
    return (
        (first, second) in {("Scalar", "Tensor"), ("Scalar?", "Tensor?")}
        or (first in ("int[]", "SymInt[]") and second in ("int", "int?", "SymInt", "SymInt?"))
        or (first == "Tensor[]" and "[]" in second)
        or (first in ("SymInt", "int") and second == "Tensor")
    )


def ordered(signatures: list[Signature]) -> list[Signature]:
    """Signatures in the order in which PyTorch's parser tries them."""
    found = sorted(signatures, key=lambda s: s.order)
    larger: dict[int, set] = {}
    for i, a in enumerate(found):
        for j, b in enumerate(found):
            pairs = list(zip(_inputs(a), _inputs(b)))
            if len(_inputs(a)) != len(_inputs(b)) or all(str(p.type) == str(q.type) for p, q in pairs):
                continue
            if all(str(p.type) == str(q.type) or _is_smaller(p, q) for p, q in pairs):
                larger.setdefault(i, set()).add(j)
    ranks = [i for i in range(len(found)) if i not in larger]
    for rank in ranks:
        for i in sorted(larger):
            larger[i].discard(rank)
            if not larger[i]:
                del larger[i]
                ranks.append(i)
    return [found[i] for i in ranks]


def _inputs(signature):
    return [p for p in signature.parameters if p.name != "out"]


def _signatures(name, definitions, form):
    plain = name.removesuffix("_") if form.startswith("inplace") else name
    found = [Signature.of(d, plain, form) for d in definitions]
    if form != "function" and plain in _ONLY_FUNCTIONS:
        return found
    for names, texts in _ALSO.items():
        if plain in names.split():
            known = {s.text() for s in found}
            more = [s for text in texts if (s := Signature.read(text, form)) is not None]
            if plain in _ARITHMETIC:  # numbers are taken for all tensors, wrapped
                for s in more:
                    s.parameters[0].numbers_too = True
            elif more:
                for p in [p for s in found for p in s.parameters]:
                    p.numbers_too = False  # others say where numbers are taken
            found += [s for s in more if s.text() not in known]
    return found


def texts(name: str, definitions, form: str) -> list[str]:
    """The signatures of a name as messages write them, without the name."""
    return [s.text() for s in _signatures(name, definitions, form)]


def message(name: str, definitions, form: str, args, kwargs) -> str | None:
    """The text of the TypeError for a call that fits none of some overloads; None if it fits the only one.

    Args:
        form: "function", "inplace function", "method" or "inplace"; for the latter two the tensor is the first of ``args``.
    """
    if not form.endswith("function"):
        args = args[1:]
    signatures = ordered(_signatures(name, definitions, form))
    several = len(signatures) > 1 or name.rstrip("_") in _WITH_OLDER
    count = len(args) + len(kwargs)
    meant = [s for s in signatures if s.least <= count <= len(s.parameters)] if several else signatures
    if len(meant) == 1:
        text = meant[0].error(name, args, kwargs)
        if text is not None or not several:
            return text
    head = f"{name}() received an invalid combination of arguments - "
    texts = [s.text() for s in signatures]
    if len(texts) == 1:
        unknown = _unknown_keywords(_option(texts[0]), kwargs)
        if unknown:
            return f"{head}got unrecognized keyword arguments: {', '.join(unknown)}"
        option = _option(texts[0])
        got = _marked(option, args, kwargs) if count == len(option) else _given(args, kwargs)
        return f"{head}got {got}, but expected {texts[0]}"
    lines = [f"{head}got {_given(args, kwargs)}, but expected one of:"]
    for text in texts:
        lines.append(f" * {text}")
        option = _option(text)
        if count == len(option):
            unknown = _unknown_keywords(option, kwargs)
            if unknown:
                lines.append(f"      didn't match because some of the keywords were incorrect: {', '.join(unknown)}")
            else:
                lines.append(
                    "      didn't match because some of the arguments have invalid types: "
                    + _marked(option, args, kwargs)
                )
    return "\n".join(lines) + "\n"


def _of_running_call():
    """The text for the public call that is being made, if it does not fit its signatures; else None."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_CALLS):
        frame = frame.f_back
    return None if frame is None else of_call(frame)


def of_call(frame):
    """The text for the public call that a frame belongs to, if it does not fit its signatures; else None."""
    found = overrides.called(frame)
    definitions = None if found is None else getattr(python_of(found[0]), "__ftorch_ops__", None)
    if definitions is None:
        return None
    function, args, kwargs = python_of(found[0]), *found[1:]
    form, name = function.__ftorch_form__, function.__name__
    python = function.__dict__.get("__signature__")
    if python is not None:  # it is Python in PyTorch
        return _of_binding(name, python, args, kwargs)
    return of_arguments(name, definitions, form, args, kwargs)


def renamed(frame):
    """(function, arguments, keywords under the parameters' own names) of the public call of a frame; None if they are."""
    found = overrides.called(frame)
    definitions = None if found is None else getattr(python_of(found[0]), "__ftorch_ops__", None)
    if found is None or definitions is None or not found[2]:
        return None
    function, args, kwargs = python_of(found[0]), *found[1:]
    form = function.__ftorch_form__
    given = args if form.endswith("function") else args[1:]
    for s in _signatures(function.__name__, definitions, form):
        if s.error(function.__name__, given, kwargs) is None:
            named = s.own_names(kwargs)
            return None if named == kwargs else (function, args, named)
    return None


def of_arguments(name, definitions, form, args, kwargs):
    """The text for arguments that do not fit any signature; None if they fit one."""
    given = args if form.endswith("function") else args[1:]
    if any(s.error(name, given, kwargs) is None for s in _signatures(name, definitions, form)):
        return None
    return message(name, definitions, form, args, kwargs)


def _of_binding(name, signature, args, kwargs):
    """What Python says of arguments that do not fit a signature; None if they do."""
    parameters = str(signature.replace(
        parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()], return_annotation=signature.empty
    ))
    scope: dict = {}
    exec(compile(f"def {name}{re.sub('=<[^>]*>', '=None', parameters)}: pass", f"<ftorch {name}>", "exec"), scope)
    try:
        return scope[name](*args, **kwargs)
    except TypeError as error:
        return str(error)


_op.hooks.wrong_call = _of_running_call


def _option(text):
    """(type, name) of each part of a signature's text, read as PyTorch reads it: a default is the "name"."""
    parts = [part.rpartition(" ") for part in text[1:-1].split(", ")]
    return [(kind, name) for kind, _, name in parts]


def _unknown_keywords(option, kwargs):
    behind = {name for _, name in option[max(len(option) - len(kwargs), 0) :]}
    return [key for key in _listed(kwargs) if key not in behind]


def _listed(kwargs) -> list:
    """The names of a call's keywords as PyTorch lists them, out of a hash table."""
    return list(kwargs)[::-1]


def _given(args, kwargs):
    text = "".join(f"{type_name(a)}, " for a in args)
    text += "".join(f"{k}={type_name(kwargs[k])}, " for k in _listed(kwargs))
    return f"({text[:-2] if args else text})"


def _marked(option, args, kwargs):
    text = ""
    for i, (kind, name) in enumerate(option):
        value = args[i] if i < len(args) else kwargs[name]
        mark = "" if _matches(kind, value) else "!"
        key = "" if i < len(args) else f"{name}="
        text += f"{mark}{key}{_shape(value)}{mark}, "
    return f"({text[:-2] if args else text})"


def _matches(kind, value):
    given = type_name(value)
    if kind.startswith("tuple of "):
        wanted = kind.removeprefix("tuple of ").removesuffix("s")
        return isinstance(value, (list, tuple)) and all(_matches(wanted, v) for v in value)
    if kind == "float":
        return given in ("float", "int")
    return given == kind or (kind == "Tensor" and isinstance(value, TensorBase) and given == "Parameter")


def _shape(value):
    names = ", ".join(map(type_name, value)) if isinstance(value, (list, tuple)) else ""
    if isinstance(value, tuple):
        return f"tuple of ({names}{',' if len(value) == 1 else ''})"
    return f"list of [{names}]" if isinstance(value, list) else type_name(value)
