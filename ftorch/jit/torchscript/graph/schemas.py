"""Which of an operator's forms a call is of, what it leaves out, and the types of its results."""

from __future__ import annotations

import ast
import functools
import re
from typing import NamedTuple

from ....eager.core.registry import OVERLOADS
from ....eager.core.schema import parse
from ..program.types import BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, NUMBER, STR, TENSOR, Type

__all__ = ["MISSING", "Argument", "Match", "match", "scalar_result", "schema_text"]

MISSING = object()


class Argument(NamedTuple):
    """An argument of a form: its name and type in the schema's grammar, the default or `MISSING`."""

    name: str
    type: str
    default: object = MISSING
    keyword_only: bool = False


class Form(NamedTuple):
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]


class Match(NamedTuple):
    """A call that fits a form.

    Attributes:
        given: for each argument what is given for it: a value, a list of values, or `MISSING`.
        results: the types of the results.
    """

    arguments: tuple[Argument, ...]
    given: list
    results: list[Type]


# Forms of operators that are compositions, or that the language itself has, in the order of their trial.
_FORMS = """
size(Tensor self) -> int[]; size.int(Tensor self, int dim) -> int
stride(Tensor self) -> int[]; stride.int(Tensor self, int dim) -> int
_sparse_mm(Tensor sparse, Tensor dense) -> Tensor; _sparse_mm.reduce(Tensor sparse, Tensor dense, str reduce) -> Tensor
_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
_sparse_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
_sparse_log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
_spdiags(Tensor diagonals, Tensor offsets, int[] shape, Layout? layout=None) -> Tensor
grad(Tensor[] outputs, Tensor[] inputs, Tensor?[]? grad_outputs=None, bool? retain_graph=None, bool create_graph=False, \
bool allow_unused=False) -> Tensor?[]
backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False) -> (); \
backward.TensorList(Tensor[] tensors, Tensor?[]? grad_tensors=None, bool? retain_graph=None, bool create_graph=False) -> ()
quantized_lstm.input(Tensor input, Tensor[] hx, t[] params, bool has_biases, int num_layers, float dropout, bool train, \
bool bidirectional, bool batch_first, *, ScalarType? dtype=None, bool use_dynamic=False) -> (Tensor, Tensor, Tensor); \
quantized_lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, t[] params, bool has_biases, int num_layers, \
float dropout, bool train, bool bidirectional, *, ScalarType? dtype=None, bool use_dynamic=False) \
-> (Tensor, Tensor, Tensor)
quantized_gru.input(Tensor input, Tensor hx, t[] params, bool has_biases, int num_layers, float dropout, bool train, \
bool bidirectional, bool batch_first) -> (Tensor, Tensor); \
quantized_gru.data(Tensor data, Tensor batch_sizes, Tensor hx, t[] params, bool has_biases, int num_layers, \
float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
dropout(Tensor input, float p, bool train) -> Tensor
dropout_(Tensor self, float p, bool train) -> Tensor
feature_dropout(Tensor input, float p, bool train) -> Tensor
alpha_dropout(Tensor input, float p, bool train) -> Tensor
batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, \
float momentum, float eps, bool cudnn_enabled) -> Tensor
instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, \
bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor
to.device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, \
MemoryFormat? memory_format=None) -> Tensor
to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) \
-> Tensor
to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) \
-> Tensor
to.dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor
to.prim_Device(Tensor self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor
to.prim_dtype(Tensor self, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor
contiguous(Tensor self, *, MemoryFormat memory_format=0) -> Tensor
reshape(Tensor self, int[] shape) -> Tensor
view(Tensor self, int[] size) -> Tensor; view.dtype(Tensor self, ScalarType dtype) -> Tensor
flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor
unflatten(Tensor self, int dim, int[] sizes) -> Tensor
item(Tensor self) -> Scalar
dim(Tensor self) -> int
numel(Tensor self) -> int
is_floating_point(Tensor self) -> bool
is_complex(Tensor self) -> bool
is_contiguous(Tensor self) -> bool
equal(Tensor self, Tensor other) -> bool
allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool
detach(Tensor self) -> Tensor
clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
requires_grad_(Tensor self, bool requires_grad=True) -> Tensor
expand(Tensor self, int[] size, *, bool implicit=False) -> Tensor
expand_as(Tensor self, Tensor other) -> Tensor
view_as(Tensor self, Tensor other) -> Tensor
reshape_as(Tensor self, Tensor other) -> Tensor
type_as(Tensor self, Tensor other) -> Tensor
repeat(Tensor self, int[] repeats) -> Tensor
permute(Tensor self, int[] dims) -> Tensor
transpose.int(Tensor self, int dim0, int dim1) -> Tensor
t(Tensor self) -> Tensor
numpy_T(Tensor self) -> Tensor
chunk(Tensor self, int chunks, int dim=0) -> Tensor[]
split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]; split.sizes(Tensor self, int[] split_size, int dim=0) \
-> Tensor[]
split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]
unbind.int(Tensor self, int dim=0) -> Tensor[]
zeros(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
ones(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
rand(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randn(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
empty.memory_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
full(int[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor
eye(int n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor
arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, \
Device? device=None, bool? pin_memory=None) -> Tensor
linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor
zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, \
MemoryFormat? memory_format=None) -> Tensor
ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, \
MemoryFormat? memory_format=None) -> Tensor
empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, \
MemoryFormat? memory_format=None) -> Tensor
rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, \
MemoryFormat? memory_format=None) -> Tensor
randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, \
MemoryFormat? memory_format=None) -> Tensor
full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
new_zeros(Tensor self, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor
new_ones(Tensor self, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor
tensor.float(float t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor
tensor.int(int t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor
tensor.bool(bool t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor
tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor
add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor; \
add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor; \
sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
mul.Tensor(Tensor self, Tensor other) -> Tensor; mul.Scalar(Tensor self, Scalar other) -> Tensor
div.Tensor(Tensor self, Tensor other) -> Tensor; div.Scalar(Tensor self, Scalar other) -> Tensor; \
div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor; \
div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor
sum(Tensor self, *, ScalarType? dtype=None) -> Tensor; \
sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
mean(Tensor self, *, ScalarType? dtype=None) -> Tensor; \
mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
squeeze(Tensor self) -> Tensor; squeeze.dim(Tensor self, int dim) -> Tensor
softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
dropout(Tensor input, float p, bool train) -> Tensor
max.other(Tensor self, Tensor other) -> Tensor; max(Tensor self) -> Tensor; \
max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
min.other(Tensor self, Tensor other) -> Tensor; min(Tensor self) -> Tensor; \
min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
slice.Tensor(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor; \
slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]; \
slice.str(str string, int? start=None, int? end=None, int step=1) -> str
select.int(Tensor self, int dim, int index) -> Tensor
index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
index_put_(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor
gelu(Tensor self, *, str approximate="none") -> Tensor
__range_length(int lo, int hi, int step) -> int
__derive_index(int index, int start, int step) -> int
_set_item.Tensor(Tensor[] l, int idx, Tensor el) -> Tensor[]; _set_item.t(t[] l, int idx, t el) -> t[]
append(t[] self, t el) -> t[]
len.t(t[] a) -> int; len.Tensor(Tensor t) -> int; len.str(str s) -> int; len.any(Any d) -> int
list.t(t[] l) -> t[]; list(str t) -> str[]
Bool(Any a) -> bool
Int(Any a) -> int
Float(Any a) -> float
Complex(Any a) -> complex
str(Any elem) -> str
device(str a) -> Device
IntImplicit(Tensor a) -> int
FloatImplicit(Tensor a) -> float
ScalarImplicit(Tensor a) -> Scalar
__not__(bool self) -> bool
__is__(Any a, Any b) -> bool
__isnot__(Any a, Any b) -> bool
manual_seed(int seed) -> ()
warn(str message, int stacklevel=2) -> ()
is_grad_enabled() -> bool
keys(Any self) -> t[]
ord(str string) -> int
chr(int i) -> str
upper(str self) -> str
lower(str self) -> str
strip(str self, str chars=" \\n\\t\\f\\v") -> str
lstrip(str self, str chars=" \\n\\t\\f\\v") -> str
rstrip(str self, str chars=" \\n\\t\\f\\v") -> str
split.str(str self, str? separator=None, int max=-1) -> str[]
join(str self, str[] values) -> str
replace(str self, str old, str new, int max=-1) -> str
startswith(str self, str substr, int start=0, int end=-1) -> bool
endswith(str self, str substr, int start=0, int end=-1) -> bool
find(str self, str substr, int start=0, int end=-1) -> int
count.str(str self, str substr, int start=0, int end=-1) -> int; count.t(t[] self, t el) -> int
index.str(str self, str substr, int start=0, int end=-1) -> int; index.list(t[] self, t el) -> int
isdigit(str self) -> bool
isalpha(str self) -> bool
insert(t[] self, int idx, t el) -> ()
extend(t[] self, t[] other) -> ()
remove(t[] self, t el) -> ()
clear(Any self) -> ()
reverse(t[] self) -> ()
pop.t(t[] self, int idx=-1) -> t
copy(t[] self) -> t[]
sort.t(t[] self, bool reverse=False) -> ()
"""

