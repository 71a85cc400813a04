"""ONNX forms of ops that arrange elements: shapes, pieces, indices, reductions and sorting."""

from __future__ import annotations

import math

import numpy as np

from ..eager.core import dtype as dtypes
from ._builder import Value, is_static
from ._table import translation

_LARGE = 9223372036854775807


@translation("sym_size")
def _sym_size(g, x, dim):
    if is_static(x.shape[dim]):
        return int(x.shape[dim])
    size = g.raw("Gather", g.raw("Shape", x.name), g.array(np.int64(dim % x.rank)), axis=0)
    return Value(size, (), dtypes.int64)


@translation("item _local_scalar_dense")
def _item(g, x):
    """A tensor's value as a number of the program: of 64 bits, as Python's."""
    return g.cast(g.reshape(x, ()), dtypes.float64 if x.dtype.category == 2 else dtypes.int64)


@translation("view reshape _unsafe_view _reshape_alias unflatten flatten ravel view_as reshape_as")
def _reshape(g, x, *args):
    shape = tuple(g.result.shape)
    if all(map(is_static, shape)):
        return g.reshape(x, shape)
    if sum(not is_static(n) for n in shape) == 1:
        # One unknown size: ONNX finds it.
        return g.reshape(x, shape, [n if is_static(n) else -1 for n in shape])
    if g.name == "flatten":
        start, end = (*args, 0, -1)[:2] if not args else (*args, -1)[:2]
        start, end = start % max(x.rank, 1), end % max(x.rank, 1)
        parts = [g.shape_of(x, [d]) for d in range(start)] + [g.ints([-1])]
        parts += [g.shape_of(x, [d]) for d in range(end + 1, x.rank)]
        return g.op("Reshape", x, g.raw("Concat", *parts, axis=0), shape=shape)
    if g.name in ("view_as", "reshape_as"):
        return g.op("Reshape", x, g.raw("Shape", args[0].name), shape=shape)
    if g.name == "unflatten":
        dim, sizes = args[0] % x.rank, list(args[1])
        parts = [g.shape_of(x, range(dim)), g.sizes(sizes), g.shape_of(x, range(dim + 1, x.rank))]
        return g.op("Reshape", x, g.raw("Concat", *parts, axis=0), shape=shape)
    return g.op("Reshape", x, g.sizes(args[0]), shape=shape)


@translation("permute")
def _permute(g, x, dims):
    return g.transpose(x, dims)


@translation("transpose swapaxes swapdims")
def _transpose(g, x, a, b):
    order = list(range(x.rank))
    if order:
        order[a], order[b] = order[b], order[a]
    return g.transpose(x, order) if order else x


@translation("t mT numpy_T")
def _t(g, x):
    order = list(range(x.rank))
    if g.name == "numpy_T":
        order.reverse()
    elif len(order) > 1:
        order[-1], order[-2] = order[-2], order[-1]
    return g.transpose(x, order)


@translation("movedim moveaxis")
def _movedim(g, x, source, destination):
    source = [source] if isinstance(source, int) else list(source)
    destination = [destination] if isinstance(destination, int) else list(destination)
    order = [-1] * x.rank
    for s, d in zip(source, destination):
        order[d % x.rank] = s % x.rank
    rest = iter(d for d in range(x.rank) if d not in [s % x.rank for s in source])
    return g.transpose(x, [next(rest) if d < 0 else d for d in order])


@translation("unsqueeze")
def _unsqueeze(g, x, dim):
    return g.unsqueeze(x, [dim])


@translation("squeeze")
def _squeeze(g, x, dims=None):
    dims = range(x.rank) if dims is None else [dims] if isinstance(dims, int) else dims
    dims = [d % x.rank for d in dims if x.rank]
    dims = [d for d in dims if is_static(x.shape[d]) and x.shape[d] == 1]
    return g.squeeze(x, dims) if dims else x


@translation("expand expand_as broadcast_to")
def _expand(g, x, sizes, implicit=False):
    if isinstance(sizes, Value):
        return g.op("Expand", x, g.shape_of(sizes), shape=g.result.shape)
    # ONNX keeps a size where it is asked for 1.
    wanted = [1 if not isinstance(n, Value) and n == -1 else n for n in sizes]
    return g.op("Expand", x, g.sizes(wanted), shape=g.result.shape)


