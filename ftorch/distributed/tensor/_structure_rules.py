"""How operations that move, join and pick elements go with placements (see `_rules`)."""

from __future__ import annotations

import string

import numpy as np

from ._rules import Decision, R, _argument, _dims
from .placement_types import Partial, Shard

_LINEAR = ("sum", "avg")


def _same_partial(inputs):
    first = inputs[0].placement
    alike = first.is_partial() and first.reduce_op in _LINEAR
    return first if alike and all(i.placement == first for i in inputs) else None


def joined(name, inputs, args, kwargs):
    """`cat` and `stack`: divided alike along another dimension, or terms of one kind."""
    partial = _same_partial(inputs)
    if partial is not None:
        return Decision([partial] * len(inputs), partial)
    rank = len(inputs[0].shape)
    if any(len(i.shape) != rank for i in inputs):
        return None
    stacked = name == "stack"
    dim = _argument(args, kwargs, 1, "dim", "axis", default=0) % (rank + stacked)
    for i in inputs:
        d = i.dim
        if d is None or (d == dim and not stacked):
            continue
        if any(other.shape[d] != i.shape[d] for other in inputs):
            continue
        out = d + (stacked and dim <= d)
        return Decision([Shard(d)] * len(inputs), Shard(out), sizes=(out, i.shape[d]))
    return None


def _keeps(x, count, dims, linear, own=1):
    """The first ``own`` inputs stay divided along a dimension that is not among ``dims``; the rest are whole."""
    rest = [R] * (count - own)
    if x.placement.is_partial():
        if linear and own == 1 and x.placement.reduce_op in _LINEAR:
            return Decision([x.placement, *rest], x.placement)
        return None
    if x.dim is None or x.dim in dims:
        return None
    placed = Shard(x.dim)
    return Decision([placed] * own + rest, placed, sizes=(x.dim, x.shape[x.dim]))


def _along(place, linear, default=None):
    def rule(name, inputs, args, kwargs):
        x = inputs[0]
        dim = _argument(args, kwargs, place, "dim", "dims", default=default)
        if isinstance(dim, str) or len(inputs) > 1 and name not in ("index_select",):
            return None
        if dim is None:
            return None
        if place == 1 and name == "flip" and len(args) > 2:
            dim = args[1:]
        return _keeps(x, len(inputs), _dims(dim, len(x.shape)), linear)

    return rule


flipped, rolled, selected = _along(1, True), _along(2, True), _along(1, True)
ranked = _along(2, False, default=-1)


def padded(name, inputs, args, kwargs):
    """`pad`: other dimensions than those that grow; terms only with zeros."""
    x, widths = inputs[0], list(_argument(args, kwargs, 1, "pad"))
    rank = len(x.shape)
    grown = [rank - 1 - i // 2 for i, w in enumerate(widths) if w]
    mode = _argument(args, kwargs, 2, "mode", default="constant")
    value = _argument(args, kwargs, 3, "value")
    if mode != "constant" and not x.even:  # a process may have nothing, which no mode but "constant" takes
        return None
    return _keeps(x, len(inputs), grown, mode == "constant" and not value)


def of_channels(name, inputs, args, kwargs):
    """`prelu`: a weight for each element of the second dimension, or one for all."""
    x, weight = inputs
    if x.dim is None:
        return None
    many = weight.shape and weight.shape[0] != 1
    placed = Shard(x.dim)
    return Decision([placed, Shard(0) if many and x.dim == 1 else R], placed, sizes=(x.dim, x.shape[x.dim]))


def repeated(name, inputs, args, kwargs):
    """`repeat`: dimensions that are there once stay divided."""
    x = inputs[0]
    counts = args[1:] or (kwargs.get("repeats"),)
    counts = counts[0] if isinstance(counts[0], (tuple, list)) else counts
    new = len(counts) - len(x.shape)
    if x.placement.is_partial():
        return _keeps(x, 1, [], True)
    if x.dim is None or counts[x.dim + new] != 1:
        return None
    out = x.dim + new
    return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))


def tiled(name, inputs, args, kwargs):
    """`tile`: `repeat` whose counts belong to the last dimensions."""
    counts = args[1:] or (kwargs.get("dims"),)
    counts = counts[0] if isinstance(counts[0], (tuple, list)) else counts
    missing = len(inputs[0].shape) - len(counts)
    return repeated("repeat", inputs, (args[0], [*[1] * missing, *counts]), {})


def batched(name, inputs, args, kwargs):
    """Functions of each element of a batch: the first dimension may be divided."""
    x = inputs[0]
    return _keeps(x, len(inputs), range(1, len(x.shape)), False)