_SIGNATURE = re.compile(r"([\w]+)(?:\.\w+)?\((.*)\) -> (.*)")


def _default(text):
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    if text in ("Mean", "contiguous_format", "strided"):
        return {"Mean": 1}.get(text, 0)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def _arguments(text):
    keyword_only, out = False, []
    for part in re.split(r", (?![^\[]*\])", text) if text else ():
        if part == "*":
            keyword_only = True
            continue
        left, equal, default = part.partition("=")
        kind, _, name = left.rpartition(" ")
        out.append(Argument(name, kind, _default(default) if equal else MISSING, keyword_only))
    return tuple(out)


@functools.cache
def _written() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for entry in re.split(r"[;\n]", _FORMS):
        m = _SIGNATURE.match(entry.strip())
        if m:
            inner = m[3].strip("()").split(", ") if m[3] != "()" else []
            form = Form(_arguments(m[2]), tuple(r.split(" ")[0] for r in inner))
            if form not in found.setdefault(m[1], []):
                found[m[1]].append(form)
    return found


def _of_declaration(schema) -> Form:
    arguments = tuple(
        Argument(a.name, a.type.base + "".join(a.type.suffixes),
                 MISSING if a.default_text is None else _default(a.default_text), a.is_keyword_only)
        for a in schema.arguments
    )
    return Form(arguments, tuple(r.type.base + "".join(r.type.suffixes) for r in schema.returns))