@translation("repeat tile")
def _repeat(g, x, times):
    if len(times) > x.rank:
        x = g.unsqueeze(x, list(range(len(times) - x.rank)))
    times = [1] * (x.rank - len(times)) + list(times)
    return g.op("Tile", x, g.sizes(times), shape=g.result.shape)


@translation("slice")
def _slice(g, x, dim=0, start=None, end=None, step=1):
    start, end = 0 if start is None else start, _LARGE if end is None else end
    out = g.slice(x, dim % x.rank, start, end, step)
    return Value(out.name, tuple(g.result.shape), x.dtype)


@translation("narrow")
def _narrow(g, x, dim, start, length):
    return g.slice(x, dim % x.rank, start, start + length)


@translation("select")
def _select(g, x, dim, index):
    at = index.name if isinstance(index, Value) else g.array(np.int64(index))
    return g.op("Gather", x, at, shape=g.result.shape, axis=dim % x.rank)


@translation("cat concat concatenate")
def _cat(g, values, dim=0):
    values = [g.cast(v, g.result.dtype) for v in values if v.shape != (0,)]
    return g.concat(values, dim % values[0].rank) if len(values) > 1 else values[0]


@translation("stack")
def _stack(g, values, dim=0):
    dim %= values[0].rank + 1
    return g.concat([g.unsqueeze(g.cast(v, g.result.dtype), [dim]) for v in values], dim)


@translation("split split_with_sizes chunk unbind tensor_split unsafe_chunk unsafe_split")
def _split(g, x, *args):
    is_unbind = g.name == "unbind"
    dim = args[0] if is_unbind and args else args[1] if len(args) > 1 and not is_unbind else 0
    dim %= x.rank
    out, at = [], 0
    for r in g.results:
        if is_unbind:
            out.append(g.op("Gather", x, g.array(np.int64(len(out))), shape=r.shape, axis=dim))
            continue
        if not is_static(r.shape[dim]):
            raise g.error("the sizes of the pieces are not known")
        out.append(g.slice(x, dim, at, at + r.shape[dim]))
        at += r.shape[dim]
    return out


@translation("pad constant_pad_nd")
def _pad(g, x, pad, mode="constant", value=None):
    if g.name == "constant_pad_nd":
        mode, value = "constant", mode if not isinstance(mode, str) else 0
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    kind = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    filler = g.number(value or 0, x.dtype).name if kind == "constant" else ""
    return g.op("Pad", x, g.sizes(low + high), filler, shape=g.result.shape, mode=kind)


@translation("flip")
def _flip(g, x, dims):
    for d in dims:
        x = g.slice(x, d % x.rank, -1, -_LARGE, -1)
    return Value(x.name, tuple(g.result.shape), x.dtype)


@translation("roll")
def _roll(g, x, shifts, dims=()):
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:  # of the elements in their order
        flat = g.op("Reshape", x, g.ints([-1]), shape=(math.prod(x.shape),))
        rolled = _roll(g, flat, shifts, [0])
        return g.op("Reshape", rolled, g.shape_of(x), shape=x.shape)
    for shift, d in zip(shifts, dims):
        left, right = g.slice(x, d % x.rank, -shift, _LARGE), g.slice(x, d % x.rank, 0, -shift)
        name = g.raw("Concat", left.name, right.name, axis=d % x.rank)
        x = Value(name, x.shape, x.dtype)
    return x


@translation("tril triu")
def _triangle(g, x, diagonal=0):
    # Trilu does not take every dtype in runtimes.
    cast = g.cast(x, dtypes.int64) if x.dtype is dtypes.bool else x
    out = g.op("Trilu", cast, g.array(np.int64(diagonal)), upper=int(g.name == "triu"))
    return g.cast(out, x.dtype)


# --- indices


@translation("index_select")
def _index_select(g, x, dim, index):
    return g.op("Gather", x, index, shape=g.result.shape, axis=dim)


