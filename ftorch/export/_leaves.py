"""Composites that an exported graph has as one ATen op: layers, creation, random numbers, pieces.

The rules say how the arguments of Python's function become those of ATen's op. What has no rule is
traced through to the ops it is made of.
"""

from __future__ import annotations

import functools
import inspect

from .._dispatch import composition
from .._ops import OpOverload, ops
from ..eager.core import api as torch
from ..eager.core.device import get_default_device
from ..eager.core.public_functions import python_of
from ..eager.kernels.nn.interpolation import PADDINGS, SAMPLINGS
from ..eager.tensor import TensorBase
from ._leaf_calls import CALLS

# name of the composite: ATen's overload and its arguments, by the composite's names. ``name=value``
# is left out where it is the default, ``name:=value`` is no argument of the composite.
_RULES = """
batch_norm: batch_norm.default input weight bias running_mean running_var training momentum eps cudnn:=False
instance_norm: instance_norm.default input weight bias running_mean running_var use_input_stats momentum eps cudnn:=False
chunk: chunk.default input chunks dim=0
flatten: flatten.using_ints input start_dim=0 end_dim=-1
gru: gru.input input hx params has_biases num_layers dropout train bidirectional batch_first
lstm: lstm.input input hx params has_biases num_layers dropout train bidirectional batch_first
rnn_relu: rnn_relu.input input hx params has_biases num_layers dropout train bidirectional batch_first
rnn_tanh: rnn_tanh.input input hx params has_biases num_layers dropout train bidirectional batch_first
ravel: ravel.default input
reshape_as: reshape_as.default self other
view_as: view_as.default self other
expand_as: expand_as.default self other
adjoint: adjoint.default input
column_stack: column_stack.default tensors
dstack: dstack.default tensors
hstack: hstack.default tensors
vstack: vstack.default tensors
split_with_sizes: split_with_sizes.default input split_sizes dim=0
unbind: unbind.int input dim=0
"""


class _Rule:
    def __init__(self, text):
        self.overload, *self.arguments = text.split()

    def __call__(self, given):
        out = []
        for text in self.arguments:
            name, constant, value = text.partition(":=")
            if constant:
                out.append((value == "True", False))
                continue
            name, _, default = text.partition("=")
            value = given[name]
            out.append((value, bool(default) and repr(value) == default))
        while out and out[-1][1]:
            out.pop()
        packet, _, overload = self.overload.partition(".")
        return getattr(getattr(ops.aten, packet), overload), tuple(v for v, _ in out), {}


_TABLE = {
    name: _Rule(rule)
    for name, _, rule in (line.partition(": ") for line in _RULES.strip().splitlines())
}


@functools.cache
def _signature(function):
    return inspect.signature(python_of(function))


def _bound(function, args, kwargs):
    bound = _signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _options(given, names=("dtype", "device")):
    return {k: given[k] for k in names if given.get(k) is not None}


def _sizes(values):
    """The sizes of ``zeros(2, 3)``, ``zeros((2, 3))`` or ``zeros(size=(2, 3))``."""
    sizes, size = values
    if size is None:
        size = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return [int(n) for n in size]


def _of_sizes(name):
    def rule(given):
        sizes = _sizes((given["sizes_"], given["size"]))
        overload = "memory_format" if name == "empty" else "default"
        return getattr(getattr(ops.aten, name), overload), (sizes,), _options(given)

    return rule


def _of_new(name):
    def rule(given):
        if name == "new_full":
            args = [int(n) for n in given["size"]], given["fill_value"]
        else:
            args = (_sizes((given["sizes_"], given["size"])),)
        return getattr(ops.aten, name).default, (given["self"], *args), _options(given)

    return rule


def _like(name):
    def rule(given):
        args = (given["input"],) + ((given["fill_value"],) if name == "full_like" else ())
        return getattr(ops.aten, name).default, args, _options(given)

    return rule


def _arange(given):
    start, end, step = given["start"], given["end"], given["step"]
    if end is None:
        start, end = 0, start
    options = _options(given)
    if step != 1:
        return ops.aten.arange.start_step, (start, end, step), options
    if start != 0:
        return ops.aten.arange.start, (start, end), options
    return ops.aten.arange.default, (end,), options


def _full(given):
    return ops.aten.full.default, (list(given["size"]), given["fill_value"]), _options(given)


def _eye(given):
    if given["m"] is None:
        return ops.aten.eye.default, (given["n"],), _options(given)
    return ops.aten.eye.m, (given["n"], given["m"]), _options(given)


def _linspace(given):
    return ops.aten.linspace.default, (given["start"], given["end"], given["steps"]), _options(given)


