"""`lowering`'s rules for the functions of ``torch.nn.functional``."""

from __future__ import annotations

import functools

import ftorch as torch

from ....eager.dispatch.running_calls import own_signature
from .lowering import _RULES, _declared, rule

# --- networks ------------------------------------------------------------------------


@rule("nn.functional.batch_norm")
def _(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
      eps=1e-5):
    args = [input, weight, bias, running_mean, running_var, training, float(momentum or 0.0), eps]
    return "batch_norm", [*args, True], {}


@rule("nn.functional.instance_norm")
def _(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
      momentum=0.1, eps=1e-5):
    args = [input, weight, bias, running_mean, running_var, use_input_stats, float(momentum), eps]
    return "instance_norm", [*args, True], {}


def _convolution(name, n, is_transposed):
    """What ATen's composite calls of a batch: ``_convolution``, with the settings of cuDNN that a CPU has."""

    def apply(*args, **kwargs):
        declared = _declared(name, args, kwargs)
        if declared is None:
            return None
        given = [*declared[1], *(None, 1, 0, 0, 1, 1)[len(declared[1]) - 2:]] if is_transposed else [
            *declared[1], *(None, 1, 0, 1, 1)[len(declared[1]) - 2:]
        ]
        if is_transposed:
            input, weight, bias, stride, padding, output_padding, groups, dilation = given
        else:
            input, weight, bias, stride, padding, dilation, groups = given
            output_padding = 0
        if input.dim() != n + 2:
            return declared
        stride, dilation, output_padding = _each(stride, n), _each(dilation, n), _each(output_padding, n)
        if isinstance(padding, str):
            return "_convolution_mode", [input, weight, bias, stride, padding, dilation, groups], {}
        return "_convolution", [
            input, weight, bias, stride, _each(padding, n), dilation, is_transposed, output_padding, groups,
            False, False, True, True,
        ], {}

    return apply


def _each(value, n):
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * n if len(values) == 1 else values


for _n in (1, 2, 3):
    _RULES["any", f"conv{_n}d"] = _convolution(f"conv{_n}d", _n, False)
    _RULES["any", f"conv_transpose{_n}d"] = _convolution(f"conv_transpose{_n}d", _n, True)


@rule("any.convolution")
def _(*args, **kwargs):
    declared = _declared("convolution", args, kwargs)
    return declared and ("_convolution", [*declared[1], False, False, True, True], {})


def _dropout(name):
    def apply(input, p=0.5, training=True, inplace=False, train=None):
        training = training if train is None else train  # of the functions of the top level
        return name + ("_" if inplace else ""), [input, float(p), training], {}

    return apply


_RULES["nn.functional", "dropout"] = _RULES["", "dropout"] = _dropout("dropout")
for _name in ("dropout1d", "dropout2d", "dropout3d", "feature_dropout"):
    _RULES["nn.functional", _name] = _dropout("feature_dropout")
_RULES["nn.functional", "alpha_dropout"] = _RULES["", "alpha_dropout"] = _dropout("alpha_dropout")
_RULES["", "feature_dropout"] = _dropout("feature_dropout")


def _activation(name, *defaults):
    names = [n for n, _ in defaults]

    def apply(input, *args, inplace=False, **kwargs):
        args = list(args)
        if len(args) > len(names):
            inplace = args.pop()
        values = dict(defaults, **dict(zip(names, args)), **kwargs)
        return name + ("_" if inplace else ""), [input, *(values[n] for n in names)], {}

    return apply


for _name, _defaults in {
    "relu": (), "relu6": (), "silu": (), "mish": (), "hardswish": (), "hardsigmoid": (),
    "selu": (), "celu": (("alpha", 1.0),), "elu": (("alpha", 1.0),),
    "leaky_relu": (("negative_slope", 0.01),), "hardtanh": (("min_val", -1.0), ("max_val", 1.0)),
    "threshold": (("threshold", 0.0), ("value", 0.0)),
}.items():
    _RULES["nn.functional", _name] = _activation(_name, *_defaults)