@translation("embedding")
def _embedding(g, weight, index, *args):
    return g.op("Gather", weight, index, shape=g.result.shape, axis=0)


@translation("embedding_bag")
def _embedding_bag(g, weight, indices, offsets, scale_grad=False, mode=0, sparse=False, terms=None, last=False, padding=None):
    rows = g.op("Gather", weight, indices, axis=0)
    count = g.slice(offsets, 0, 0, -1) if last else offsets
    # (bags, indices): whether an index is in a bag, behind its start and before the next one's
    places = g.raw("Range", g.array(np.int64(0)), g.raw("Squeeze", g.shape_of(indices)), g.array(np.int64(1)))
    starts = g.raw("Unsqueeze", g.cast(count, dtypes.int64).name, g.ints([1]))
    begun = g.raw("Cast", g.raw("GreaterOrEqual", places, starts), to=7)
    bags = g.raw("Sub", g.raw("ReduceSum", begun, g.ints([0]), keepdims=1), g.array(np.int64(1)))
    numbers = g.raw("Range", g.array(np.int64(0)), g.raw("Squeeze", g.shape_of(count)), g.array(np.int64(1)))
    inside = g.raw("Equal", bags, g.raw("Unsqueeze", numbers, g.ints([1])))
    if padding is not None and padding >= 0:
        other = g.raw("Not", g.raw("Equal", g.cast(indices, dtypes.int64).name, g.array(np.int64(padding))))
        inside = g.raw("And", inside, other)
    if terms is not None:
        rows = g.op("Mul", rows, g.unsqueeze(terms, [1]))
    kind, shape = rows.dtype, tuple(g.result.shape)
    chosen = g.cast(Value(inside, (*shape[:1], *indices.shape), dtypes.bool), kind)
    if mode == 2:
        wide = g.raw("Unsqueeze", inside, g.ints([2]))
        hidden = g.raw("Where", wide, g.unsqueeze(rows, [0]).name, g.number(-np.inf, kind).name)
        most = g.raw("ReduceMax", hidden, g.ints([1]), keepdims=0)
        some = g.raw("ReduceMax", chosen.name, g.ints([1]), keepdims=1)
        empty = g.raw("Equal", some, g.number(0, kind).name)
        out = Value(g.raw("Where", empty, g.number(0, kind).name, most), shape, kind)
    else:
        out = g.op("MatMul", chosen, rows, shape=shape)
        if mode == 1:
            size = g.raw("Max", g.raw("ReduceSum", chosen.name, g.ints([1]), keepdims=1), g.number(1, kind).name)
            out = Value(g.raw("Div", out.name, size), shape, kind)
    return out, None, None, None


@translation("gather")
def _gather(g, x, dim, index, sparse_grad=False):
    return g.op("GatherElements", x, index, shape=g.result.shape, axis=dim)


@translation("scatter scatter_add")
def _scatter(g, x, dim, index, source):
    if not isinstance(source, Value):
        source = g.op("Expand", g.number(source, x.dtype), g.shape_of(index), shape=index.shape)
    reduction = "add" if g.name == "scatter_add" else None
    return g.op("ScatterElements", x, index, source, axis=dim, reduction=reduction)


@translation("index _unsafe_index")
def _index(g, x, indices):
    indices = list(indices) + [None] * (x.rank - len(indices))
    used = [i for i, v in enumerate(indices) if v is not None]
    if any(indices[i].dtype is dtypes.bool for i in used):
        if len(used) > 1 or used[0] != 0:
            raise g.error("a mask beside other indices")
        where = g.op("NonZero", indices[0], dtype=dtypes.int64, shape=(indices[0].rank, 0))
        where = g.raw("Transpose", where.name, perm=[1, 0])
        return g.op("GatherND", x, where, shape=g.result.shape)
    if len(used) == 1:
        return g.op("Gather", x, indices[used[0]], shape=g.result.shape, axis=used[0])
    if used != list(range(used[0], used[-1] + 1)) or used[0] != 0:
        order = used + [d for d in range(x.rank) if d not in used]
        x = g.transpose(x, order)
        if used == list(range(used[0], used[-1] + 1)):
            raise g.error("several index tensors behind other dimensions")
    at, _ = _columns(g, x, indices, used)
    return g.op("GatherND", x, at, shape=g.result.shape)


