"""How operations go with placements: what each mesh dimension's inputs have to be, and what comes out.

A rule sees one dimension of the mesh. It is given the inputs (shape and placement each) and answers with
the placements that the inputs are moved to and those of the results. From that the derivatives follow:
the gradient of a part is a part, that of a term is the whole, and the gradient of a whole that met parts
is a sum of terms. What has no rule is computed on whole tensors by everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .placement_types import Partial, Replicate, Shard, _StridedShard, along, divides

R = Replicate()


@dataclass
class Input:
    """A tensor of a call, as one dimension of the mesh sees it."""

    shape: tuple
    placement: Any
    local: tuple | None = None
    derived: bool = False  # whether gradients go through it
    even: bool = True  # whether all parts have one size
    is_bool: bool = False
    is_complex: bool = False

    @property
    def dim(self):
        """The dimension that is divided, or None."""
        return self.placement.dim if divides(self.placement) else None


@dataclass
class Decision:
    """What a rule says."""

    inputs: list
    output: Any  # a placement, or a list of them for several results
    shape_args: Any = None  # other sizes for the local call, by position in the result's shape
    sizes: tuple | None = None  # the result's shape, where it does not follow


POINTWISE = frozenset(
    "add sub mul div true_divide floor_divide remainder fmod pow neg abs exp exp2 expm1 log log2 log10 log1p "
    "sqrt rsqrt reciprocal square sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 sigmoid "
    "relu relu6 gelu silu elu selu celu leaky_relu hardtanh hardswish hardsigmoid softplus mish logsigmoid "
    "threshold erf erfc erfinv floor ceil round trunc frac sign sgn clamp clamp_min clamp_max clip maximum "
    "minimum fmax fmin where masked_fill eq ne lt le gt ge logical_and logical_or logical_not logical_xor "
    "bitwise_and bitwise_or bitwise_not bitwise_xor isnan isinf isfinite addcmul addcdiv lerp hypot copysign "
    "nan_to_num clone detach to float double half bfloat16 int long bool type_as type contiguous zeros_like "
    "ones_like empty_like full_like zero fill copy xlogy logit rsub __add__ __radd__ __sub__ __rsub__ __mul__ "
    "__rmul__ __truediv__ __rtruediv__ __floordiv__ __mod__ __pow__ __rpow__ __neg__ __and__ __or__ __xor__ "
    "__invert__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __abs__ __rdiv__ cpu requires_grad positive "
    "nextafter ldexp heaviside deg2rad rad2deg angle conj real imag softsign tanhshrink "
    "smooth_l1 isclose isreal isposinf isneginf signbit subtract multiply divide negative absolute "
    "greater less alias".split()
)
LINEAR = frozenset(
    "add sub neg clone detach contiguous __add__ __radd__ __sub__ __neg__ subtract negative positive "
    "zero alias to float double half bfloat16".split()
)
PRODUCTS = frozenset("mul multiply __mul__ __rmul__".split())
SCALED = frozenset("mul div __mul__ __rmul__ __truediv__ multiply divide true_divide".split())


def _to_floats(args, kwargs):
    kinds = [d for d in (*args[1:], *kwargs.values()) if hasattr(d, "is_floating_point")]
    return all(d.is_floating_point if isinstance(d.is_floating_point, bool) else False for d in kinds)


def pointwise(name, inputs, args, kwargs):
    """Elementwise: all inputs are divided along the dimension of the result; what is linear takes terms as they are."""
    rank = max(len(i.shape) for i in inputs)
    partial = [i for i in inputs if i.placement.is_partial()]
    if partial:
        return _of_terms(name, inputs, partial[0].placement, args, kwargs)
    chosen = _of_one_divided_alike(inputs, rank)
    for i in inputs:
        if i.dim is not None and i.shape[i.dim] != 1:
            aligned = i.dim + rank - len(i.shape)
            if chosen is None or math.prod(i.shape) > chosen[1]:
                chosen = aligned, math.prod(i.shape), i.placement
    if name.endswith("_") and not name.startswith("__") and inputs:
        own = inputs[0]
        chosen = None if own.dim is None else (own.dim + rank - len(own.shape), 0, own.placement)
    if chosen is None:
        return Decision([R] * len(inputs), R)
    places = [chosen[0] - (rank - len(i.shape)) for i in inputs]
    repeats = any(d >= 0 and i.shape[d] != 1 for i, d in zip(inputs, places))  # what has size 1 there
    targets = []
    for i, d in zip(inputs, places):
        own = d >= 0 and (i.shape[d] != 1 or i.dim == d and not repeats)
        targets.append(along(chosen[2], d) if own else R)
    return Decision(targets, along(chosen[2], chosen[0]))


def _of_one_divided_alike(inputs, rank):
    """What `pointwise` chooses where a dimension of size 1 is divided, and that of all inputs: nobody repeats it."""
    found = {(i.dim + rank - len(i.shape), i.placement) for i in inputs if i.dim is not None and i.shape[i.dim] == 1}
    if len(found) != 1 or any(i.dim is None or i.shape[i.dim] != 1 for i in inputs if i.shape):
        return None
    (aligned, placement), = found
    return aligned, 0, placement


_LARGEST = {"max": "maximum", "min": "minimum"}  # of the largest of terms the larger one


def _of_terms(name, inputs, kind, args, kwargs):
    """Elementwise on terms of a sum or of a mean, where all are such, or the others are factors."""
    whole = Decision([R] * len(inputs), R)
    if name == _LARGEST.get(kind.reduce_op) and all(
        i.placement == kind and not i.derived for i in inputs
    ):
        return Decision([kind] * len(inputs), kind)
    if kind.reduce_op not in ("sum", "avg") or any(divides(i.placement) for i in inputs):
        return whole
    are_terms = [i.placement == kind for i in inputs]
    number = any(isinstance(a, (int, float)) and not isinstance(a, bool) for a in args[:2])
    if name in LINEAR:
        if (name == "to" and not _to_floats(args, kwargs)) or number or not all(are_terms):
            return whole
        return Decision([kind] * len(inputs), kind)
    if name in PRODUCTS and sum(are_terms) == 1 or name in SCALED and are_terms[0] and sum(are_terms) == 1:
        return Decision([kind if own else R for own in are_terms], kind)
    return whole


def _dims(value, rank):
    if value is None:
        return list(range(rank))
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v % rank if rank else 0 for v in values] or list(range(rank))


def _argument(args, kwargs, place, *names, default=None):
    for n in names:
        if n in kwargs:
            return kwargs[n]
    return args[place] if len(args) > place else default


REDUCED = {"sum": "sum", "nansum": "sum", "mean": "avg", "amax": "max", "amin": "min", "max": "max",
           "min": "min", "prod": "product", "all": "product", "any": "sum", "count_nonzero": "sum"}
KEPT = frozenset("var std var_mean std_mean logsumexp argmax argmin norm vector_norm linalg_vector_norm".split())
_OF_DIMS = frozenset("sum nansum count_nonzero mean amax amin prod all any".split())  # one result, also along a dimension


def reduction(name, inputs, args, kwargs):
    """Reductions: over other dimensions they are parts, over the divided one terms."""
    (x,) = inputs[:1]
    rank = len(x.shape)
    if x.placement.is_partial():
        if name in ("sum", "mean") and x.placement.reduce_op in ("sum", "avg"):
            return Decision([x.placement], x.placement)
        return Decision([R], R)
    if x.dim is None:
        return Decision([R], R)
    place = 2 if name in ("norm", "vector_norm", "linalg_vector_norm") else 1
    dim = _argument(args, kwargs, place, "dim", "axis")
    if isinstance(dim, bool) or name in ("max", "min") and len(inputs) > 1:
        return None
    dims = _dims(dim, rank)
    keep = bool(_argument(args, kwargs, place + 1, "keepdim", "keepdims", default=False))
    kind, boolean = REDUCED.get(name), name in ("all", "any")
    if boolean and isinstance(dim, (tuple, list)) and not dim:  # along none
        return Decision([Shard(x.dim)], Shard(x.dim), sizes=(x.dim, x.shape[x.dim]))
    if name == "any" and not x.is_bool:
        kind = "max"  # a sum of numbers would count
    if x.dim not in dims:
        out = x.dim if keep else x.dim - sum(d < x.dim for d in dims)
        return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))
    if kind in ("max", "min", "product") and x.derived:  # a part does not know which elements were chosen
        return Decision([R], R)
    if kind == "product" and x.is_complex:  # collectives do not multiply these
        return Decision([R], R)
    if kind is None or not (dim is None or name in _OF_DIMS) or not (x.even or kind == "sum" or boolean):
        return Decision([R], R)
    return Decision([Shard(x.dim)], Partial(kind))


def matmul(name, inputs, args, kwargs):
    """Products: divided terms give terms, divided rows and columns parts."""
    bias = None
    if name in ("linear",):
        x, w, *rest = inputs
        b = Input(tuple(reversed(w.shape)), Shard(1 - w.dim) if w.dim is not None else w.placement)
        bias = rest[0] if rest else None
    elif name in ("addmm", "baddbmm", "addmv"):
        bias, x, b = inputs
    else:
        x, b = inputs[:2]
    if len(x.shape) < 1 or len(b.shape) < 2 or (name == "linear" and len(w.shape) != 2):
        return None
    ra, rb = len(x.shape), len(b.shape)
    ka, jb, kb = ra - 1, rb - 1, rb - 2
    rank = max(ra, rb)
    batch_a = lambda d: d < ra - 2  # noqa: E731

    def answer(tx, tb, out, tbias=R):
        tw = tb
        if name == "linear":
            tw = Shard(1 - tb.dim) if divides(tb) else tb
        chosen = [tx, tw]
        if bias is not None:
            chosen = [tbias, tx, tw] if name != "linear" else [tx, tw, tbias]
        size = None
        if divides(out) and ra == 1:  # a vector's dimension is not in the result
            out = Shard(out.dim - 1)
            size = (out.dim, b.shape[jb] if out.dim == rank - 2 else b.shape[out.dim])
        elif divides(out):
            d = out.dim
            size = b.shape[jb] if d == rank - 1 else (x.shape[d - (rank - ra)] if d - (rank - ra) >= 0 else None)
            size = (d, size)
        return Decision(chosen, out, sizes=size)

    def along(d):
        if bias is None:
            return R
        place = d - (rank - len(bias.shape))
        return Shard(place) if place >= 0 and bias.shape[place] != 1 else R

    if x.placement.is_partial() or b.placement.is_partial():
        first = x.placement.is_partial()
        kind, other = (x.placement, b.placement) if first else (b.placement, x.placement)
        alike = bias is None or bias.placement.is_replicate() or bias.placement == kind  # a whole one becomes a term
        if kind.reduce_op not in ("sum", "avg") or divides(other) or not alike:
            return answer(R, R, R)
        return answer(kind, R, kind, kind) if first else answer(R, kind, kind, kind)
    if x.dim == ka or (x.dim is None and b.dim == kb):
        return answer(Shard(ka), Shard(kb), Partial(), Partial() if bias is not None else R)
    if x.dim is not None:
        d = x.dim + rank - ra
        if batch_a(x.dim) and rb > 2:
            place = d - (rank - rb)
            if place >= 0 and b.shape[place] == x.shape[x.dim]:
                return answer(Shard(x.dim), Shard(place), Shard(d), along(d))
            if place >= 0 and b.shape[place] != 1:
                return None
        return answer(Shard(x.dim), R, Shard(d), along(d))
    if b.dim == jb:
        return answer(R, Shard(jb), Shard(rank - 1), along(rank - 1))
    if b.dim is not None and ra > 2 and b.dim < rb - 2:
        d = b.dim + rank - rb
        return answer(Shard(d - (rank - ra)), Shard(b.dim), Shard(d), along(d))
    return answer(R, R, R)


def rowwise(*excluded):
    """Functions of lines: any dimension but the lines' own may be divided. Only the first input is."""

    def rule(name, inputs, args, kwargs):
        x = inputs[0]
        others = [R] * (len(inputs) - 1)
        if x.dim is None:
            return Decision([R, *others], R)
        rank = len(x.shape)
        if excluded == ("normalized",):
            shape = _argument(args, kwargs, 1, "normalized_shape")
            own = range(rank - len(shape if isinstance(shape, (tuple, list)) else [shape]), rank)
        elif excluded == ("argument",):
            dim = _argument(args, kwargs, 1, "dim")
            own = [] if dim is None else [dim % rank]
            if dim is None:
                return Decision([R, *others], R)
        else:
            own = [d % rank for d in excluded]
        if x.dim in own:
            return Decision([R, *others], R)
        return Decision([Shard(x.dim), *others], Shard(x.dim), sizes=(x.dim, x.shape[x.dim]))

    return rule