_RULES["nn.functional", "sigmoid"] = lambda x: ("sigmoid", [x], {})
_RULES["nn.functional", "tanh"] = lambda x: ("tanh", [x], {})


def _softmax(name):
    def apply(input, dim=None, _stacklevel=3, dtype=None):
        return None if dim is None else (name, [input, dim, dtype], {})

    return apply


for _name in ("softmax", "log_softmax"):
    _RULES["nn.functional", _name] = _softmax(_name)


@rule("nn.functional.embedding")
def _(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
      sparse=False):
    if max_norm is not None:
        return None
    index = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return "embedding", [weight, input, index, scale_grad_by_freq, sparse], {}


@rule("any.scaled_dot_product_attention")
def _(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
      enable_gqa=False):
    named = {} if scale is None else {"scale": scale}
    if enable_gqa:
        named["enable_gqa"] = True
    args = [query, key, value, attn_mask, float(dropout_p), is_causal]
    return "scaled_dot_product_attention", args, named


@rule("any._scaled_dot_product_attention")
def _(query, key, value, attn_mask=None, dropout_factor=None, is_causal=False, *, scale=None,
      enable_gqa=False):
    if dropout_factor is not None:
        return None
    named = {} if scale is None else {"scale": scale}
    if enable_gqa:
        named["enable_gqa"] = True
    args = [query, key, value, attn_mask, 0.0, is_causal]
    return "scaled_dot_product_attention", args, named


def _adaptive(name, n):
    def apply(input, output_size, return_indices=False):
        sizes = [output_size] * n if isinstance(output_size, int) else list(output_size)
        sizes = [input.shape[i - n] if s is None else s for i, s in enumerate(sizes)]
        if "max" in name and not return_indices:
            return lambda x, *a, **k: getattr(torch.nn.functional, name)(x, output_size, True)[0]
        return name, [input, sizes], {}

    return apply


for _n in (1, 2, 3):
    for _name in (f"adaptive_avg_pool{_n}d", f"adaptive_max_pool{_n}d"):
        _RULES["nn.functional", _name] = _adaptive(_name, _n)


def _recurrent(name):
    def apply(*args, **kwargs):
        if kwargs:
            return None
        args = [list(a) if isinstance(a, tuple) else a for a in args]
        return name, args, {}

    return apply


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    _RULES["any", _name] = _recurrent(_name)


def _pooled(name, indices=False):
    def apply(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
              return_indices=False):
        n = int(name[-2])
        many = lambda v: list(v) if isinstance(v, (tuple, list)) else [v] * n  # noqa: E731
        steps = [] if stride is None else many(stride)
        args = [input, many(kernel_size), steps, many(padding), many(dilation), ceil_mode]
        return name + ("_with_indices" if return_indices else ""), args, {}

    return apply


for _n in (1, 2, 3):
    _RULES["nn.functional", f"max_pool{_n}d"] = _pooled(f"max_pool{_n}d")


@rule("nn.functional.interpolate")
def _(input, size=None, scale_factor=None, mode="nearest", align_corners=None,
      recompute_scale_factor=None, antialias=False):
    n = input.dim() - 2
    if antialias or mode == "area":
        return None
    kind = {"nearest": "upsample_nearest", "nearest-exact": "_upsample_nearest_exact"}.get(mode)
    name = f"{kind}{n}d" if kind else f"upsample_{mode}{'' if mode[-1:].isdigit() else f'{n}d'}"
    corners = [] if kind else [bool(align_corners)]
    if size is not None:
        return name, [input, [size] * n if isinstance(size, int) else list(size), *corners, None], {}
    scales = [scale_factor] * n if isinstance(scale_factor, (int, float)) else list(scale_factor)
    if recompute_scale_factor:
        size = [int(s * f) for s, f in zip(input.shape[2:], scales)]
        return name, [input, size, *corners, None], {}
    return name, [input, None, *corners, [float(s) for s in scales]], {}