def _columns(g, x, indices, used):
    """(the places that index tensors of the first dimensions name, a row each; the tensors' shape)."""
    shape = np.broadcast_shapes(*(
        tuple(n if is_static(n) else 1 for n in indices[i].shape) for i in used))
    if any(not is_static(n) for i in used for n in indices[i].shape):
        raise g.error("several index tensors of sizes that vary")
    rank = len(shape)
    columns = []
    for i in used:
        value = g.cast(indices[i], dtypes.int64)
        negative = g.op("Less", value, g.number(0, dtypes.int64), dtype=dtypes.bool)
        size = g.raw("Gather", g.raw("Shape", x.name), g.array(np.int64(len(columns))), axis=0)
        wrapped = g.op("Add", value, size)
        value = g.op("Where", negative, wrapped, value, dtype=dtypes.int64, shape=value.shape)
        value = g.op("Expand", value, g.ints(shape), shape=shape)
        columns.append(g.unsqueeze(value, [rank]))
    return g.concat(columns, rank), shape


@translation("select_scatter slice_scatter")
def _put(g, x, source, dim=0, start=0, end=None, step=1):
    dim %= x.rank
    if g.name == "select_scatter":
        source, end = g.unsqueeze(source, [dim]), start + 1 if start != -1 else _LARGE
    n = x.shape[dim]
    if not is_static(n):
        raise g.error("a write into a part of a dimension that varies")
    index = np.arange(n)[start:end:step].reshape([-1 if i == dim else 1 for i in range(x.rank)])
    index = Value(g.array(index.astype(np.int64)), (), dtypes.int64)
    index = g.op("Expand", index, g.shape_of(source), shape=source.shape)
    return g.op("ScatterElements", x, index, g.cast(source, x.dtype), axis=dim)


@translation("nonzero argwhere")
def _nonzero(g, x):
    places = g.op("NonZero", x, dtype=dtypes.int64, shape=tuple(g.result.shape)[::-1])
    return g.transpose(places, [1, 0])


@translation("masked_select")
def _masked_select(g, x, mask):
    sizes = g.raw("Shape", g.op("And", g.cast(mask, dtypes.bool), _of_bools(g, x)).name)
    x, mask = (g.op("Expand", v, sizes) for v in (x, mask))
    flat, chosen = (g.op("Reshape", v, g.ints([-1])) for v in (x, mask))
    return g.op("Compress", flat, chosen, shape=g.result.shape, axis=0)


def _of_bools(g, x):
    """True in the shape of ``x``."""
    return g.op("Equal", x, x, dtype=dtypes.bool)


@translation("_unique2")
def _unique(g, x, sorted=True, return_inverse=False, return_counts=False):
    values, _, inverse, counts = g.raw("Unique", x.name, outputs=4, sorted=1)
    shapes = [tuple(r.shape) for r in g.results]
    inverse = Value(g.raw("Reshape", inverse, g.raw("Shape", x.name)), shapes[1], dtypes.int64)
    return [Value(values, shapes[0], x.dtype), inverse, Value(counts, shapes[2], dtypes.int64)]


@translation("index_put index_put_ _index_put_impl")
def _index_put(g, x, indices, values, accumulate=False, unsafe=False):
    indices = list(indices) + [None] * (x.rank - len(indices))
    used = [i for i, v in enumerate(indices) if v is not None]
    if len(used) == 1 and indices[used[0]].dtype is dtypes.bool and values.shape in ((), (1,)):
        mask = indices[used[0]]  # a number where the mask says
        if used[0] or accumulate:
            raise g.error("a mask behind other dimensions")
        mask = g.unsqueeze(mask, list(range(mask.rank, x.rank))) if mask.rank < x.rank else mask
        return g.op("Where", mask, g.cast(values, x.dtype), x, shape=x.shape, dtype=x.dtype)
    if used != list(range(len(used))) or any(indices[i].dtype is dtypes.bool for i in used):
        raise g.error("masks, and index tensors behind other dimensions")
    at, shape = _columns(g, x, indices, used)
    rest = [g.shape_of(x, range(len(used), x.rank))] if len(used) < x.rank else []
    sizes = g.raw("Concat", g.ints(shape), *rest, axis=0) if rest else g.ints(shape)
    values = g.op("Expand", g.cast(values, x.dtype), sizes, shape=(*shape, *x.shape[len(used) :]))
    reduction = "add" if accumulate else None
    return g.op("ScatterND", x, at, values, reduction=reduction)


