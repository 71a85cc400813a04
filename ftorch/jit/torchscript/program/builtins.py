"""What programs do with numbers, strings, lists and dictionaries: TorchScript's own operators."""

from __future__ import annotations

import math
import operator
import warnings

from ....eager.tensor import TensorBase
from ....futures import Future
from ..deprecations import warn_use
from .printed_tensors import printed_tensor

__all__ = ["SCALAR", "RaisedError", "conversions", "raise_exception"]


class RaisedError(Exception):
    """What a program's ``raise`` arrives as in Python (``torch.jit.Error``)."""

    __module__ = "ftorch.jit"
    qualified_name = ""  # of the exception's class, as the program names it


RaisedError.__name__ = RaisedError.__qualname__ = "Error"


def raise_exception(message="", qualified_name=None):
    """``ops.prim.RaiseException``."""
    error = RaisedError(str(message))
    error.qualified_name = qualified_name or ""
    raise error


def item_of(x):
    """A number for a tensor of one element; other values as they are."""
    return x.item() if isinstance(x, TensorBase) else x


def to_int(x, base=10):
    if isinstance(x, TensorBase):
        return int(x.item())
    return int(x, base) if isinstance(x, str) else int(x)


def to_float(x):
    return float(item_of(x))


def to_bool(x):
    return bool(x)


def to_str(x):
    """A value as programs print it: floats as ``1.`` and with 17 digits, no quotes around strings in containers."""
    if isinstance(x, float):
        return _float_text(x)
    if isinstance(x, complex):
        imaginary = _float_text(x.imag)
        return f"{_float_text(x.real)}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    if isinstance(x, (list, dict)) or type(x) is tuple:
        return _printed(x)
    return str(x)


def _float_text(x):
    if math.isfinite(x) and x == int(x) and abs(x) < 2**63:
        return f"{int(x)}."
    return f"{x:.17g}"


def to_complex(real, imag=0.0):
    return complex(item_of(real), item_of(imag))


conversions = {
    "int": to_int, "float": to_float, "bool": to_bool, "str": to_str, "complex": to_complex,
}


def format_(template, *values):
    """``"{} and {}".format(...)``: only plain braces, never attributes of values."""
    pieces = template.split("{}")
    if len(pieces) - 1 > len(values):
        raise RuntimeError(f"Too few arguments for format string: {template}")
    out = [pieces[0]]
    for piece, value in zip(pieces[1:], values):
        out += [to_str(value), piece]
    return "".join(out)


def percent_format(template, *values):
    return template % (values[0] if len(values) == 1 else values)


def _pow(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return float(a**b)
    return a**b


def _remainder(a, b):
    return math.fmod(a, b) + (b if math.fmod(a, b) and (a < 0) != (b < 0) else 0) if isinstance(
        a, float) or isinstance(b, float) else a % b


def _div(a, b, rounding_mode=None):
    if isinstance(a, complex) or isinstance(b, complex):
        return a / b
    if b == 0:
        return _by_zero(float(a))
    value = a / b
    if rounding_mode == "floor":
        return a // b
    return float(math.trunc(value)) if rounding_mode == "trunc" else value


def _by_zero(a):
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a)


def _round(x, digits=None):
    return float(round(x)) if digits is None else round(x, digits)


def _set_item(container, key, value):
    container[key] = value


def _delete(container, key):
    del container[key]


def _slice(x, start=None, end=None, step=1):
    return x[slice(start, end, step)]


def _sort(items, reverse=False):
    items.sort(reverse=reverse, key=None)


def _append(items, value):
    items.append(value)
    return items


def _extend(items, more):
    items.extend(more)


def _pop(container, *args):
    if isinstance(container, list) and not container:
        raise IndexError("pop from empty list")
    return container.pop(*args)


def _get(mapping, key, default=None):
    return mapping.get(key, default)


def _sum(items):
    return sum(items)


def _extreme(pick):
    def call(a, *rest):
        return pick(a, *rest)

    return call


def _log(x, base=None):
    if base is not None:
        return math.log(x, base)
    return math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan)


def _sqrt(x):
    return math.sqrt(x) if x >= 0 else math.nan


def _warn(message, stacklevel=2):
    warnings.warn(str(message), UserWarning, stacklevel=max(2, stacklevel))


def _print(*values):
    print(*map(_printed, values))


