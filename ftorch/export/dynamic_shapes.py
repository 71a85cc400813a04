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
        self.max = self.of(root.max)

    @property
    def min(self):
        """The least size.

        Raises:
            AssertionError: it is negative.
        """
        least = self.of(self.root.min)
        if least < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. Please specify an appropriate min value for "
                f"{self.root.__name__} (currently {self.root.min})."
            )
        return least

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


_INTRODUCTION = 'Constraints violated ({})! For more information, run with TORCH_LOGS="+dynamic".\n'


def violation(labels, lines, fixes) -> UserError:
    """The error that the program does not take what was specified."""
    text = _INTRODUCTION.format(", ".join(labels)) + "\n".join(f"  - {line}" for line in lines)
    if fixes:
        text += "\nSuggested fixes:\n" + "\n".join(f"  {fix}" for fix in fixes)
    return UserError(text)


def constant_line(label, hint) -> str:
    """What is wrong with a size that has to be constant."""
    return (
        f"You marked {label} as dynamic but your code specialized it to be a constant ({hint}). If "
        "you're using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using "
        "Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO."
    )


def combined_args(f, args, kwargs) -> dict[str, Any]:
    """{parameter: argument} of a call; what ``**kwargs`` takes is a dict."""
    function = f.forward if hasattr(f, "forward") else f
    return dict(inspect.signature(function).bind(*args, **kwargs).arguments)


# --- from the user's specification to one per dimension -------------------------------

_ADVICE = (
    "For more information about this error, see: "
    "https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation"
)


def per_leaf(f, args, kwargs, dynamic_shapes) -> list[dict[int, Any]]:
    """{dimension: number, `Dim` or hint} for each leaf of (args, kwargs).

    Raises:
        UserError: the specification does not have the arguments' structure, or one name has several ranges.
        IndexError: a tensor has no such dimension.
    """
    leaves, structure = pytree.tree_flatten((args, kwargs))
    found: list[dict[int, Any]] = [{} for _ in leaves]
    if dynamic_shapes is None:
        return found
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(f, args, kwargs)
    combined = combined_args(f, args, kwargs)
    places = combined_args(f, *pytree.tree_unflatten(range(len(leaves)), structure))
    if isinstance(dynamic_shapes, dict):
        if combined and list(dynamic_shapes) != list(combined) and set(dynamic_shapes) != set(combined):
            raise UserError(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
                f"names {list(combined)} of `inputs`, but here they are {list(dynamic_shapes)}. {_hint(combined)}"
            )
        specs = [(f"[{name!r}]", dynamic_shapes[name]) for name in combined]
    else:
        if len(dynamic_shapes) != len(combined):
            _mismatch("", f"has {len(combined)} elements", f"has {len(dynamic_shapes)} elements")
        specs = [(f"[{i}]", spec) for i, spec in enumerate(dynamic_shapes)]
    ranges: dict[str, Dim] = {}
    for value, place, (path, spec) in zip(combined.values(), places.values(), specs):
        _spread(value, place, spec, path, found, ranges)
    return found


def _hint(combined):
    only = next(iter(combined.values()))
    if len(combined) == 1 and type(only) in _CONTAINERS:
        return (
            f"Since here `inputs` is a list/tuple enclosing a single {type(only).__name__}, maybe you just forgot to enclose "
            f"`dynamic_shapes` in a list/tuple?\n{_ADVICE}"
        )
    return (
        "Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a list/tuple matching "
        f"`inputs`. {_ADVICE}"
    )


def _mismatch(path, inputs, shapes):
    raise UserError(
        "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
        f"`inputs{path}` {inputs}, but `dynamic_shapes{path}` {shapes}\n{_ADVICE}"
    )


_CONTAINERS = (dict, list, tuple)


def _spread(value, place, spec, path, found, ranges):
    """Enters in ``found`` what is specified of the leaves of a value, whose numbers have the same structure in ``place``."""
    node = pytree._get_node_type(value)
    if node not in pytree.SUPPORTED_NODES:
        found[place] = _of_leaf(value, spec, path, ranges)
        return
    children, places = (pytree.SUPPORTED_NODES[node].flatten_fn(v)[0] for v in (value, place))
    keys = [str(p[0]) for p, _ in pytree.tree_flatten_with_path(value, is_leaf=lambda v: v is not value)[0]]
    if spec is None and not children:
        return
    is_leaf = pytree._get_node_type(spec) not in pytree.SUPPORTED_NODES
    if is_leaf or (type(value) in _CONTAINERS and type(value) is not type(spec)):
        _mismatch(path, f"is a {type(value)}", "is not" if is_leaf else f"is a {type(spec)}")
    specs = pytree.SUPPORTED_NODES[pytree._get_node_type(spec)].flatten_fn(spec)[0]
    if len(specs) != len(children):
        _mismatch(path, f"has {len(children)} elements", f"has {len(specs)} elements")
    if isinstance(value, dict) and isinstance(spec, dict):
        if set(value) != set(spec):
            _mismatch(path, f"has keys {list(value)}", f"has keys {list(spec)}")
        children, places, specs = ([v[k] for k in value] for v in (value, place, spec))
    for key, *child in zip(keys, children, places, specs):
        _spread(*child, path + key, found, ranges)