@functools.cache
def forms(name: str) -> tuple[Form, ...]:
    """The forms of an operator, those for scalars and lists left out."""
    base = name if name in OVERLOADS else name.removesuffix("_")
    found = _written().get(name) or _written().get(base)
    if found is not None:
        return tuple(found)
    made = [_of_declaration(d.schema) for d in OVERLOADS.get(base, ())]
    return tuple(sorted(made, key=lambda f: len(f.arguments)))


_CODES = ("ScalarType", "Layout", "MemoryFormat", "SymInt", "int")
_NUMBERS = ("int", "float", "complex", "number")


def _fits(wanted: str, kind: Type, bound: dict, convert: bool) -> bool:
    if wanted.endswith("?"):
        if kind == NONE:
            return True
        inner = kind.args[0] if kind.name == "Optional" else kind
        return _fits(wanted[:-1], inner, bound, convert)
    if wanted.endswith("]"):
        base, _, count = wanted[:-1].rpartition("[")
        if kind.name == "List":
            return _fits(base, kind.args[0], bound, False) or base == "Tensor?" and kind.args[0] == TENSOR
        if kind.name == "Tuple":
            return bool(kind.args) and all(_fits(base, a, bound, convert) for a in kind.args)
        return bool(count) and _fits(base, kind, bound, convert)
    if wanted == "Any":
        return True
    if wanted == "t":
        return bound.setdefault("t", kind) == kind
    if wanted == "Tensor":
        return kind == TENSOR
    if wanted in _CODES:
        return kind == INT or convert and kind == TENSOR or kind == NUMBER
    if wanted == "Scalar":
        return kind.name in _NUMBERS or convert and kind == TENSOR
    if wanted == "float":
        return kind == FLOAT or convert and kind in (TENSOR, INT)
    if wanted == "Device":
        return kind == DEVICE or convert and kind == STR
    return {"bool": BOOL, "str": STR, "complex": COMPLEX}.get(wanted, kind) == kind


def _result(text: str, bound: dict) -> Type:
    if text.endswith("[]"):
        return Type("List", (_result(text[:-2], bound),))
    if text.endswith("?"):
        return Type("Optional", (_result(text[:-1], bound),))
    plain = {"t": bound.get("t", TENSOR), "Scalar": NUMBER, "SymInt": INT, "ScalarType": INT, "Any": Type("Any")}
    return plain.get(text) or Type(text)