def _printed(value) -> str:
    """A value as programs print it: without quotes around strings."""
    if isinstance(value, list):
        return f"[{', '.join(map(_printed, value))}]"
    if isinstance(value, tuple):
        inner = ", ".join(map(_printed, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_printed(k)}: {_printed(v)}' for k, v in value.items())}}}"
    return printed_tensor(value) if isinstance(value, TensorBase) else to_str(value)


def _list(x):
    return list(x)


def _dict(*items, **named):
    return dict(*items, **named)


def _derive_index(i, start, step):
    return start + i * step


def _range_length(low, high, step):
    if step == 0:
        raise RuntimeError("range() arg 3 must not be zero")
    return len(range(low, high, step))


def _index(items, value, *bounds):
    if isinstance(items, str):
        return items.index(value, *bounds)
    if value not in items:
        raise ValueError(f"'{value}' is not in list")
    return items.index(value)


def _reverse(items):
    items.reverse()


def _hash(x):
    return hash(x)


def _gamma(x):
    return math.gamma(x)


_METHODS = {
    str: "upper lower capitalize title swapcase strip lstrip rstrip split rsplit splitlines replace "
         "find rfind rindex startswith endswith isdigit isalpha isalnum isspace isupper islower "
         "istitle isnumeric isdecimal isidentifier isprintable join ljust rjust center zfill "
         "expandtabs partition rpartition count",
    dict: "keys values items setdefault update popitem",
    list: "insert remove",
}


def _method(kind, name):
    function = getattr(kind, name)
    if kind is dict and name in ("keys", "values", "items"):
        return lambda d: list(function(d))
    if name == "count":
        return lambda x, *a: x.count(*a)
    if name == "partition" or name == "rpartition":
        return lambda x, *a: function(x, *a)
    return function


def _clear(container):
    container.clear()


def _copy(container):
    return container.copy()


def joined(a, b):
    """``a + b``, where the tuple is a list if the other one is."""
    if type(a) is list and type(b) is tuple:
        return [*a, *b]
    return [*a, *b] if type(a) is tuple and type(b) is list else a + b


def equal(a, b):
    """``a == b``, where a tuple is a list if the other one is. Elements are compared even where both are the same object."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return a is b or len(a) == len(b) and all([bool(equal(x, y)) for x, y in zip(a, b)])
    return a == b


def unequal(a, b):
    """``a != b``; see `equal`."""
    return not equal(a, b) if isinstance(a, (list, tuple)) else a != b


SCALAR: dict = {
    "Size": list,
    **{n: _method(kind, n) for kind, names in _METHODS.items() for n in names.split()},
    "add": joined, "sub": operator.sub, "mul": operator.mul, "div": _div,
    "add_": operator.iadd, "mul_": operator.imul, "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv, "remainder": _remainder, "mathremainder": math.remainder,
    "fmod": math.fmod, "pow": _pow, "neg": operator.neg, "eq": equal, "ne": unequal,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor,
    "__lshift__": operator.lshift, "__rshift__": operator.rshift, "__not__": operator.not_,
    "bitwise_not": operator.invert, "__round_to_zero_floordiv": lambda a, b: int(a / b),
    "matmul": operator.matmul, "divmod": divmod, "abs": abs, "round": _round,
    "floor": lambda x: math.floor(x), "ceil": lambda x: math.ceil(x),
    "trunc": lambda x: math.trunc(x), "sqrt": _sqrt,
    "log": _log, "exp": math.exp, "log2": math.log2, "log10": math.log10, "log1p": math.log1p,
    "expm1": math.expm1, "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin,
    "acos": math.acos, "atan": math.atan, "atan2": math.atan2, "sinh": math.sinh,
    "cosh": math.cosh, "tanh": math.tanh, "asinh": math.asinh, "acosh": math.acosh,
    "atanh": math.atanh, "fabs": math.fabs, "degrees": math.degrees, "radians": math.radians,
    "copysign": math.copysign, "ldexp": math.ldexp, "frexp": math.frexp, "modf": math.modf,
    "gcd": math.gcd, "factorial": math.factorial, "gamma": _gamma, "lgamma": math.lgamma,
    "erf": math.erf, "erfc": math.erfc, "isnan": math.isnan, "isinf": math.isinf,
    "isfinite": math.isfinite, "polar": lambda r, t: complex(r * math.cos(t), r * math.sin(t)),
    "angle": lambda x: math.atan2(x.imag, x.real), "max": _extreme(max), "min": _extreme(min),
    "sum": _sum, "all": all, "any": any, "len": len, "append": _append, "extend": _extend,
    "pop": _pop, "clear": _clear, "copy": _copy, "reverse": _reverse, "sort": _sort,
    "sorted": lambda x, *a: sorted(x), "index": _index, "slice": _slice, "list": _list,
    "dict": _dict, "get": _get, "_set_item": _set_item, "Delete": _delete, "_delete": _delete,
    "__contains__": operator.contains, "__getitem__": operator.getitem,
    "select": operator.getitem, "format": format_, "percentFormat": percent_format, "ord": ord,
    "chr": chr, "hex": hex, "oct": oct, "bin": bin, "hash": _hash, "warn": _warn,
    "Int": to_int, "Float": to_float, "Bool": to_bool, "Complex": to_complex, "str": to_str,
    "__is__": operator.is_, "__isnot__": operator.is_not, "__derive_index": _derive_index,
    "__range_length": _range_length, "_print": _print, "real": lambda x: x.real,
    "imag": lambda x: x.imag, "conj": lambda x: x.conjugate(), "list_with_default": None,
    "_unwrap_optional": lambda x: x,
}
del SCALAR["list_with_default"]


def unchecked_unwrap(x):
    """``_unwrap_optional``: the value, which must not be None."""
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


SCALAR["_unwrap_optional"] = unchecked_unwrap


# --- futures -------------------------------------------------------------------------


def completed(value) -> Future:
    """The future of a value that is there."""
    future: Future = Future()
    future.set_result(value)
    return future


def forked(function, *args, **kwargs) -> Future:
    """`fork` in a program."""
    future: Future = Future()
    try:
        future.set_result(function(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def awaited(future):
    """`wait` in a program."""
    return future.wait()


def fork(function, *args, **kwargs) -> Future:
    """The future of a function's result. The function runs at once; `wait` raises its exception."""
    warn_use("fork")
    return forked(function, *args, **kwargs)


def wait(future):
    """A future's result."""
    warn_use("wait")
    if future is None:
        raise RuntimeError("Future can't be None")
    return awaited(future)


SCALAR["wait"] = awaited
