"""Translations of ops that draw random numbers: ONNX's own, from the runtime's generator."""

from __future__ import annotations

from ..eager.core import dtype as dtypes
from ._builder import Value, onnx_type
from ._ops_elementwise import filled
from ._table import Context, translation


def _drawn(g: Context, kind, like, dtype, **bounds):
    """Numbers of the shape of a value, in floating point."""
    wanted = dtype if dtype.is_floating_point else dtypes.float32
    # onnxruntime draws no narrower ones.
    wide = wanted if wanted.name in ("float32", "float64") else dtypes.float32
    out = g.op(kind, g.cast(like, wide), dtype=wide, **{k: float(v) for k, v in bounds.items()})
    return g.cast(out, wanted)


@translation("rand randn")
def _new(g: Context, size, *_, dtype=None, **__):
    dtype = g.result.dtype
    like = filled(g, 0, g.sizes(size))
    return _drawn(g, "RandomNormalLike" if g.name == "randn" else "RandomUniformLike", like, dtype)


@translation("rand_like")
def _rand_like(g: Context, x, **_):
    return _drawn(g, "RandomUniformLike", x, g.result.dtype)


@translation("randn_like")
def _randn_like(g: Context, x, **_):
    return _drawn(g, "RandomNormalLike", x, g.result.dtype)


def _integers(g: Context, like, low, high):
    # From a draw in double precision: float32 would leave out numbers.
    out = _drawn(g, "RandomUniformLike", like, dtypes.float64, low=low, high=high)
    return g.cast(g.op("Floor", out), g.result.dtype)


@translation("randint")
def _randint(g: Context, *args, **_):
    *bounds, size = args
    low, high = (0, *bounds)[-2:]
    return _integers(g, filled(g, 0, g.sizes(size)), low, high)


@translation("randint_like")
def _randint_like(g: Context, x, *bounds, **_):
    low, high = (0, *bounds)[-2:]
    return _integers(g, x, low, high)


@translation("bernoulli")
def _bernoulli(g: Context, x, p=None, **_):
    chance = x if p is None else p
    wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    drawn = _drawn(g, "RandomUniformLike", x, wide)
    return g.cast(g.op("Less", drawn, g.cast(chance, wide), dtype=dtypes.bool), g.result.dtype)


@translation("dropout")
def _dropout(g: Context, x, p=0.5, train=True):
    if not train:
        return x
    # Not ONNX's Dropout: onnxruntime takes it out of models, in training mode too.
    kept = g.op("GreaterOrEqual", _drawn(g, "RandomUniformLike", x, x.dtype),
                g.number(p, x.dtype), dtype=dtypes.bool)
    scaled = g.op("Mul", x, g.number(1 / (1 - p) if p < 1 else 0.0, x.dtype))
    return g.op("Where", kept, scaled, g.number(0, x.dtype), dtype=x.dtype)


@translation("multinomial")
def _multinomial(g: Context, weights, count, replacement=False, **_):
    rows = weights if weights.rank == 2 else g.unsqueeze(weights, [0])
    logits = g.op("Log", g.cast(rows, dtypes.float32))
    if replacement:
        kind = onnx_type(dtypes.int64)
        name = g.raw("Multinomial", logits.name, sample_size=count, dtype=kind)
    else:
        # The largest of the logits plus Gumbel noise are a sample without replacement.
        noise = _drawn(g, "RandomUniformLike", logits, dtypes.float32)
        noise = g.op("Neg", g.op("Log", g.op("Neg", g.op("Log", noise))))
        _, name = g.raw("TopK", g.op("Add", logits, noise).name, g.ints([count]), outputs=2)
    out = Value(name, (rows.shape[0], count), dtypes.int64)
    return out if weights.rank == 2 else g.squeeze(out, [0])
