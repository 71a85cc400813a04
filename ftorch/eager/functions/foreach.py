"""``torch._foreach_*``: one call for a list of tensors, made of the operators on single tensors.

What PyTorch fuses here by hand, the trace fuses anyway; so a foreach function is its overloads (the
table below), PyTorch's checks of the lists' lengths, and a loop.
"""

from __future__ import annotations

from types import SimpleNamespace

from ..bindings import overloads, signatures
from ..call.op import hooks
from ..core import api as torch
from ..core import schema
from ..core.composite import composite
from ..core.registry import kind_of
from ..tensor import TensorBase, modes

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg "
    "reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
_SCALARS = ("Scalar scalar", "Scalar[] scalars")
_LISTS = ("Tensor[] other", *_SCALARS)
_EITHER = ("Tensor other", *_LISTS)
_ALPHA = ("Tensor[] other, *, Scalar alpha=1", *_SCALARS)
_COMBINED = tuple(
    f"Tensor[] tensor1, Tensor[] tensor2, {last}"
    for last in ("Scalar value=1", "Scalar[] scalars", "Tensor scalars")
)
_BINARY = {
    "add": ("Tensor other, *, Scalar alpha=1", *_ALPHA),
    "sub": _ALPHA,
    "mul": _EITHER,
    "div": _EITHER,
    **dict.fromkeys(("clamp_min", "clamp_max", "maximum", "minimum"), _LISTS),
    "pow": ("Tensor[] exponent", "Scalar exponent", "Scalar[] exponent"),
    "lerp": tuple(f"Tensor[] tensors1, {w}" for w in
                  ("Tensor[] weights", "Scalar weight", "Scalar[] weight")),
    "addcmul": _COMBINED,
    "addcdiv": _COMBINED,
}
_NORMS = ("Scalar ord=2, ScalarType? dtype=None",)

# What follows ``Tensor[] self`` in each overload.
FUNCTIONS = {
    **dict.fromkeys(_UNARY.split(), ("",)),
    **_BINARY,
    "max": ("",),
    "mm": ("Tensor[] mat2",),
    "norm": _NORMS,
    "powsum": _NORMS,
    "clone": ("*, MemoryFormat? memory_format=None",),
}
INPLACE = {
    **dict.fromkeys(_UNARY.split(), ("",)),
    **_BINARY,
    "zero": ("",),
    "copy": ("Tensor[] src, bool non_blocking=False",),
}


def _max(x):
    if not x.numel():
        raise RuntimeError(
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is "
            "undefined."
        )
    return x.max()


def _powsum(x, ord, dtype=None):
    x = x if dtype is None else x.to(dtype)
    return x.abs().pow(ord).sum()


# Where the function on one tensor is not the method of the same name.
_SINGLE = {
    "max": _max,
    "powsum": _powsum,
    "norm": lambda x, ord, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "maximum": lambda x, other: torch.clamp_min(x, other),
    "maximum_": lambda x, other: x.clamp_min_(other),
    "minimum": lambda x, other: torch.clamp_max(x, other),
    "minimum_": lambda x, other: x.clamp_max_(other),
}
_KEYWORDS = {"alpha": "alpha", "value": "value", "dtype": "dtype", "memory_format": "memory_format"}


class _Each(signatures.Bound):
    """One overload of a foreach function."""

    __slots__ = ("base", "single", "keywords")

    def __init__(self, base, rest):
        name = base.rstrip("_")
        arguments = f"Tensor[] self, {rest}" if rest else "Tensor[] self"
        parsed = schema.parse(f"_foreach_{base}({arguments}) -> Tensor[]")
        self.parameters = [(a.name, a, kind_of(a.type)) for a in parsed.arguments]
        self.positional = [p for p in self.parameters if not p[1].is_keyword_only]
        self.names = {p[0]: i for i, p in enumerate(self.parameters)}
        # No tensor argument may be a number, and there is no ``out``.
        self.definition = SimpleNamespace(schema=parsed, numbers=frozenset(), forms=frozenset(("function",)))
        self.base = base
        self.single = _SINGLE.get(base) or (lambda x, *args, **kw: getattr(x, base)(*args, **kw))
        self.keywords = dict(_KEYWORDS)
        if name.startswith("addc"):
            self.keywords["scalars"] = "value"

    def compiled(self, matched, args, kwargs, inplace):
        return None  # `invoke` is all there is

    def invoke(self, values, inplace=False, out=None):
        tensors = values[0]
        if not tensors:
            raise RuntimeError("Tensor list must have at least one tensor.")
        if modes.grad and self.base.endswith("_"):  # before the first is written to
            for t in tensors:
                hooks.check_inplace(t)
        columns, keywords = [], {}
        for value, (name, argument, _) in zip(values[1:], self.parameters[1:]):
            given = argument.default if value is None else value
            if given is None or (name == "alpha" and given == 1):
                continue
            column = self._column(given, name, argument.type, len(tensors))
            if name in self.keywords:
                keywords[self.keywords[name]] = column
            else:
                columns.append(column)
        results = [
            self.single(x, *(c[i] for c in columns), **{k: c[i] for k, c in keywords.items()})
            for i, x in enumerate(tensors)
        ]
        return tensors if self.base.endswith("_") else tuple(results)

    def _column(self, value, name, type_, count):
        """One value for each tensor."""
        if type_.is_list and len(value) != count:
            if type_.base == "Scalar":
                raise RuntimeError("Tensor list must have same number of elements as scalar list.")
            if self.base == "mm":
                raise RuntimeError("_foreach_mm: self and mat2 must have the same number of tensors")
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
            )
        if type_.is_list:
            return value
        if type_.base == "Tensor":
            return _scalars(value, count) if name == "scalars" else [_scalar(value)] * count
        return [value] * count


class _PowOfNumber(_Each):
    """``_foreach_pow(2, tensors)``."""

    __slots__ = ()

    def __init__(self):
        super().__init__("pow", "Tensor[] exponent")
        number = schema.parse("_foreach_pow(Scalar self, Tensor[] exponent) -> Tensor[]")
        self.parameters = [(a.name, a, kind_of(a.type)) for a in number.arguments]
        self.positional = self.parameters

    def invoke(self, values, inplace=False, out=None):
        base, exponents = values
        if not exponents:
            raise RuntimeError("Tensor list must have at least one tensor.")
        return tuple(torch.pow(base, e) for e in exponents)


def _scalar(x):
    if x.dim():
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {x.dim()} dimensions and {x.numel()} "
            "elements."
        )
    return x


def _scalars(x: TensorBase, count):
    """A tensor of one number for each tensor."""
    if x.device.type != "cpu":
        raise RuntimeError(f"Expected scalars to be on CPU, got {x.device} instead.")
    if not x.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if x.dim() != 1:
        raise RuntimeError(
            f"Expected packed scalar Tensor to be of dimension 1. Got {x.dim()} instead."
        )
    if x.numel() != count:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {count} but got {x.numel()} "
            "instead."
        )
    return x.tolist()


def _declare(table, suffix):
    for base, variants in table.items():
        name = f"_foreach_{base}{suffix}"
        bounds = [_Each(base + suffix, rest) for rest in variants]
        if name == "_foreach_pow":
            bounds.append(_PowOfNumber())
        function = overloads.overloaded(name, bounds, "function")
        function.__doc__ = f"`{base}{suffix}` of every tensor of a list; see PyTorch's overloads."
        composite(name=name)(function)


_declare(FUNCTIONS, "")
_declare(INPLACE, "_")