@translation("one_hot")
def _one_hot(g, x, classes=-1):
    values = g.array(np.array([0, 1], np.int64))
    return g.op("OneHot", x, g.array(np.int64(classes)), values, shape=g.result.shape, axis=-1)


# --- reductions

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin",
               "prod": "ReduceProd", "logsumexp": "ReduceLogSumExp"}


def _dims(x, dim):
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.rank))
    return [d % max(x.rank, 1) for d in ([dim] if isinstance(dim, int) else dim)]


def _reduce(g, kind, x, dims, keepdim):
    if not x.rank:
        return x
    dtype = g.result.dtype
    shape = [1 if i in dims else n for i, n in enumerate(x.shape) if keepdim or i not in dims]
    if kind == "ReduceSum" or g.opset >= 18:
        return g.op(kind, x, g.ints(dims), shape=shape, dtype=dtype, keepdims=int(keepdim))
    return g.op(kind, x, shape=shape, dtype=dtype, axes=dims, keepdims=int(keepdim))


@translation("sum mean amax amin prod logsumexp")
def _reduction(g, x, dim=None, keepdim=False, dtype=None):
    x = g.cast(x, g.result.dtype)
    return _reduce(g, _REDUCTIONS[g.name], x, _dims(x, dim), keepdim)


@translation("max min")
def _max(g, x, dim=None, keepdim=False):
    name = "ReduceMax" if g.name == "max" else "ReduceMin"
    if isinstance(dim, Value):
        return g.translate("maximum" if g.name == "max" else "minimum", x, dim)
    if dim is None:
        return _reduce(g, name, x, list(range(x.rank)), False)
    values = _reduce(g, name, x, [dim % x.rank], keepdim)
    return values, _arg(g, x, dim, keepdim, g.name)


def _arg(g, x, dim, keepdim, name):
    dim %= x.rank
    shape = [1 if i == dim else n for i, n in enumerate(x.shape) if keepdim or i != dim]
    return g.op("ArgMax" if "max" in name else "ArgMin", x, shape=shape, dtype=dtypes.int64, axis=dim,
                keepdims=int(keepdim))


@translation("argmax argmin")
def _argmax(g, x, dim=None, keepdim=False):
    if dim is None:
        flat = g.op("Reshape", x, g.ints([-1]), shape=(math.prod(x.shape),))
        return _arg(g, flat, 0, False, g.name)
    return _arg(g, x, dim, keepdim, g.name)


@translation("all any")
def _all(g, x, dim=None, keepdim=False):
    numbers = g.cast(g.cast(x, dtypes.bool), dtypes.int32)
    kind = "ReduceMin" if g.name == "all" else "ReduceMax"
    out = _reduce(g, kind, numbers, _dims(x, dim), keepdim)
    return g.cast(Value(out.name, out.shape, dtypes.int32), dtypes.bool)


@translation("var std var_mean")
def _var(g, x, dim=None, correction=1, keepdim=False, unbiased=None):
    if isinstance(dim, bool):
        dim, correction = None, int(dim)
    if isinstance(correction, bool):
        correction = int(correction)
    dims = _dims(x, dim)
    count = math.prod(x.shape[d] for d in dims)
    mean = _reduce(g, "ReduceMean", x, dims, True)
    apart = g.op("Sub", x, mean)
    total = _reduce(g, "ReduceSum", g.op("Mul", apart, apart), dims, keepdim)
    correction = 1 if correction is None else correction
    if all(is_static(x.shape[d]) for d in dims):
        size = g.number(max(count - correction, 0), x.dtype)
    else:
        product = g.raw("ReduceProd", g.shape_of(x, dims), keepdims=0)
        size = g.cast(Value(product, (), dtypes.int64), x.dtype)
        size = g.op("Sub", size, g.number(correction, x.dtype))
    var = g.op("Div", total, size)
    if g.name == "var_mean":
        return var, mean if keepdim else g.squeeze(mean, dims)
    return g.op("Sqrt", var) if g.name == "std" else var