def embedding(name, inputs, args, kwargs):
    """Rows of a table: divided indices or divided columns."""
    index, table = inputs[:2]
    if table.dim == 1:
        return Decision([R, Shard(1)], Shard(len(index.shape)), sizes=(len(index.shape), table.shape[1]))
    counts = _argument(args, kwargs, 5, "scale_grad_by_freq", default=False)  # how often each row comes in all
    if index.dim is not None and not counts:
        return Decision([Shard(index.dim), R], Shard(index.dim), sizes=(index.dim, index.shape[index.dim]))
    return Decision([R, R], R)


def attention(name, inputs, args, kwargs):
    """Attention: batch and heads may be divided."""
    q = inputs[0]
    if q.dim is None or q.dim >= len(q.shape) - 2 or len(inputs) > 3:
        return Decision([R] * len(inputs), R)
    if any(i.shape[q.dim] != q.shape[q.dim] for i in inputs[1:3]):
        return Decision([R] * len(inputs), R)
    return Decision([Shard(q.dim)] * len(inputs), Shard(q.dim), sizes=(q.dim, q.shape[q.dim]))


def permutation(name, inputs, args, kwargs):
    """Views that exchange dimensions."""
    x = inputs[0]
    rank = len(x.shape)
    if x.dim is None:
        return Decision([x.placement], x.placement)
    if name == "permute":
        order = args[1] if len(args) == 2 and isinstance(args[1], (tuple, list)) else args[1:]
        order = kwargs.get("dims", order)
        order = [d % rank for d in order]
    else:
        order = list(range(rank))
        if name in ("transpose", "swapaxes", "swapdims"):
            a = _argument(args, kwargs, 1, "dim0", "axis0") % rank
            b = _argument(args, kwargs, 2, "dim1", "axis1") % rank
        elif name in ("t", "T", "mT", "adjoint", "mH"):
            if rank < 2:
                return Decision([x.placement], x.placement, sizes=(x.dim, x.shape[x.dim]))
            a, b = rank - 2, rank - 1
        else:
            return None
        order[a], order[b] = order[b], order[a]
    out = order.index(x.dim)
    return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))