def match(name: str, kinds: list[Type], keywords: dict[str, Type]) -> Match | None:
    """The form that takes arguments of some types, or None.

    ``given`` of the result has, for each argument, the number of the positional one, the name of the keyword, the
    numbers of several that make a list, or `MISSING`.
    """
    found = forms(name)
    for convert in (False, True):
        for form in found:
            made = _try(form, kinds, keywords, convert)
            if made is not None:
                return made
    return None


def _try(form, kinds, keywords, convert):
    given, used, bound, i = [], 0, {}, 0
    for position, a in enumerate(form.arguments):
        if a.name in keywords:
            if not _fits(a.type, keywords[a.name], bound, convert):
                return None
            given.append(a.name)
            used += 1
        elif not a.keyword_only and i < len(kinds):
            several = kinds[i:]
            last = all(x.keyword_only or x.default is not MISSING for x in form.arguments[position + 1 :])
            if _fits(a.type, kinds[i], bound, convert):
                given.append(i)
                i += 1
            elif a.type == "int[]" and last and all(k == INT for k in several) and several:
                given.append(list(range(i, len(kinds))))
                i = len(kinds)
            else:
                return None
        elif a.default is not MISSING:
            given.append(MISSING)
        else:
            return None
    if i < len(kinds) or used < len(keywords):
        return None
    return Match(form.arguments, given, [_result(r, bound) for r in form.results])


_MATH = {
    **dict.fromkeys("sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh "
                    "atanh fabs degrees radians copysign ldexp fmod erf erfc gamma lgamma".split(), FLOAT),
    **dict.fromkeys("floor ceil gcd factorial round".split(), INT),
    **dict.fromkeys("isnan isinf isfinite".split(), BOOL),
}


def scalar_result(name: str, kinds: list[Type]) -> Type | None:
    """The type of an operator's result for Python's values, or None for what is no such operator."""
    plain = [k.name for k in kinds]
    if not plain or TENSOR in kinds:
        return None
    if name in ("lt", "gt", "le", "ge", "eq", "ne", "__contains__", "__is__", "__isnot__"):
        return BOOL
    if name in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__"):
        return kinds[0]
    if set(plain) <= {"int", "float", "bool", "complex", "number"}:
        if name in ("add", "sub", "mul", "remainder", "floordiv", "neg", "pow", "div", "mod"):
            if "complex" in plain:
                return COMPLEX
            if name in ("div", "pow"):
                return FLOAT
            return NUMBER if "number" in plain else FLOAT if "float" in plain else INT
        return _MATH.get(name)
    if name == "add" and plain[0] in ("str", "List"):
        return kinds[0]
    if name == "mul" and "List" in plain:
        return kinds[plain.index("List")]
    return None


def results_of(namespace: str, name: str) -> list[Type] | None:
    """The types of what another package's operator gives, or None where nobody says so."""
    from ...._ops import ops

    packet = getattr(getattr(ops, namespace), name, None)
    overloads = [getattr(packet, overload) for overload in packet.overloads()] if packet is not None else []
    schema = overloads[0]._schema if overloads else None
    if schema is None or not hasattr(schema, "returns"):
        return None
    return [_result(text, {}) for text in _of_declaration(schema).results]


def schema_text(op: str, operands: list[Type], results: list[Type]) -> str:
    """The schema of a node's operator, of the overload that takes operands of these types.

    Operators of the language itself (``prim::If``) have none.
    """
    from ...._ops import ops

    room, _, name = op.partition("::")
    packet = getattr(ops.aten, name, None) if room == "aten" else None
    found = []
    for overload in packet.overloads() if packet is not None else ():
        text = str(getattr(packet, overload)._schema).replace("SymInt", "int")
        arguments = _of_declaration(parse(text.partition("::")[2])).arguments
        if len(arguments) == len(operands) and "out" not in overload:
            bound: dict = {}
            for convert in (False, True):
                if all(_fits(a.type, kind, bound, convert) for a, kind in zip(arguments, operands)):
                    found.append((convert, str(getattr(packet, overload)._schema)))
                    break
    if found:
        return min(found, key=lambda f: f[0])[1]
    kinds = {kind.shown() for kind in operands}
    if room == "aten" and len(kinds) == 1 and len(results) == 1:  # the language's own, of two numbers or texts
        (kind,) = kinds
        given = ", ".join(f"{kind} {letter}" for letter, _ in zip("ab", operands))
        return f"{op}.{kind}({given}) -> {results[0].shown()}"
    return "(no schema)"