@rule("any.pad")
def _(input, pad, mode="constant", value=None):
    return "pad", [input, list(pad), mode, value if value is None else float(value)], {}


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _loss(name, parameters):
    """``parameters``: what follows the target; "reduction" is written as a number."""

    def apply(*args, **kwargs):
        function = getattr(torch.nn.functional, name)
        given = own_signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        if values.get("size_average") is not None or values.get("reduce") is not None:
            return None
        first = list(values.values())[:2]
        values["reduction"] = _REDUCTIONS[values["reduction"]]
        if name == "mse_loss" and values.get("weight") is not None:
            return None
        return _LOSS_OPS.get(name, name), [*first, *(values[p] for p in parameters.split())], {}

    return apply


_LOSS_OPS = {"cross_entropy": "cross_entropy_loss", "nll_loss": "nll_loss_nd"}
for _name, _parameters in {
    "cross_entropy": "weight reduction ignore_index label_smoothing",
    "nll_loss": "weight reduction ignore_index", "mse_loss": "reduction", "l1_loss": "reduction",
    "smooth_l1_loss": "reduction beta", "huber_loss": "reduction delta",
    "binary_cross_entropy": "weight reduction", "soft_margin_loss": "reduction",
    "binary_cross_entropy_with_logits": "weight pos_weight reduction",
    "poisson_nll_loss": "log_input full eps reduction", "hinge_embedding_loss": "margin reduction",
    "multi_margin_loss": "p margin weight reduction", "multilabel_margin_loss": "reduction",
    "kl_div": "reduction",
}.items():
    _RULES["nn.functional", _name] = _loss(_name, _parameters)


# --- functions that ATen has no op for: what they are made of --------------------------


def _made_of(*keys):
    """Registers a function as what a call is recorded by."""

    def decorate(function):
        for key in keys:
            kind, _, name = key.rpartition(".")
            _RULES[kind, name] = lambda *args, **kwargs: function
        return function

    return decorate


@_made_of("nn.functional.normalize")
def _normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    return input / torch.linalg.vector_norm(input, p, dim, True).clamp_min(eps)


@_made_of("nn.functional.softsign")
def _softsign(input):
    return input / (input.abs() + 1)


@_made_of("nn.functional.tanhshrink")
def _tanhshrink(input):
    return input - input.tanh()


@_made_of("nn.functional.local_response_norm")
def _local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    squared = input.mul(input).unsqueeze(1)
    functional = torch.nn.functional
    flat = squared.reshape(input.shape[0], 1, input.shape[1], -1)
    padded = functional.pad(flat, (0, 0, size // 2, (size - 1) // 2))
    mean = functional.avg_pool2d(padded, (size, 1), stride=1).reshape(input.shape)
    return input / mean.mul(alpha).add(k).pow(beta)


@rule("nn.functional.logsigmoid")
def _(input):
    return "log_sigmoid", [input], {}


@rule("nn.functional.affine_grid")
def _(theta, size, align_corners=None):
    return "affine_grid_generator", [theta, list(size), bool(align_corners)], {}


@rule("nn.functional.grid_sample")
def _(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    modes = ["bilinear", "nearest", "bicubic"].index(mode)
    padding = ["zeros", "border", "reflection"].index(padding_mode)
    return "grid_sampler", [input, grid, modes, padding, bool(align_corners)], {}


for _name in ("layer_norm", "group_norm", "rms_norm"):
    _RULES["nn.functional", _name] = functools.partial(
        lambda n, *a, **k: _layer_norm(n, *a, **k), _name
    )


def _layer_norm(name, input, *args, **kwargs):
    bound = own_signature(getattr(torch.nn.functional, name)).bind(input, *args, **kwargs)
    bound.apply_defaults()
    values = list(bound.arguments.values())
    values[1] = list(values[1]) if isinstance(values[1], (tuple, list)) else values[1]
    return name, values, {}