def picked(name, inputs, args, kwargs):
    """`gather`, `scatter` and their like: input, index and source are divided alike along other dimensions."""
    dim = _argument(args, kwargs, 2 if name == "take_along_dim" else 1, "dim")
    rank = len(inputs[0].shape)
    if not isinstance(dim, int) or any(len(i.shape) != rank for i in inputs):
        return None
    for i in inputs:
        d = i.dim
        if d is None or d == dim % rank or any(other.shape[d] != i.shape[d] for other in inputs):
            continue
        return Decision([Shard(d)] * len(inputs), Shard(d), sizes=(d, i.shape[d]))
    return None


def items_of(args) -> list:
    """What stands in the brackets of ``x[...]``, with slices for an ellipsis."""
    x, items = args[0], list(args[1]) if isinstance(args[1], tuple) else [args[1]]
    at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    taken = sum(_taken(i) for i in items if i is not Ellipsis)
    return [*items[:at], *[slice(None)] * (x.dim() - taken), *items[at + 1 :]]


def _taken(item):
    """How many dimensions an item is of."""
    if item is None or isinstance(item, bool):
        return 0
    return item.dim() if hasattr(item, "dim") and str(item.dtype).endswith("bool") else 1


def is_advanced(items) -> bool:
    """Whether an item is neither a number nor a slice nor None."""
    return any(not (i is None or isinstance(i, slice) or isinstance(i, int) and not isinstance(i, bool)) for i in items)


def indexed(name, inputs, args, kwargs):
    """``x[...]`` by tensors: divided along what is taken whole, or along the indices' own dimensions."""
    x, rest = inputs[0], inputs[1:]
    if x.placement.is_partial():
        return _keeps(x, len(inputs), [], True)
    dim, out, kept, ranks, places = 0, 0, {}, [], set()  # kept: {dimension of x: of the result but the indices' own}
    plain = True  # whether all indices are tensors of positions
    for item in items_of(args):
        if item is None or isinstance(item, slice):
            if item == slice(None):
                kept[dim] = out
            out, dim = out + 1, dim + (item is not None)
        elif isinstance(item, bool):
            return None
        elif isinstance(item, int):  # selected before the others are looked at
            dim += 1
        else:
            is_mask = str(getattr(item, "dtype", "")).endswith("bool")
            plain = plain and hasattr(item, "placements") and not is_mask
            ranks.append(1 if is_mask else len(getattr(item, "shape", None) or np.shape(item)))
            places.add(out)
            dim += _taken(item)
    rank, begin = max(ranks), min(places) if len(places) == 1 else 0
    if x.dim in kept:
        at = kept[x.dim]
        at += rank if at >= begin else 0
        return Decision([Shard(x.dim), *[R] * len(rest)], Shard(at), sizes=(at, x.shape[x.dim]))
    index = next((i for i in rest if i.dim is not None and i.shape[i.dim] != 1), None)
    if index is None or not plain:
        return None
    own = index.dim + rank - len(index.shape)
    aligned = [own - (rank - len(j.shape)) for j in rest]
    targets = [Shard(d) if d >= 0 and j.shape[d] != 1 else R for d, j in zip(aligned, rest)]
    return Decision([R, *targets], Shard(begin + own), sizes=(begin + own, index.shape[index.dim]))


def chosen(place):
    """One element, or several results of one, of each line along a dimension (the last one by default)."""

    def rule(name, inputs, args, kwargs):
        x, rank = inputs[0], len(inputs[0].shape)
        dim = _argument(args, kwargs, place, "dim", default=None if name in ("median", "nanmedian") else -1)
        if not isinstance(dim, int) or isinstance(dim, bool) or x.dim is None or x.dim == dim % rank:
            return None
        keep = bool(_argument(args, kwargs, place + 1, "keepdim", default=False))
        out = x.dim if keep else x.dim - (dim % rank < x.dim)
        return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))

    return rule


def at_least(name, inputs, args, kwargs):
    """`atleast_2d` and `atleast_3d` of one tensor: dimensions of size 1 before and behind."""
    if len(inputs) > 1:
        return None
    x = inputs[0]
    if x.dim is None:
        return Decision([x.placement], x.placement)
    out = x.dim + (len(x.shape) == 1)
    return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))


def encoded(name, inputs, args, kwargs):
    """`one_hot` with a number of classes."""
    x = inputs[0]
    classes = _argument(args, kwargs, 1, "num_classes", default=-1)
    return None if classes < 0 else _keeps(x, 1, [], False)


def moved(name, inputs, args, kwargs):
    """`movedim`."""
    x = inputs[0]
    if x.dim is None:
        return Decision([x.placement], x.placement)
    rank = len(x.shape)
    source = _dims(_argument(args, kwargs, 1, "source"), rank)
    target = _dims(_argument(args, kwargs, 2, "destination"), rank)
    order: list = [None] * rank
    for s, d in zip(source, target):
        order[d] = s
    left = iter(d for d in range(rank) if d not in source)
    order = [next(left) if d is None else d for d in order]
    out = order.index(x.dim)
    return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))


