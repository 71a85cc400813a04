"""What public calls are in a program: ``F.batch_norm(...)`` as ``torch.batch_norm`` with ATen's order.

A rule gives (op, args, kwargs) of a call, or None where the call is to be recorded by the calls that
it makes itself.
"""

from __future__ import annotations

import functools

import ftorch as torch

from ....eager.bindings.signatures import Bound
from ....eager.core.dtype import dtype as dtype_class
from ....eager.core.registry import OVERLOADS
from ....eager.tensor import TensorBase
from .intercepted_names import OF_SPARSE
from .records import TracedInt

__all__ = ["lower"]

_RULES: dict = {}  # (kind, name) -> rule; kind is "function", "method" or a namespace
_RANDOM = frozenset("dropout bernoulli normal randn rand randint randperm multinomial".split())


def lower(kind: str, name: str, function, args, kwargs):
    """The op of a call.

    Args:
        kind: "method", or the path of the namespace ("", "nn.functional", "linalg", ...).
    """
    rule = _RULES.get((kind, name)) or _RULES.get(("any", name))
    if rule is not None:
        return rule(*args, **kwargs)
    prefix = kind + "_" if kind in ("linalg", "fft", "special") else ""
    return _declared(prefix + name, args, kwargs)


@functools.cache
def _bounds(name):
    return [Bound(d, "input") for d in OVERLOADS.get(name, ())]


def _declared(name, args, kwargs):
    """A call of an op of the registry, by its schema."""
    base = name
    found = _bounds(name)
    if not found and name.endswith("_"):
        found = _bounds(name[:-1])
    if kwargs.get("out") is not None:
        return None
    kwargs = {_SYNONYMS.get(k, k): v for k, v in kwargs.items() if k != "out"}
    for bound in found:
        own = bound.definition.name
        if own in _OWN or (own.startswith("_") and own not in _PRIVATE):
            continue
        values = bound.bind(args, kwargs)
        if values is None:
            continue
        positional, named = [], {}
        for value, argument in zip(values, bound.definition.schema.arguments):
            kind = argument.type
            if kind.is_list and value is not None and not isinstance(value, (list, tuple)):
                value = [value] * (kind.size or 1) if kind.base in ("int", "SymInt") else value
            if isinstance(value, tuple):
                value = list(value)
            default = argument.default if argument.has_default else _NOTHING
            default = list(default) if isinstance(default, tuple) else default
            is_default = not isinstance(value, TensorBase) and (
                value is default or (type(value) is type(default) and value == default)
                or (value is None and argument.has_default)
            )
            if argument.is_keyword_only:
                if not is_default:
                    named[argument.name] = value
            else:
                positional.append((value, is_default))
        while positional and positional[-1][1]:
            positional.pop()
        return base, [v for v, _ in positional], named
    return None


_NOTHING = object()
_SYNONYMS = {"axis": "dim", "keepdims": "keepdim"}
_PRIVATE = frozenset({"_unsafe_view"})
# Kernels that ATen has under other names, or not at all.
_OWN = frozenset(
    "affine_grid cross_entropy grid_sample local_response_norm logsigmoid normalize softsign "
    "multilabel_soft_margin_loss tanhshrink".split()
)


def rule(*keys):
    """Registers a rule for names: ``"method.to"``, ``"nn.functional.relu"``, ``"any.add"``."""

    def decorate(function):
        for key in keys:
            kind, _, name = key.rpartition(".")
            _RULES[kind, name] = function
        return function

    return decorate


# --- arithmetic ----------------------------------------------------------------------


def _binary(name, swapped=False):
    def apply(a, b, *, alpha=1, **kwargs):
        named = {} if alpha == 1 else {"alpha": alpha}
        return name, [b, a] if swapped else [a, b], named

    return apply


