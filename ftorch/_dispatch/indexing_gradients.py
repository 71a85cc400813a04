"""Gradients of indexing, joining and moving elements."""

from __future__ import annotations

from ..eager.core import api
from ..eager.tensor import modes
from .gradient_rules import Missing, aten_op, options_of, rule, whole

# --- indexing and joining ----------------------------------------------------------------------


@whole("cat")
def _cat(saved, grad, mask):
    dim, at, found = saved["dim"], 0, []
    for i, g in enumerate(saved.plan.inputs):
        if g.ndim == 1 and g.numel == 0 and grad.dim() != 1:
            found.append(aten_op("zeros")([0], **options_of(grad)))
            continue
        found.append(grad.narrow(dim, at, g.shape[dim]) if mask[i] else None)
        at += g.shape[dim]
    return found


@whole("stack")
def _stack(saved, grad, mask):
    return [grad.select(saved["dim"], i) if m else None for i, m in enumerate(mask)]


@rule("gather")
def _gather(saved, grad, _):
    return api.scatter_add(aten_op("new_zeros")(grad, saved.shape()), saved["dim"], saved["index"], grad)


@rule("scatter_add")
def _scatter_add(saved, grad, index):
    return grad if index == 0 else grad.gather(saved["dim"], saved["index"])


@rule("index_select")
def _index_select(saved, grad, _):
    if modes.levels:
        zeros = aten_op("zeros")(saved.shape(), **options_of(grad))
    else:
        zeros = aten_op("new_zeros")(grad, saved.shape(), **options_of(grad))
    return api.index_add(zeros, saved["dim"], saved["index"], grad)


@rule("index_add")
def _index_add(saved, grad, index):
    if index == saved.place("self"):
        return grad
    source = saved.shape(index)
    if not source or saved["alpha"] != 1:
        raise Missing
    return grad.index_select(saved["dim"], saved["index"]).expand(source)


@rule("scatter")
def _scatter(saved, grad, index):
    if index == saved.place("self"):
        return aten_op("scatter", "value")(grad, saved["dim"], saved["index"], 0)
    return grad.gather(saved["dim"], saved["index"])


@rule("take")
def _take(saved, grad, _):
    x = saved.tensor(0)
    return aten_op("put")(aten_op("zeros_like")(x), saved["index"], grad, True)


@rule("embedding")
def _embedding(saved, grad, _):
    weight = saved.plan.inputs[0]
    rest = saved["padding_idx"], saved["scale_grad_by_freq"]
    return aten_op("embedding_dense_backward")(grad, saved["indices"], weight.shape[0], *rest)


@rule("tril triu")
def _triangle(saved, grad, _):
    k = saved["diagonal"]
    return getattr(grad, saved.plan.op.definition.name)(*((k,) if k else ()))


@rule("flip")
def _flip(saved, grad, _):
    return grad.flip(list(saved["dims"]))


@rule("roll")
def _roll(saved, grad, _):
    shifts, dims = saved["shifts"], saved["dims"]
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [] if dims is None else [dims] if isinstance(dims, int) else list(dims)
    return grad.roll([-s for s in reversed(shifts)], dims[::-1])


@rule("repeat tile")
def _repeat(saved, grad, _):
    repeats, shape = list(saved["repeats" if saved.plan.op.definition.name == "repeat" else "dims"]), saved.shape()
    repeats = [1] * (len(shape) - len(repeats)) + repeats
    shape = [1] * (len(repeats) - len(shape)) + shape
    sizes, dims = [], []
    for count, n in zip(repeats, shape):
        if count != 1:
            dims.append(len(sizes))
            sizes += [count, n]
        else:
            sizes.append(n)
    return grad.view(sizes).sum(dims) if dims else grad


@rule("pad")
def _pad(saved, grad, _):
    if saved["mode"] != "constant":
        raise Missing
    return aten_op("constant_pad_nd")(grad, [-n for n in saved["pad"]])