def _of_leaf(value, spec, path, ranges):
    """{dimension: `Dim` or hint} of a leaf."""
    if not isinstance(value, TensorBase):
        if spec is not None:
            raise UserError(
                f"Cannot associate shape {spec} specified at `dynamic_shapes{path}` to non-tensor type {type(value)} at "
                f"`inputs{path}` (expected None)\n{_ADVICE}"
            )
        return {}
    at = f"specified at `dynamic_shapes{path}`"
    if isinstance(spec, (list, tuple)):
        if len(spec) != value.dim():
            raise UserError(
                f"Expected dynamic shape spec {spec} {at} to have the same length as the actual "
                f"tensor shape {value.shape} (expected {value.dim()}, but got {len(spec)} instead)\n{_ADVICE}"
            )
    elif not isinstance(spec, (dict, type(None))):
        raise UserError(
            f"Unexpected input tensor shape {spec} {at} (expected "
            "either a list/tuple of dimensions, or a dict mapping indices to dimensions, where "
            f"each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)\n{_ADVICE}"
        )
    sizes = spec or {} if not isinstance(spec, (list, tuple)) else dict(enumerate(spec))
    for i, dim in sizes.items():
        if isinstance(dim, Dim):
            known = ranges.setdefault(dim.__name__, dim)
            if (known.min, known.max) != (dim.min, dim.max):
                raise UserError(
                    f"Found different definitions {_defined(known)} and {_defined(dim)} for the same symbolic dimension "
                    f"{_defined(dim)}!"
                )
        elif not isinstance(dim, (int, _DimHint, type(None))):
            raise UserError(
                f"Unexpected dimension mapped to index {i} in input tensor shape {spec} {at} (expected None, an int, a Dim, "
                f"Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC,  but got {dim!r} instead)\n{_ADVICE}"
            )
    found = {i: dim for i, dim in sizes.items() if dim is not None and getattr(dim, "kind", "") != "STATIC"}
    if any(not isinstance(i, int) or i >= value.dim() for i in found):
        raise IndexError("tuple index out of range")
    return {i: dim for i, dim in found.items() if i >= 0}  # PyTorch's sizes are those from the front


def _defined(dim):
    return repr(dim) if isinstance(dim, _DerivedDim) else f"Dim('{dim.__name__}', min={dim.min}, max={dim.max})"


def of_example(leaves, dims, names) -> list[dict[int, Any]]:
    """The sizes that vary, of those that are specified: a size that is 0 or 1 in the example is a constant.

    Args:
        dims: as `per_leaf` gives them.
        names: where the leaves come from, ``L['x']``.

    Raises:
        ConstraintViolationError: a size of the example is another number than the specified one.
        ValueError: hints say that such a size varies, or the example's size is not in a hint's range.
        UserError: sizes are not in the relation that their names say; such a size has a name.
    """
    conflicts, roots = [], {}
    kept: list[dict[int, Any]] = []
    for leaf, spec, name in zip(leaves, dims, names):
        kept.append({})
        for d, dim in spec.items():
            size = int(leaf.shape[d])
            if isinstance(dim, int):
                if dim != size:
                    raise ConstraintViolationError(
                        f"Static shape constraint of {dim} does not match input size of {size}, for {name}.size()[{d}]"
                    )
                continue
            place = f"inputs{name.removeprefix('L')}.shape[{d}]"
            if isinstance(dim, _DimHint):
                low, high = dim.min, dim.max
                if size < 2 and dim.kind == "DYNAMIC":
                    conflicts.append(
                        f"- Received user-specified dim hint Dim.DYNAMIC(min={low}, max={high}), but export 0/1 specialized "
                        f"due to hint of {size} for dimension {place}."
                    )
                elif not (-math.inf if low is None else low) <= size <= (math.inf if high is None else high):
                    conflicts.append(
                        f"- Received user-specified min/max range of [{low}, {high}], conflicting with the inferred min/max "
                        f"range of [{size}, {size}], for {place}."
                    )
                elif size >= 2:
                    kept[-1][d] = dim
                continue
            kept[-1][d] = dim
            if not isinstance(dim, _DerivedDim):
                here = f"{name}.size()[{d}]"
                first, known = roots.setdefault(dim.__name__, (here, size))
                if known != size:
                    raise UserError(f"{here} = {size} is not equal to {first} = {known}")
    for leaf, spec, name in zip(leaves, kept, names):
        for d, dim in spec.items():
            if not isinstance(dim, _DerivedDim):
                continue
            size, root = leaf.shape[d], roots.get(dim.root.__name__)
            if root is not None and dim.of(root[1]) != size:
                raise UserError(
                    f"Expected input {name}.size()[{d}] to be equal to {dim.__name__}, where {dim.root.__name__} = {root[1]}, "
                    f"but got {size}"
                )
            if root is None and (size - dim.offset) % dim.factor:
                raise UserError(
                    f"Expected shape[{d}] = {size} of input Tensor to be of the form {dim.__name__}, where "
                    f"{dim.root.__name__} is an integer"
                )
    named = {d.__name__: leaf.shape[i] for leaf, spec in zip(leaves, kept) for i, d in spec.items() if type(d) is Dim}
    constants = {name: size for name, size in named.items() if size < 2}
    if constants:
        derived = {
            d.__name__: leaf.shape[i] for leaf, spec in zip(leaves, kept) for i, d in spec.items()
            if isinstance(d, _DerivedDim) and d.root.__name__ in constants
        }
        raise violation(
            [*constants, *derived], [constant_line(*item) for item in (*constants.items(), *derived.items())],
            [f"{name} = {size}" for name, size in constants.items()],
        )
    if conflicts:
        raise ValueError(
            "Found the following conflicts between user-specified ranges and inferred ranges from model tracing:\n"
            + "\n".join(conflicts)
        )
    return kept


__all__ = [
    "AdditionalInputs", "ConstraintViolationError", "Dim", "ShapesCollection", "UserError", "constant_line", "dims",
    "of_example", "per_leaf", "refine_dynamic_shapes_from_suggested_fixes", "violation",
]