def inserted(name, inputs, args, kwargs):
    """`unsqueeze` and `squeeze`."""
    x = inputs[0]
    rank = len(x.shape)
    if x.dim is None:
        return Decision([x.placement], x.placement)
    dim = _argument(args, kwargs, 1, "dim")
    if name == "unsqueeze":
        d = dim % (rank + 1)
        out = x.dim + (d <= x.dim)
    else:
        gone = [d % rank for d in dim]
        if x.dim in gone:
            return Decision([R], R)
        out = x.dim - sum(d < x.dim for d in gone)
    return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))


def _groups(shape, target):
    """The ranges of dimensions of a shape and of another one of as many elements that become each other."""
    i = j = 0
    while i < len(shape) and j < len(target):
        a, b, first_i, first_j = shape[i], target[j], i, j
        while a != b:
            if a < b:
                i += 1
                if i >= len(shape):
                    return
                a *= shape[i]
            else:
                j += 1
                if j >= len(target):
                    return
                b *= target[j]
        yield range(first_i, i + 1), range(first_j, j + 1)
        i, j = i + 1, j + 1


def reshaped(shape, target, placement, count, is_alone):
    """What the placement of a divided dimension becomes when ``shape`` becomes ``target``, or None.

    A dimension that is joined with others before it is divided in strides there, and a strided one that comes apart at its
    pieces is divided plainly, if no other dimension of the mesh divides it as well (``is_alone``).
    """
    dim, pieces = placement.dim, getattr(placement, "split_factor", 1)
    for before, behind in _groups(shape, target):
        if dim not in before:
            continue
        leading = math.prod(shape[d] for d in before if d < dim)
        wide = [d for d in behind if target[d] != 1]
        if leading == pieces == 1:
            return Shard(wide[0]) if wide and target[wide[0]] % count == 0 else None
        if not is_alone:
            return None
        if pieces == 1:
            fits = len(wide) == 1 and shape[dim] % count == 0
            return _StridedShard(wide[0], split_factor=leading) if fits else None
        if leading == 1:
            for k, d in enumerate(wide):
                if math.prod(target[e] for e in wide[:k]) == pieces:
                    return Shard(d) if target[d] % count == 0 else None
        return None
    return None