for _name, _op in {
    "__add__": "add", "__sub__": "sub", "__mul__": "mul", "__truediv__": "div", "__pow__": "pow",
    "__matmul__": "matmul", "__mod__": "remainder", "__floordiv__": "floor_divide", "__eq__": "eq",
    "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__and__": "__and__", "__or__": "__or__", "__xor__": "__xor__", "__iadd__": "add_",
    "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__radd__": "add",
    "__rmul__": "mul", "__rsub__": "rsub", "__iand__": "__iand__", "__ior__": "__ior__",
}.items():
    _RULES["method", _name] = _binary(_op)
_RULES["method", "__rmatmul__"] = _binary("matmul", swapped=True)


@rule("method.__rtruediv__", "method.__rdiv__")
def _(x, other):
    if isinstance(other, TensorBase):
        return "div", [other, x], {}
    return (("reciprocal", [x], {}), "mul", [_RESULT, other], {})


@rule("method.__rpow__")
def _(x, other):
    return "pow", [other, x], {}


_RESULT = object()  # stands for the result of the call before
_RULES["method", "__neg__"] = lambda x: ("neg", [x], {})
_RULES["method", "__invert__"] = lambda x: ("bitwise_not", [x], {})
_RULES["method", "__abs__"] = lambda x: ("abs", [x], {})


@rule("any.stft")
def _(*args, **kwargs):
    return None  # padding is a step of its own


for _name in OF_SPARSE:
    _RULES["method", _name] = functools.partial(lambda op, *args, **kwargs: (op, list(args), kwargs), _name)


@rule("any.matmul")
def _(x, other, **kwargs):
    return "matmul", [x, other], {}


# --- conversions ---------------------------------------------------------------------

for _name, _dtype in {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "long": torch.int64,
    "bfloat16": torch.bfloat16, "int": torch.int32, "short": torch.int16, "char": torch.int8,
    "byte": torch.uint8, "bool": torch.bool, "cfloat": torch.complex64, "cdouble": torch.complex128,
}.items():
    _RULES["method", _name] = functools.partial(
        lambda d, x, *a, **k: ("to", [x, d, False, False, None], {}), _dtype
    )


@rule("method.to")
def _(x, *args, non_blocking=False, copy=False, memory_format=None, dtype=None, device=None,
      other=None):
    rest = []
    for a in args:
        if isinstance(a, TensorBase):
            other = a
        elif isinstance(a, dtype_class):
            dtype = a
        elif isinstance(a, bool):
            rest.append(a)
        elif a is not None:
            device = a
    flags = [*rest, *(non_blocking, copy)[len(rest) :]]
    if other is not None:
        return "to", [x, other, *flags, memory_format], {}
    if device is not None:
        device = torch.device(device)
        return "to", [x, device, dtype or x.dtype, *flags, memory_format], {}
    if dtype is not None:
        return "to", [x, dtype, *flags, memory_format], {}
    if memory_format is not None:
        return "contiguous", [x], {"memory_format": memory_format}
    return "to", [x, x.dtype, *flags, None], {}


@rule("method.type")
def _(x, dtype=None, *args):
    return None if not isinstance(dtype, dtype_class) else ("to", [x, dtype, False, False, None], {})


@rule("method.type_as")
def _(x, other):
    return "type_as", [x, other], {}


@rule("method.cpu", "method.cuda")
def _(x, device="cpu", *args, **kwargs):
    return "to", [x, torch.device(device), x.dtype, False, False, None], {}


def _unary_format(name):
    def apply(x, *, memory_format=None):
        return name, [x], {} if memory_format is None else {"memory_format": memory_format}

    return apply


for _name in ("contiguous", "clone"):
    for _kind in ("method", "", "any"):
        _RULES[_kind, _name] = _unary_format(_name)
_RULES["method", "detach"] = _RULES["any", "detach"] = lambda x: ("detach", [x], {})
_RULES["method", "detach_"] = _RULES["any", "detach_"] = lambda x: ("detach", [x], {})  # as PyTorch notes it


# --- shapes --------------------------------------------------------------------------


def _ints(sizes):
    return list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)


def _sized(name):
    def apply(x, *sizes, **kwargs):
        if sizes and isinstance(sizes[0], dtype_class) or "dtype" in kwargs:
            return None
        sizes = sizes or tuple(kwargs.values())
        return name, [x, _ints(sizes)], {}

    return apply


