"""Which sizes of the inputs may differ from the example's (``torch.export.dynamic_shapes``)."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

from ..eager.tensor import TensorBase
from ..utils import _pytree as pytree


class UserErrorType:
    """Kinds of mistakes."""

    INVALID_INPUT = "invalid_input"
    CONSTRAINT_VIOLATION = "constraint_violation"
    DYNAMIC_DIM = "dynamic_dim"


class UserError(RuntimeError):
    """A mistake in how `export` is called, or a program that it cannot export."""


class ConstraintViolationError(RuntimeError):
    """An example that is not what its specification says."""


class _DimHint:
    """``Dim.AUTO``, ``Dim.DYNAMIC`` or ``Dim.STATIC``, perhaps with a range."""

    def __init__(self, kind: str, min: int | None = None, max: int | None = None):
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min=None, max=None):
        return _DimHint(self.kind, min, max)

    def __repr__(self):
        return f"DimHint({self.kind})"


class Dim:
    """A named size that may vary.

    Args:
        name: an identifier; sizes of the same name are equal.
        min, max: its range, both included.

    Derived sizes are written by arithmetic: ``2 * Dim("half")``, ``Dim("n") + 1``.

    >>> import ftorch as torch
    >>> batch = torch.export.Dim("batch", min=2, max=64)
    >>> batch, 2 * batch + 1
    (Dim('batch', max=64), 2*batch + 1)
    """

    AUTO = _DimHint("AUTO")
    DYNAMIC = _DimHint("DYNAMIC")
    STATIC = _DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        low, high = 0 if min is None else min, math.inf if max is None else max
        if high < low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={low}, max={high}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    def __repr__(self):
        bounds = [f"min={self.min}"] * (self.min != 2) + [f"max={self.max}"] * (self.max < math.inf)
        return f"Dim({', '.join([repr(self.__name__), *bounds])})"

    def _derive(self, factor=1, offset=0):
        return _DerivedDim(self, factor, offset)

    def __add__(self, other):
        return self._derive(offset=self._integer(other, "add {} to {}, where an"))

    __radd__ = __add__

    def __sub__(self, other):
        return self._derive(offset=-self._integer(other, "subtract {} from {}, where an"))

    def __mul__(self, other):
        return self._derive(self._integer(other, "multiply {} with {}, where a positive", 1))

    __rmul__ = __mul__

    def _integer(self, other, what, least=-math.inf):
        if type(other) is not int or other < least:
            raise NotImplementedError(
                f"Attempted to {what.format(other, self.__name__)} integer was expected. (Only increasing linear "
                "operations with integer coefficients are supported.)"
            )
        return other


class _DerivedDim(Dim):
    """``factor * root + offset``."""

    def __init__(self, root: Dim, factor: int, offset: int):
        self.root, self.factor, self.offset = root, factor, offset
        text = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        sign = "+" if offset >= 0 else "-"
        self.__name__ = text if not offset else f"{text} {sign} {abs(offset)}"
        self.min = self.of(root.min)
        self.max = self.of(root.max)

    def of(self, value):
        """The size for a value of the root."""
        return self.factor * value + self.offset

    def root_of(self, size: int) -> int:
        """The root's value for a size.

        Raises:
            UserError: there is none.
        """
        value, rest = divmod(size - self.offset, self.factor)
        if rest:
            raise UserError(
                f"Constraints violated ({self.__name__})! The example's size {size} is not "
                f"{self.__name__} for any integer {self.root.__name__}."
            )
        return value

    def _derive(self, factor=1, offset=0):
        return _DerivedDim(self.root, self.factor * factor, self.offset * factor + offset)

    def __repr__(self):
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim` of the same range."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Dynamic sizes, assigned to the tensors themselves.

    >>> import ftorch as torch
    >>> x = torch.ones(2, 3)
    >>> shapes = torch.export.ShapesCollection()
    >>> shapes[x] = {0: torch.export.Dim.DYNAMIC}
    """

    def __init__(self):
        self._shapes: dict[int, Any] = {}

    def __setitem__(self, t, shape):
        self._shapes[id(t)] = shape

    def __getitem__(self, t):
        return self._shapes[id(t)]

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The dictionary for `export`."""
        combined = combined_args(m, args, kwargs or {})
        return pytree.tree_map(lambda leaf: self._shapes.get(id(leaf)), combined)


class AdditionalInputs:
    """More examples: the sizes that differ among them are dynamic."""

    def __init__(self):
        self._examples: list[tuple[tuple, dict]] = []

    def add(self, args, kwargs=None):
        """Adds an example."""
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(self, m, args, kwargs=None):
        """The dictionary for `export`."""
        combined = [combined_args(m, a, k) for a, k in ((args, kwargs or {}), *self._examples)]

        def compare(first, *others):
            if not isinstance(first, TensorBase):
                return None
            return tuple(
                Dim.STATIC if all(o.shape[i] == n for o in others) else Dim.DYNAMIC
                for i, n in enumerate(first.shape)
            )

        return pytree.tree_map(compare, *combined)


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes):
    """A specification with the fixes that the message of an error suggests.

    >>> import ftorch as torch
    >>> from ftorch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
    >>> message = "Suggested fixes:\\n  batch = Dim('batch', max=8)"
    >>> refine_dynamic_shapes_from_suggested_fixes(message, {"x": {0: torch.export.Dim("batch")}})
    {'x': {0: Dim('batch', min=0, max=8)}}
    """
    fixes: dict[str, Any] = {}
    for line in msg.partition("Suggested fixes:")[2].strip().splitlines():
        name, sign, text = (part.strip() for part in line.partition("="))
        if not sign or not name.isidentifier():
            break
        fixes[name] = _fixed(text, fixes)

    def fixed(dim):
        if not isinstance(dim, Dim):
            return dim
        if isinstance(dim, _DerivedDim) and dim.root.__name__ in fixes:
            root = fixes[dim.root.__name__]
            return dim.of(root) if isinstance(root, int) else root * dim.factor + dim.offset
        return fixes.get(dim.__name__, dim)

    return pytree.tree_map(fixed, dynamic_shapes, is_leaf=lambda v: isinstance(v, Dim) or v is None)


_DIM = re.compile(r"Dim\('(\w+)'(?:, min=(\d+))?(?:, max=(\d+|oo))?\)")
_LINEAR = re.compile(r"(?:(\d+)\*)?(\w+)(?: ([+-]) (\d+))?")


def _fixed(text, known):
    """The size that a fix says: a number, a `Dim`, or one derived from a known one."""
    if text.isdigit():
        return int(text)
    found = _DIM.fullmatch(text)
    if found is not None:
        name, low, high = found.groups()
        return Dim(name, min=None if low is None else int(low),
                   max=None if high in (None, "oo") else int(high))
    found = _LINEAR.fullmatch(text)
    if found is None:
        raise ValueError(f"a fix that is not understood: {text}")
    factor, name, sign, offset = found.groups()
    dim = known.setdefault(name, Dim(name))
    dim = dim * int(factor) if factor else dim
    return dim + int(sign + offset) if sign else dim


def combined_args(f, args, kwargs) -> dict[str, Any]:
    """{parameter: argument} of a call."""
    function = f.forward if hasattr(f, "forward") else f
    bound = inspect.signature(function).bind(*args, **kwargs).arguments
    out: dict[str, Any] = {}
    for name, value in bound.items():
        kind = inspect.signature(function).parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            out.update(value)
        else:
            out[name] = value
    return out


# --- from the user's specification to one per dimension -------------------------------


def per_leaf(f, args, kwargs, dynamic_shapes) -> list[dict[int, Any]]:
    """{dimension: `Dim` or hint} for each leaf of (args, kwargs).

    Raises:
        UserError: the specification does not have the arguments' structure.
    """
    leaves = pytree.tree_leaves((args, kwargs))
    if dynamic_shapes is None:
        return [{} for _ in leaves]
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(f, args, kwargs)
    combined = combined_args(f, args, kwargs)
    if isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(combined):
            raise UserError(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
                f"names {list(combined)} of `inputs`, but here they are {list(dynamic_shapes)}. "
                "Alternatively, you could also ignore arg names entirely and specify "
                "`dynamic_shapes` as a list/tuple matching `inputs`. For more information about this error, see: "
                "https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation"
            )
        specs = [dynamic_shapes.get(name) for name in combined]
    elif isinstance(dynamic_shapes, (list, tuple)):
        if len(dynamic_shapes) != len(combined):
            raise UserError(
                "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` "
                f"has {len(combined)} elements, but `dynamic_shapes` has {len(dynamic_shapes)} elements"
            )
        specs = list(dynamic_shapes)
    else:
        raise UserError(
            f"`dynamic_shapes` must be a dict, list or tuple, got {type(dynamic_shapes).__name__}"
        )
    found = {}
    for value, spec in zip(combined.values(), specs):
        _spread(value, spec, found)
    return [found.get(id(leaf), {}) if isinstance(leaf, TensorBase) else {} for leaf in leaves]


def _spread(value, spec, found):
    if isinstance(value, TensorBase):
        if spec is None:
            spec = {}
        if isinstance(spec, (list, tuple)):
            if len(spec) != value.dim():
                raise UserError(
                    f"Expected dynamic shape spec {spec} to have the same length as the actual "
                    f"tensor shape {value.shape} (expected {value.dim()}, but got {len(spec)} instead)"
                )
            spec = dict(enumerate(spec))
        if not isinstance(spec, dict):
            raise UserError(
                f"Unexpected input tensor shape {spec!r} specified in `dynamic_shapes` (expected "
                "either a list/tuple of dimensions, or a dict mapping indices to dimensions, where "
                "each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)"
            )
        for i, dim in spec.items():
            if isinstance(dim, int) and dim != value.shape[i]:
                raise UserError(
                    f"Static shape constraint of {dim} does not match input size of "
                    f"{value.shape[i]}, for dimension {i}"
                )
        found[id(value)] = {
            i % max(value.dim(), 1): dim for i, dim in spec.items()
            if isinstance(dim, (Dim, _DimHint)) and getattr(dim, "kind", "") != "STATIC"
        }
        return
    if spec is None:
        return
    values, structure = _children(value)
    specs, spec_structure = _children(spec)
    if values is None or specs is None or structure != spec_structure:
        raise UserError(
            "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
            f"{value!r} has another structure than {spec!r}"
        )
    for v, s in zip(values, specs):
        _spread(v, s, found)


def _children(value):
    if isinstance(value, dict):
        keys = sorted(value, key=str)
        return [value[k] for k in keys], keys
    if isinstance(value, (list, tuple)):
        return list(value), len(value)
    if pytree._get_node_type(value) in pytree.SUPPORTED_NODES:
        children, _ = pytree.SUPPORTED_NODES[pytree._get_node_type(value)].flatten_fn(value)
        return list(children), len(children)
    return None, None


__all__ = [
    "AdditionalInputs", "ConstraintViolationError", "Dim", "ShapesCollection", "UserError", "dims",
    "refine_dynamic_shapes_from_suggested_fixes",
]