@translation("linalg_vector_norm norm")
def _norm(g, x, p=2, dim=None, keepdim=False, dtype=None):
    kinds = {2: "ReduceL2", 1: "ReduceL1", None: "ReduceL2"}
    if p not in kinds:
        raise g.error(f"the norm of order {p}")
    return _reduce(g, kinds[p], x, _dims(x, dim), keepdim)


@translation("normalize")
def _normalize(g, x, p=2.0, dim=1, eps=1e-12):
    norm = g.translate("linalg_vector_norm", x, p, dim, True)
    return g.op("Div", x, g.op("Max", norm, g.number(eps, x.dtype)))


@translation("cosine_similarity")
def _cosine(g, x, y, dim=1, eps=1e-8):
    shape = g.result.shape
    dot = _reduce(g, "ReduceSum", g.op("Mul", x, y), [dim % x.rank], False)
    norms = [g.translate("linalg_vector_norm", v, 2, dim, False) for v in (x, y)]
    norms = [g.op("Max", n, g.number(eps, x.dtype)) for n in norms]
    return g.op("Div", dot, g.op("Mul", *norms), shape=shape)


@translation("cumsum")
def _cumsum(g, x, dim, dtype=None):
    return g.op("CumSum", g.cast(x, g.result.dtype), g.array(np.int64(dim)))


@translation("topk")
def _topk(g, x, k, dim=-1, largest=True, sorted=True):
    names = g.raw("TopK", x.name, g.sizes([k]), outputs=2, axis=dim % x.rank, largest=int(largest),
                  sorted=int(sorted))
    return [Value(n, tuple(r.shape), r.dtype) for n, r in zip(names, g.results)]


@translation("kthvalue median msort quantile")
def _ordered(g, x, *args, **kwargs):
    if g.name == "msort":
        return g.translate("sort", x, 0)[0]
    if g.name == "quantile" or not is_static(x.shape[_dim_of_order(g, x, args)] if x.rank else 1):
        raise g.error("of a size that varies")
    if g.name == "median" and not args:
        flat = g.reshape(x, (math.prod(x.shape),))
        return _nth(g, flat, (flat.shape[0] - 1) // 2, 0, False)[0]
    dim = _dim_of_order(g, x, args)
    n, rest = (args[0] - 1, args[2:]) if g.name == "kthvalue" else ((x.shape[dim] - 1) // 2, args[1:])
    return _nth(g, x, n, dim, bool(rest and rest[0]) or kwargs.get("keepdim", False))


def _dim_of_order(g, x, args):
    args = args[1:] if g.name == "kthvalue" else args
    return (args[0] if args else -1) % max(x.rank, 1)


def _nth(g, x, n, dim, keepdim):
    """(the n-th smallest elements of a dimension, where they are)."""
    names = g.raw("TopK", x.name, g.ints([n + 1]), outputs=2, axis=dim, largest=0, sorted=1)
    at = g.array(np.int64(n) if not keepdim else np.array([n]))
    shape = [1 if i == dim else s for i, s in enumerate(x.shape) if keepdim or i != dim]
    return [
        Value(g.raw("Gather", name, at, axis=dim), tuple(shape), dtype)
        for name, dtype in zip(names, (x.dtype, dtypes.int64))
    ]


@translation("sort argsort")
def _sort(g, x, dim=-1, descending=False, stable=False):
    size = g.shape_of(x, [dim % x.rank])
    names = g.raw("TopK", x.name, size, outputs=2, axis=dim % x.rank, largest=int(descending), sorted=1)
    values = Value(names[0], x.shape, x.dtype), Value(names[1], x.shape, dtypes.int64)
    return values[1] if g.name == "argsort" else values