for _name in ("view", "reshape", "expand", "repeat", "permute"):
    _RULES["method", _name] = _RULES["", _name] = _sized(_name)


@rule("method.flatten", ".flatten")
def _(x, start_dim=0, end_dim=-1, **kwargs):
    return "flatten", [x, start_dim, end_dim], {}


for _name in ("view_as", "expand_as", "reshape_as"):

    @rule(f"method.{_name}")
    def _(x, other, _name=_name):
        return _name, [x, other], {}


@rule("method.split", ".split", "any._method_split")
def _(x, split_size_or_sections=None, dim=0, split_size=None, **kwargs):
    size = split_size_or_sections if split_size is None else split_size
    if isinstance(size, (list, tuple)):
        return "split_with_sizes", [x, list(size), dim], {}
    return "split", [x, size, dim], {}


@rule("any.chunk", "method.chunk", ".chunk")
def _(x, chunks, dim=0):
    return "chunk", [x, chunks, dim], {}


@rule("any.unbind", "method.unbind", ".unbind")
def _(x, dim=0):
    return "unbind", [x, dim], {}


@rule("any.unflatten", "method.unflatten")
def _(x, dim, sizes):
    return "unflatten", [x, dim, list(sizes)], {}


@rule("any.einsum")
def _(equation, *operands):
    if not isinstance(equation, str):
        return None
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return "einsum", [equation, list(operands)], {}


@rule("any.meshgrid", "any.broadcast_tensors")
def _(*tensors, **kwargs):
    return None


@rule("any.where")
def _(condition, x=None, y=None, **kwargs):
    if x is None or y is None:
        return None
    return "where", [condition, x, y], {}


# --- creation ------------------------------------------------------------------------


def _options(values):
    return {k: v for k, v in values.items() if v is not None and k in ("dtype", "device")}


def _made(name):
    def apply(*sizes, dtype=None, device=None, size=None, requires_grad=False, **kwargs):
        if kwargs.get("generator") is not None or kwargs.get("out") is not None:
            return None
        sizes = _ints(sizes) if size is None else list(size)
        return name, [sizes], _options({"dtype": dtype, "device": device})

    return apply


for _name in ("zeros", "ones", "empty", "rand", "randn"):
    _RULES["any", _name] = _made(_name)


@rule("any.full")
def _(size, fill_value, *, dtype=None, device=None, **kwargs):
    return "full", [list(size), fill_value], _options({"dtype": dtype, "device": device})