_VECTORS = {"outer": "i,j->ij", "ger": "i,j->ij", "dot": "i,i->", "vdot": "i,i->", "mv": "ij,j->i"}


def _equation(name, inputs, args, kwargs):
    """What a product of tensors is as an `einsum`."""
    if name in _VECTORS:
        return _VECTORS[name]
    if name == "matmul":  # by a vector
        letters = string.ascii_letters[: len(inputs[0].shape)]
        return f"{letters},{letters[-1]}->{letters[:-1]}"
    if name == "tensordot":
        dims = _argument(args, kwargs, 2, "dims", default=2)
        ranks = [len(i.shape) for i in inputs]
        if isinstance(dims, int):
            dims = [*range(ranks[0] - dims, ranks[0])], [*range(dims)]
        left, right = [*string.ascii_lowercase[: ranks[0]]], [*string.ascii_uppercase[: ranks[1]]]
        for a, b in zip(*dims):
            right[b] = left[a]
        result = [c for c in left if c not in right] + [c for c in right if c not in left]
        return f"{''.join(left)},{''.join(right)}->{''.join(result)}"
    return args[0]


def _spelled_out(terms, result, inputs):
    """Terms and result with letters for what an ellipsis stands for; None if the equation names no result."""
    if "." not in "".join([*terms, result]):
        return terms, result
    extra = [max(0, len(i.shape) - len(t.replace("...", ""))) for t, i in zip(terms, inputs)]
    letters = [c for c in string.ascii_letters if c not in "".join(terms)][: max(extra)]
    return [t.replace("...", "".join(letters[len(letters) - n :])) for t, n in zip(terms, extra)], (
        result.replace("...", "".join(letters))
    )


def contracted(name, inputs, args, kwargs):
    """`einsum` and products that are one: a divided letter divides the result, or is summed over."""
    equation = _equation(name, inputs, args, kwargs)
    if not isinstance(equation, str) or "." in equation and "->" not in equation:
        return None
    given, _, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if "->" not in equation:
        result = "".join(sorted(c for c in set(given) - {","} if given.count(c) == 1))
    if len(terms) != len(inputs):
        return None
    terms, result = _spelled_out(terms, result, inputs)
    if any(len(t) != len(set(t)) or len(t) != len(i.shape) for t, i in zip(terms, inputs)):
        return None
    partial = [i for i in inputs if i.placement.is_partial()]
    if partial:
        first = partial[0]
        if first.placement.reduce_op not in _LINEAR:
            return None
        return Decision([first.placement if i is first else R for i in inputs], first.placement)
    for i, term in zip(inputs, terms):
        if i.dim is None:
            continue
        letter = term[i.dim]
        targets = [Shard(t.index(letter)) if letter in t else R for t in terms]
        sizes = {j.shape[t.index(letter)] for j, t in zip(inputs, terms) if letter in t}
        if len(sizes) > 1:
            return None
        if letter not in result:
            return Decision(targets, Partial())
        out = result.index(letter)
        return Decision(targets, Shard(out), sizes=(out, i.shape[i.dim]))
    return None


def loss(name, inputs, args, kwargs):
    """Elementwise losses: the parts' losses are elements, terms of a sum or of an average."""
    shapes = {i.shape for i in inputs}
    if len(shapes) > 1 or kwargs.get("size_average") is not None or kwargs.get("reduce") is not None:
        return None
    x = next((i for i in inputs if i.dim is not None), None)
    if x is None or any(i.placement.is_partial() for i in inputs):
        return None
    targets = [Shard(x.dim)] * len(inputs)
    reduction = kwargs.get("reduction", "mean")
    if reduction == "none":
        return Decision(targets, Shard(x.dim), sizes=(x.dim, x.shape[x.dim]))
    if reduction == "sum":
        return Decision(targets, Partial())
    even = all(i.even for i in inputs)
    return Decision(targets, Partial("avg")) if even else None


STRUCTURE = {
    "cat": joined, "concat": joined, "concatenate": joined, "stack": joined, "flip": flipped,
    "roll": rolled, "index_select": selected, "topk": ranked, "pad": padded, "repeat": repeated,
    **{n: picked for n in ("gather", "scatter", "scatter_add", "take_along_dim")},
    "__getitem__": indexed, "tile": tiled, "glu": _along(1, False, default=-1), "group_norm": batched,
    "prelu": of_channels, "one_hot": encoded, "movedim": moved, "moveaxis": moved,
    **{n: contracted for n in ("einsum", "tensordot", *_VECTORS)},
    "kthvalue": chosen(2), "mode": chosen(1), "median": chosen(1), "nanmedian": chosen(1), "diff": ranked,
    "atleast_2d": at_least, "atleast_3d": at_least,
    **{n: loss for n in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
                         "binary_cross_entropy_with_logits")},
}