def _split(given):
    tensor = given["tensor"] if "tensor" in given else given["self"]
    size = given.get("split_size_or_sections", given.get("split_size"))
    last = () if given["dim"] == 0 else (given["dim"],)
    if isinstance(size, (list, tuple)):
        return ops.aten.split_with_sizes.default, (tensor, list(size), *last), {}
    return ops.aten.split.Tensor, (tensor, size, *last), {}


def _attention(given):
    args = [given[k] for k in ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")]
    while len(args) > 3 and not isinstance(args[-1], TensorBase) and args[-1] in (None, 0.0, False):
        args.pop()
    options = {k: given[k] for k in ("scale", "enable_gqa") if given[k] not in (None, False)}
    return ops.aten.scaled_dot_product_attention.default, tuple(args), options


def _embedding(given):
    if given["max_norm"] is not None:
        return None
    weight, padding = given["weight"], given["padding_idx"]
    args = [-1 if padding is None else padding % weight.shape[0], given["scale_grad_by_freq"],
            given["sparse"]]
    while args and args[-1] in (False, -1) and args[-1] is not True:
        args.pop()
    return ops.aten.embedding.default, (weight, given["input"], *args), {}


_MODES = ("sum", "mean", "max")


def embedding_bag(whole, function, args, kwargs):
    """The same (see `leaf`) of bags of embeddings, whose overload has four results.

    Bags of one length get the offsets that they have.
    """
    try:
        given = _bound(function, args, kwargs)
    except TypeError:
        return None
    weight, indices, offsets, terms = (given[k] for k in ("weight", "input", "offsets", "per_sample_weights"))
    if given["max_norm"] is not None or given["mode"] not in _MODES or indices.is_floating_point():
        return None
    if (indices.dim(), offsets is None) not in ((1, False), (2, True)):
        return None  # an error
    last = given["include_last_offset"]
    if offsets is None:
        offsets = torch.arange(0, indices.numel(), indices.size(1), dtype=indices.dtype, device=indices.device)
        last = False
        indices, terms = (None if t is None else whole(ops.aten.reshape.default, (t, [-1]), {}) for t in (indices, terms))
    values = weight, indices, offsets, given["scale_grad_by_freq"], _MODES.index(given["mode"]), given["sparse"], terms, last
    return ops.aten.embedding_bag.padding_idx, (*values, given["padding_idx"]), {}


def _interpolate(given):
    mode, rank = given["mode"], given["input"].dim() - 2
    if mode == "area" or (given["antialias"] and mode != "bilinear") or (
        given["scale_factor"] is not None and given["recompute_scale_factor"]
    ):
        return None
    size, scale = given["size"], given["scale_factor"]
    size = [size] * rank if isinstance(size, int) else size and list(size)
    scale = [float(scale)] * rank if isinstance(scale, (int, float)) else scale and list(scale)
    names = {"linear": "linear1d", "bilinear": "bilinear2d", "trilinear": "trilinear3d",
             "bicubic": "bicubic2d", "nearest": f"nearest{rank}d"}
    align = () if mode.startswith("nearest") else (bool(given["align_corners"]),)
    name = f"_upsample_nearest_exact{rank}d" if mode == "nearest-exact" else f"upsample_{names[mode]}"
    overload = getattr(ops.aten, f"_{name}_aa" if given["antialias"] else name).vec
    return overload, (given["input"], size, *align, scale), {}


def _bernoulli(given):
    if given["generator"] is not None:
        return None
    if given["p"] is None:
        return ops.aten.bernoulli.default, (given["input"],), {}
    return ops.aten.bernoulli.p, (given["input"], given["p"]), {}


def _rrelu(given):
    if given.get("generator") is not None:
        return None
    args = [given[k] for k in ("lower", "upper", "training")]
    for default in (False, 1 / 3, 1 / 8):
        if not args or args[-1] != default:
            break
        args.pop()
    return getattr(ops.aten, "rrelu_" if given.get("inplace") else "rrelu").default, (given["input"], *args), {}


def _normal(given):
    if given["generator"] is not None:
        return None
    mean, std, size = given["mean"], given["std"], given["size"]
    kinds = ["Tensor" if isinstance(value, TensorBase) else "float" for value in (mean, std)]
    if size is None:
        last = () if not isinstance(std, TensorBase) and std == 1 else (std,)
        return getattr(ops.aten.normal, "_".join(kinds)), (mean, *last), {}
    if "Tensor" in kinds:
        return None
    options = {**_options(given, ("dtype",)), "device": given["device"] or get_default_device(), "pin_memory": False}
    return ops.aten.normal.float_float, (float(mean), float(std), [int(n) for n in size]), options


def _by_element(name):
    """Random numbers by the parameters of each element."""

    def rule(given):
        if given["generator"] is not None:
            return None
        operands = [value for key, value in given.items() if key not in ("generator", "out")]
        return getattr(ops.aten, name).default, tuple(operands), {}

    return rule


def _multinomial(given):
    if given["generator"] is not None:
        return None
    args = (given["input"], given["num_samples"], given["replacement"])
    return ops.aten.multinomial.default, args, {}


def _einsum(given):
    equation, *tensors = given["args"]
    if not isinstance(equation, str):
        return None
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return ops.aten.einsum.default, (equation, list(tensors)), {}


def _random(name):
    """Random numbers of given sizes, or like a tensor."""

    def rule(given):
        if given.get("generator") is not None:
            return None
        if name.endswith("_like"):
            bounds = tuple(given.get("bounds", ()))
            return getattr(ops.aten, name).default, (given["input"], *bounds), _options(given)
        if name == "randperm":
            return ops.aten.randperm.default, (given["n"],), _options(given)
        if name == "randint":
            args = list(given["args"])
            size = given["size"] if given["size"] is not None else args.pop()
            bounds = [v for v in (given["low"], *args, given["high"]) if v is not None]
            overload = "low" if len(bounds) == 2 else "default"
            return getattr(ops.aten.randint, overload), (*bounds, list(size)), _options(given)
        sizes = _sizes((given["sizes_"], given["size"]))
        return getattr(ops.aten, name).default, (sizes,), _options(given)

    return rule


def _dropout(name):
    def rule(given):
        at = f"{name}_" if given.get("inplace") else name
        training = given["training"] if "training" in given else given["train"]
        return getattr(ops.aten, at).default, (given["input"], given["p"], training), {}

    return rule


# Functions of `torch.nn.functional` say whether they write; ``torch.dropout_`` and its kin say it by their names.
_DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")


_TABLE.update(
    {
        **{n: _dropout(n) for name in _DROPOUTS for n in (name, f"{name}_")},
        **{n: _of_sizes(n) for n in ("zeros", "ones", "empty")},
        **{n: _of_new(n) for n in ("new_zeros", "new_ones", "new_empty", "new_full")},
        **{n: _like(n) for n in ("zeros_like", "ones_like", "empty_like", "full_like")},
        **{n: _random(n) for n in ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like")},
        "arange": _arange,
        "bernoulli": _bernoulli,
        "multinomial": _multinomial,
        "normal": _normal,
        "rrelu": _rrelu,
        **{n: _by_element(n) for n in ("poisson", "binomial", "_standard_gamma", "_sample_dirichlet")},
        "einsum": _einsum,
        "embedding": _embedding,
        "eye": _eye,
        "full": _full,
        "interpolate": _interpolate,
        "linspace": _linspace,
        "scaled_dot_product_attention": _attention,
        "split": _split,
    }
)

CREATING = frozenset(
    "zeros ones empty full arange eye linspace rand randn randint randperm normal".split()
)


def leaf(function, args, kwargs):
    """(overload, args, kwargs) of a composite's call as one ATen op; None if it is traced through."""
    name = function.__name__
    if name in CALLS:
        return CALLS[name](args, kwargs)
    rule = _TABLE.get(name)
    if rule is None or kwargs.get("out") is not None or kwargs.get("requires_grad"):
        return None
    if name in ("lstm", "gru", "rnn_relu", "rnn_tanh"):
        if kwargs or len(args) != 9:
            return None
        return getattr(ops.aten, name).input, tuple(
            list(a) if isinstance(a, (tuple, list)) else a for a in args
        ), {}
    try:
        given = _bound(function, args, kwargs)
    except TypeError:
        return None
    if given.get("inplace") and name not in _DROPOUTS:
        return None
    if name in ("batch_norm", "instance_norm") and "cudnn_enabled" in given:
        return getattr(ops.aten, name).default, tuple(given.values()), {}
    found = rule(given)
    if found is None:
        return None
    if name in CREATING and name != "normal":  # whose options say it
        place = {k: v for k, v in found[2].items() if k != "device"}
        return *found[:2], {**place, "device": found[2].get("device") or get_default_device(), "pin_memory": False}
    if name.startswith("new_") or name.endswith("_like"):
        return *found[:2], {**found[2], "pin_memory": False}
    return found


# --- kernels whose calls are an ATen op of another name --------------------------------


def _attention_kernel(args, kwargs):
    query, key, value, mask, factor, causal = (*args, *(None, None, False)[len(args) - 3 :])
    if factor is not None:
        return None
    last = (mask, 0.0, causal) if causal else (mask,) if mask is not None else ()
    return ops.aten.scaled_dot_product_attention.default, (query, key, value, *last), kwargs


def _batch_norm_kernel(args, kwargs):
    input, mean, var, weight, bias, eps = args
    return ops.aten.batch_norm.default, (
        input, weight, bias, mean, var, False, 0.0, eps, False
    ), {}


def _norm_kernel(name, places):
    """A normalization, of which PyTorch's layers say everything; the last is whether cuDNN is used."""
    defaults = (None, None, 1e-05, False)

    def rule(args, kwargs):
        if kwargs:
            return None
        return getattr(ops.aten, name).default, (*args, *defaults[len(args) - places :]), {}

    return rule


def _argwhere_kernel(args, kwargs):
    return ops.aten.nonzero.default, args, kwargs


def _cross_entropy_kernel(args, kwargs):
    defaults = (None, None, None, None, -100, None, "mean", 0.0)
    given = (*args, *defaults[len(args) :])
    input, target, weight, average, ignore, reduce, reduction, smoothing = given
    if average is not None or reduce is not None:
        return None
    rest = [weight, ("none", "mean", "sum").index(reduction), ignore, smoothing]
    for default in (0.0, -100, 1, None):
        if rest[-1] is not default and rest[-1] != default:
            break
        rest.pop()
    return ops.aten.cross_entropy_loss.default, (input, target, *rest), {}


def _log_sigmoid_kernel(args, kwargs):
    return ops.aten.log_sigmoid.default, args, kwargs


def _affine_grid_kernel(args, kwargs):
    theta, size, align = (*args, *(None,)[len(args) - 2 :])
    return ops.aten.affine_grid_generator.default, (theta, list(size), bool(align)), {}


def _grid_sample_kernel(args, kwargs):
    x, grid, mode, padding, align = (*args, *("bilinear", "zeros", None)[len(args) - 2 :])
    numbers = SAMPLINGS.index(mode), PADDINGS.index(padding)
    return ops.aten.grid_sampler.default, (x, grid, *numbers, bool(align)), {}


def _number(value):
    return isinstance(value, (int, float, complex))


_SCALAR = frozenset(
    "eq ne lt le gt ge remainder fmod bitwise_and bitwise_or bitwise_xor rsub".split()
)
_DEVIATIONS = frozenset("std var std_mean var_mean".split())


def _of_numbers(found):
    """The overload for numbers, where ATen has one of its own."""
    overload, args, kwargs = found
    name = overload._opname
    base = name.removesuffix("_")
    packet = overload.overloadpacket
    if base in _DEVIATIONS and len(args) == 1 and not kwargs:
        return packet.correction, args, kwargs
    if base == "floor_divide" and len(args) == 2 and _number(args[1]):
        return packet.default, args, kwargs
    if base == "remainder" and len(args) == 2 and _number(args[0]):
        return packet.Scalar_Tensor, args, kwargs
    if base == "sub" and len(args) == 2 and _number(args[0]):
        return ops.aten.rsub.Scalar, args[::-1], kwargs
    if base in _SCALAR and len(args) > 1 and _number(args[1]) and _number(args[0]) is False:
        return packet.Scalar, args, kwargs
    if base == "pow" and overload._overloadname == "Tensor_Tensor" and len(args) > 1:
        if _number(args[1]):
            return packet.Tensor_Scalar, args, kwargs
        if _number(args[0]):
            return packet.Scalar, args, kwargs
    if base == "where" and len(args) == 3 and (_number(args[1]) or _number(args[2])):
        kind = ("Scalar" if _number(args[1]) else "") + ("Self" if not _number(args[2]) else "")
        kind = "Scalar" if _number(args[1]) and _number(args[2]) else kind or "ScalarOther"
        return getattr(packet, kind), args, kwargs
    return found


_KERNELS = {
    "_scaled_dot_product_attention": _attention_kernel, "_batch_norm_eval": _batch_norm_kernel,
    "argwhere": _argwhere_kernel, "cross_entropy": _cross_entropy_kernel, "logsigmoid": _log_sigmoid_kernel,
    "layer_norm": _norm_kernel("layer_norm", 2), "group_norm": _norm_kernel("group_norm", 2),
    "affine_grid": _affine_grid_kernel, "grid_sample": _grid_sample_kernel,
}
# Kernels that are Python's functions of several operators in PyTorch; its files can have no others.
_ABSENT = frozenset("local_response_norm multilabel_soft_margin_loss normalize softsign tanhshrink".split())


def written(name, operands):
    """ATen's op for a write of all of a tensor: `copy_`, `fill_`, `zero_`."""
    packet = getattr(ops.aten, f"{name}_")
    kind = "default" if name != "fill" else "Tensor" if isinstance(operands[1], TensorBase) else "Scalar"
    return getattr(packet, kind), tuple(operands), {}


def composed(op, operands, static):
    """The result of the calls that make up a kernel's, for a kernel that ATen does not have; else None."""
    return composition.composed(op, operands, static) if op.name in _ABSENT else None


def kernel(name, found):
    """The ATen op of a kernel's (overload, args, kwargs), where it is one of another name."""
    rule = _KERNELS.get(name)
    if rule is not None:
        return rule(*found[1:]) or found
    return _of_numbers(found) if isinstance(found[0], OpOverload) else found
