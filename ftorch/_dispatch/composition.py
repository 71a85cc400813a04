"""What users' ``__torch_dispatch__`` sees of the engine's ops: the ops that PyTorch's are made of.

Many functions are one kernel here that ATen computes by another op (``layer_norm`` by ``native_layer_norm``,
whose first result it is) or composes of several. The modes and classes of this package know the kernels
themselves; those that users write get ATen's. `renamed` says which op stands for a kernel, `composed` which
calls make it up.
"""

from __future__ import annotations

import contextlib
import functools
import math

from .. import _ops
from .._alias import is_own
from ..eager.autograd import tape
from ..eager.autograd.derivative_kernels import Derived
from ..eager.call import op as _op
from ..eager.call.call_checks import MixedDevices
from ..eager.core import api
from ..eager.core.dtype import uint8
from ..eager.core.formats import strided
from ..eager.core.registry import STATIC
from ..eager.dispatch.levels import wrapped_plan
from ..eager.tensor import TensorBase
from . import gradients

_REDUCTIONS = ("none", "mean", "sum")
_rules: dict = {}
_compositions: dict = {}


@functools.cache
def is_users(kind) -> bool:
    """Whether the ``__torch_dispatch__`` of a class or mode was written outside this package, or sees what such ones see."""
    if getattr(kind, "_ftorch_sees_aten", False):
        return True
    function = kind.__torch_dispatch__
    return not is_own(getattr(getattr(function, "__func__", function), "__module__", None))


def renames(names):
    def declare(function):
        for name in names.split():
            _rules[name] = function
        return function

    return declare


def composes(names):
    def declare(function):
        for name in names.split():
            _compositions[name] = function
        return function

    return declare


def renamed(definition, operands, static):
    """(overload, args, kwargs, which result it is or None) of ATen's op for a kernel's call, or None."""
    rule = _rules.get(definition.name)
    if rule is None:
        return None
    dynamic, fixed = iter(operands), iter(static)
    given = {
        a.name: next(fixed) if k == STATIC else next(dynamic)
        for a, k in zip(definition.schema.arguments, definition.kinds)
    }
    return rule(_ops.ops.aten, definition, given)


def composed(op, operands, static):
    """The result of the calls that make up a kernel's or a gradient's call; None if it is one op.

    Arguments that the kernel refuses are refused by it: what it is made of might take them for others.
    """
    definition = op.definition
    if definition.__class__ is Derived:
        return gradients.of_op(definition, operands, *tape.beside())
    rule = _compositions.get(op.name)
    if not op.host and (rule is not None or op.name in _rules):
        with contextlib.suppress(MixedDevices):  # which the call itself moves
            wrapped_plan(op, operands, static)
    return None if rule is None else rule(*operands, *static)


# --- one op of another name --------------------------------------------------------------


def first(given):
    return next(iter(given.values()))


def numbers(value, count):
    value = [value] if isinstance(value, int) else list(value)
    return value * count if len(value) == 1 else value


@renames("layer_norm")
def _layer_norm(aten, _, given):
    values = [given[name] for name in ("input", "normalized_shape", "weight", "bias", "eps")]
    values[1] = list(values[1])
    return aten.native_layer_norm.default, tuple(values), {}, 0


@renames("group_norm")
def _group_norm(aten, _, given):
    x, groups = given["input"], given["num_groups"]
    n, c = x.shape[:2]
    args = (x, given["weight"], given["bias"], n, c, x.shape[2:].numel(), groups, given["eps"])
    return aten.native_group_norm.default, args, {}, 0