@rule("any.eye")
def _(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    return "eye", [n] if m is None else [n, m], _options({"dtype": dtype, "device": device})


@rule("any.arange")
def _(*args, start=None, end=None, step=None, dtype=None, device=None, out=None, **kwargs):
    if out is not None:
        return None
    bounds = [*args, *(v for v in (start, end, step) if v is not None)]
    if step is not None and len(bounds) < 3:
        return None
    return "arange", bounds, _options({"dtype": dtype, "device": device})


@rule("any.randperm")
def _(n, *, generator=None, out=None, dtype=None, device=None, **kwargs):
    return None if generator is not None or out is not None else ("randperm", [n], _options({"dtype": dtype, "device": device}))


@rule("any.linspace")
def _(start, end, steps, *, out=None, dtype=None, device=None, **kwargs):
    return None if out is not None else ("linspace", [start, end, steps], _options({"dtype": dtype, "device": device}))


@rule("any.logspace")
def _(start, end, steps, base=10.0, *, out=None, dtype=None, device=None, **kwargs):
    named = _options({"dtype": dtype, "device": device})
    return None if out is not None else ("logspace", [start, end, steps, float(base)], named)


def _indices(name):
    def apply(row, col, offset=0, *, dtype=None, device=None, **kwargs):
        return name, [row, col, offset], _options({"dtype": dtype, "device": device})

    return apply


for _name in ("tril_indices", "triu_indices"):
    _RULES["any", _name] = _indices(_name)


@rule("any.tensor")
def _(data, *, dtype=None, device=None, requires_grad=False, **kwargs):
    return ("tensor", [data], _options({"dtype": dtype, "device": device})) if isinstance(data, TracedInt) else None


def _like(name):
    def apply(x, *args, dtype=None, device=None, **kwargs):
        return name, [x, *args], _options({"dtype": dtype, "device": device})

    return apply


for _name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like"):
    _RULES["any", _name] = _like(_name)


# What draws random numbers: {name: its parameters after the first in ATen's order, with their defaults}.
_DRAWS = {
    "normal_": {"mean": 0, "std": 1}, "uniform_": {"from": 0, "to": 1}, "exponential_": {"lambd": 1},
    "cauchy_": {"median": 0, "sigma": 1}, "geometric_": {"p": None}, "log_normal_": {"mean": 1, "std": 2},
    "random_": {"from": 0, "to": None}, "bernoulli_": {"p": 0.5}, "bernoulli": {"p": None},
    "normal": {"std": 1.0, "size": None}, "poisson": {},
    "multinomial": {"num_samples": None, "replacement": False}, "binomial": {"prob": None},
    "_standard_gamma": {}, "_sample_dirichlet": {}, "randint_like": {"low": 0, "high": None},
}


def _drawn(name, parameters):
    def apply(x=None, *args, generator=None, out=None, dtype=None, device=None, **named):
        for first in ("input", "self", "mean", "count"):
            x = named.pop(first, x) if x is None else x
        more = list(parameters.items())[len(args) :]
        while more and more[-1][0] not in named:
            more.pop()
        values = [*args, *(named.pop(p, default) for p, default in more)]
        if generator is not None or out is not None or (set(named) - {"layout", "memory_format", "pin_memory"}):
            return None
        return name, [x, *values], _options({"dtype": dtype, "device": device})

    return apply


for _name, _parameters in _DRAWS.items():
    _RULES["any", _name] = _drawn(_name, _parameters)


@rule("any.randint")
def _(*args, low=None, high=None, size=None, dtype=None, device=None, generator=None, out=None, **kwargs):
    if generator is not None or out is not None:
        return None
    values = [*(v for v in (low, high) if v is not None), *args] if high is None else [*args, *(
        v for v in (low, high) if v is not None)]
    *bounds, sizes = values if size is None else [*values, size]
    return "randint", [*bounds, list(sizes)], _options({"dtype": dtype, "device": device})


@rule("any.tensordot")
def _(a, b, dims=2, out=None):
    if out is not None:
        return None
    if isinstance(dims, int):
        dims = list(range(a.dim() - dims, a.dim())), list(range(dims))
    elif isinstance(dims, TensorBase):
        return None
    return "tensordot", [a, b, *(list(d) if isinstance(d, (tuple, list)) else [d] for d in dims)], {}


@rule("any.block_diag")
def _(*tensors):
    return "block_diag", [list(tensors)], {}


@rule("any.logsigmoid", "any.log_sigmoid")
def _(input):
    return "log_sigmoid", [input], {}


def _new(name):
    def apply(x, *args, dtype=None, device=None, size=None, **kwargs):
        named = _options({"dtype": dtype, "device": device})
        if name == "new_full":
            return name, [x, list(args[0]), *args[1:]], named
        return name, [x, _ints(args) if size is None else list(size)], named

    return apply


for _name in ("new_zeros", "new_ones", "new_empty", "new_full"):
    _RULES["any", _name] = _new(_name)


# --- quantized tensors ---------------------------------------------------------------


@rule("quantize_per_tensor")
def _quantize_per_tensor(input, scale, zero_point, dtype):
    return "quantize_per_tensor", [input, scale, zero_point, dtype], {}


@rule("quantize_per_channel")
def _quantize_per_channel(input, scales, zero_points, axis, dtype):
    return "quantize_per_channel", [input, scales, zero_points, axis, dtype], {}


for _name in ("dequantize", "int_repr"):
    for _kind in ("", "method"):
        _RULES[_kind, _name] = lambda input, _op=_name: (_op, [input], {})