@renames("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
def _convolution(aten, definition, given):
    transposed = "transpose" in definition.name
    n = int(definition.name[-2])
    if isinstance(given["padding"], str) or given["input"].dim() != n + 2:
        return None
    sizes = [numbers(given[name], n) for name in ("stride", "padding", "dilation")]
    output = numbers(given["output_padding"], n) if transposed else [0] * n
    args = (given["input"], given["weight"], given["bias"], *sizes, transposed, output, given["groups"])
    return aten.convolution.default, args, {}, None


@renames("max_pool2d max_pool3d")
def _max_pool(aten, definition, given):
    n = int(definition.name[-2])
    if given["ceil_mode"]:
        return None
    args = [given["self"], numbers(given["kernel_size"], n)]
    rest = [given["stride"] or [], given["padding"], given["dilation"]]
    while rest and rest[-1] in ([], 0, 1, [0] * n, [1] * n):
        rest.pop()
    args += [numbers(r, n) if r else [] for r in rest]
    return getattr(aten, f"{definition.name}_with_indices").default, tuple(args), {}, 0


@renames("std var std_mean var_mean")
def _spread(aten, definition, given):
    overload = getattr(aten, definition.name).correction
    if "correction" in given:
        return None
    kwargs = {"keepdim": True} if given.get("keepdim") else {}
    dim = given.get("dim")
    if dim is None and given.get("unbiased", True) and not kwargs:
        return overload, (given["self"],), {}, None
    kwargs["correction"] = int(bool(given.get("unbiased", True)))
    dims = () if dim is None else ([dim] if isinstance(dim, int) else list(dim),)
    return overload, (given["self"], *dims), kwargs, None


@renames("adaptive_avg_pool2d")
def _adaptive(aten, _, given):
    size = numbers(given["output_size"], 2)
    if size == [1, 1]:
        return aten.mean.dim, (given["self"], [-1, -2], True), {}, None
    return aten._adaptive_avg_pool2d.default, (given["self"], size), {}, None


@renames("nll_loss")
def _nll_loss(aten, _, given):
    reduction, x = given["reduction"], first(given)
    if x.dim() > 2 or reduction not in _REDUCTIONS:
        return None
    args = (x, given["target"], given["weight"], _REDUCTIONS.index(reduction), given["ignore_index"])
    return aten.nll_loss_forward.default, args, {}, 0


@renames("mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits")
def _loss(aten, definition, given):
    reduction = given["reduction"]
    if reduction not in _REDUCTIONS:
        return None
    overload = getattr(aten, definition.name).default
    func, args, kwargs = _ops.overload_call(definition, *_split(definition, given))
    args = list(args)
    while len(args) > 2 and (args[-1] is None or args[-1] in (1, 1.0)):
        args.pop()
    return overload, tuple(args), kwargs, None


def _split(definition, given):
    values = list(given.values())
    fixed = [v for v, k in zip(values, definition.kinds) if k == STATIC]
    return tuple(v for v, k in zip(values, definition.kinds) if k != STATIC), tuple(fixed)


@renames("logsigmoid")
def _logsigmoid(aten, _, given):
    return aten.log_sigmoid_forward.default, (first(given),), {}, 0


@renames("pad")
def _pad(aten, _, given):
    x = first(given)
    if given["mode"] in ("reflect", "replicate"):
        name = f"{'reflection' if given['mode'] == 'reflect' else 'replication'}_pad{len(given['pad']) // 2}d"
        return getattr(aten, name).default, (x, list(given["pad"])), {}, None
    if given["mode"] != "constant":
        return None
    value = 0.0 if given["value"] is None else given["value"]
    return aten.constant_pad_nd.default, (x, list(given["pad"]), value), {}, None


@renames("elu")
def _elu(aten, _, given):
    if given["scale"] != 1 or given["input_scale"] != 1:
        return None
    return aten.elu.default, (given["self"], given["alpha"]), {}, None


@renames("linalg_vector_norm")
def _vector_norm(aten, _, given):
    if given["ord"] != 2 or given.get("dim") is not None or given.get("keepdim") or given.get("dtype") is not None:
        return None
    return aten.linalg_vector_norm.default, (given["self"],), {}, None


@renames("square")
def _square(aten, _, given):
    return aten.pow.Tensor_Scalar, (given["self"], 2), {}, None


@renames("linalg_det")
def _det(aten, _, given):
    return aten._linalg_det.default, (first(given),), {}, 0


@renames("argsort")
def _argsort(aten, _, given):
    args = [given["dim"], given["descending"]]
    while args and args[-1] in (-1, False):
        args.pop()
    return aten.sort.default, (first(given), *args), {}, 1


@renames("sub")
def _sub(aten, _, given):
    x, y = given["self"], given["other"]
    if isinstance(x, TensorBase) or not isinstance(y, TensorBase):
        return None
    return aten.rsub.Scalar, (y, x), {}, None


def _of_a_number(name, overload):
    """An operator whose first operand is a number is an overload of its own."""

    @renames(name)
    def _(aten, _, given):
        x, y = list(given.values())[:2]
        if isinstance(x, TensorBase) or not isinstance(y, TensorBase):
            return None
        return getattr(getattr(aten, name), overload), (x, y), {}, None


_of_a_number("pow", "Scalar")
_of_a_number("remainder", "Scalar_Tensor")


# --- views ------------------------------------------------------------------------------------


@renames("numpy_T")
def _numpy_t(aten, _, given):
    x = first(given)
    return aten.permute.default, (x, list(range(x.dim()))[::-1]), {}, None


@renames("adjoint")
def _adjoint(aten, _, given):
    x = first(given)
    return None if x.is_complex() else (aten.transpose.int, (x, -2, -1), {}, None)


@renames("mT")
def _m_t(aten, _, given):
    return aten.transpose.int, (first(given), -2, -1), {}, None


@renames("movedim")
def _movedim(aten, _, given):
    x, source, destination = given.values()
    n = x.dim()
    source = [d % n for d in numbers(source, 1)]
    destination = [d % n for d in numbers(destination, 1)]
    rest, order = iter([d for d in range(n) if d not in source]), []
    for place in range(n):
        order.append(source[destination.index(place)] if place in destination else next(rest))
    return aten.permute.default, (x, order), {}, None


@renames("narrow")
def _narrow(aten, _, given):
    x, dim, start, length = given.values()
    start = start + x.shape[dim] if start < 0 else start
    return aten.slice.Tensor, (x, int(dim), start, start + length), {}, None


@renames("swapaxes swapdims")
def _swapaxes(aten, _, given):
    return aten.transpose.int, tuple(given.values()), {}, None


@renames("broadcast_to")
def _broadcast_to(aten, _, given):
    x, size = list(given.values())[:2]
    return aten.expand.default, (x, list(size)), {}, None


# --- several ops --------------------------------------------------------------------------


def call_named(name, *operands):
    return _op.call(_op.op_named(name), operands)


def _unsafe_view(x, size):
    return _ops.ops.aten._unsafe_view.default(x, list(size))


def _rows(x):
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


@composes("matmul")
def _matmul(x, y):
    """The products that PyTorch's ``matmul`` is made of."""
    a, b = x.dim(), y.dim()
    name = {(2, 2): "mm", (1, 1): "dot", (2, 1): "mv"}.get((a, b))
    if name is not None:
        return call_named(name, x, y)
    if a >= 3 and b in (1, 2):
        rows = call_named("mm" if b == 2 else "mv", _rows(x), y)
        return _unsafe_view(rows, (*x.shape[:-1], *y.shape[1:]))
    if (a, b) == (1, 2):
        return call_named("mm", x.unsqueeze(0), y).squeeze_(0)
    if a < 3 or b < 3:
        return None
    batch = _broadcast(x.shape[:-2], y.shape[:-2])
    x3 = x.expand(*batch, *x.shape[-2:]).reshape(math.prod(batch), *x.shape[-2:])
    y3 = y.expand(*batch, *y.shape[-2:]).reshape(math.prod(batch), *y.shape[-2:])
    return _unsafe_view(call_named("bmm", x3, y3), (*batch, x.shape[-2], y.shape[-1]))


def _broadcast(*shapes):
    return api.broadcast_shapes(*shapes)


@composes("linear")
def _linear(x, weight, bias=None):
    if weight.dim() != 2 or x.dim() < 2:
        return None
    if bias is None:
        turned = weight.t()
        if x.dim() == 2:
            return call_named("mm", x, turned)
        rows = call_named("mm", _rows(x), turned)
        return _unsafe_view(rows, (*x.shape[:-1], weight.shape[0]))
    out = api.addmm(bias, x if x.dim() == 2 else _rows(x), weight.t())
    return out if x.dim() == 2 else out.view(*x.shape[:-1], out.shape[-1])


@composes("l1_loss")
def _l1_loss(x, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    if weight is not None or size_average is not None or reduce is not None or x.shape != target.shape:
        return None
    distance = (x - target).abs()
    return distance if reduction == "none" else getattr(distance, reduction)()


@composes("normalize")
def _normalize(x, p, dim, eps):
    return x / api.linalg.vector_norm(x, p, [dim], True).clamp_min(eps).expand_as(x)


@composes("isfinite")
def _isfinite(x):
    if not x.is_floating_point():
        return None
    bounded = x.abs() != float("inf")
    return (x == x) * bounded


@composes("where")
def _where(condition, x, y):
    numbers = [not isinstance(v, TensorBase) for v in (x, y)]
    if not any(numbers) or all(numbers):
        return None
    beside = y if numbers[0] else x
    if not beside.is_floating_point():
        return None
    options = {"dtype": beside.dtype, "layout": strided, "device": beside.device}
    x, y = (_ops.ops.aten.scalar_tensor.default(v, **options) if n else v for v, n in zip((x, y), numbers))
    return call_named("where.self", condition, x, y)


@composes("outer")
def _outer(x, y):
    return None if x.dim() != 1 or y.dim() != 1 else x.reshape(x.shape[0], 1) * y


@composes("div")
def _div(x, y):
    return None if isinstance(x, TensorBase) or not isinstance(y, TensorBase) else y.reciprocal() * x


def split_call(aten, name, self, size=None, dim=0):
    """(overload, arguments) of ATen's op for ``split``, ``chunk`` or ``unbind``, or an unsafe form of theirs."""
    if name.startswith("unsafe_"):
        whole, args = split_call(aten, name.removeprefix("unsafe_"), self, size, dim)
        return (aten.unsafe_split.Tensor if whole is aten.split.Tensor else aten.unsafe_split_with_sizes.default), args
    if name == "unbind":
        dim = dim if size is None else size
        return aten.unbind.int, (self,) if dim == 0 else (self, dim)
    if name == "chunk":
        size = max(-(-self.shape[dim] // size), 1)
    rest = () if dim == 0 else (dim,)
    if isinstance(size, int):
        return aten.split.Tensor, (self, size, *rest)
    return aten.split_with_sizes.default, (self, list(size), *rest)


def batch_norm(aten, input, running_mean, running_var, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-05):
    """The first result of ATen's op for ``batch_norm``."""
    aten.empty.memory_format([0], dtype=uint8, layout=strided, device=input.device)  # what cuDNN would reserve
    op = aten.native_batch_norm.default
    return op(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


from . import implicit_layers, implicit_math  # noqa: E402, F401  (they declare rules)

__all__ = ["composed", "is_users", "renamed"]
