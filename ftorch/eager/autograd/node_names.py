"""Node names: what PyTorch calls the nodes of the graph: ``grad_fn.name()``, and what printed tensors show.

An op's node is named after the op, in camel case with a number among its overloads. Where PyTorch
composes a function of other ops, its result shows the last of these; here the function is one op and its
node has that name.
"""

from __future__ import annotations

import re

from .gradient_names import of_gradient

# Numbers of overloads among the nodes of a name, where it is not 0.
_NUMBERS = {
    "sum.dim_IntList": 1, "mean.dim": 1, "max": 1, "min": 1, "pow.Tensor_Tensor": 1,
    "prod.dim_int": 1, "median.dim": 1, "nanmedian.dim": 1, "lerp.Tensor": 1, "max.other": 2,
    "all.dim": 1, "any.dim": 1, "masked_fill.Tensor": 1, "squeeze.dim": 1, "squeeze.dims": 2,
    "fill.Tensor": 1, "index_fill.int_Tensor": 1, "scatter.value": 1,
}

_SAME = {  # each name: the functions whose nodes have it
    "Abs": "absolute", "Permute": "numpy_T movedim",
    "Transpose": "mT swapaxes swapdims", "Select": "_index_select _real_part _imag_part",
    "Slice": "_index_slice narrow", "Unsqueeze": "_index_newaxis",
    "ToCopy": "_to_copy", "NegView": "_neg_view", "Pow": "_pow_static square",
    "Expand": "broadcast_to", "View": "unflatten bilinear einsum inner tensordot linalg_multi_dot "
    "_instance_norm_train _instance_norm_eval", "UnsafeView": "kron",
    "NativeLayerNorm": "layer_norm", "NativeGroupNorm": "group_norm",
    "NativeBatchNorm": "batch_norm _batch_norm_train _batch_norm_eval", "Hardtanh": "relu6", "Elu": "selu",
    "Div": "true_divide normalize softsign local_response_norm nanmean", "Sub": "tanhshrink diff",
    "Mul": "outer rms_norm", "Mvlgamma": "special_multigammaln", "AffineGridGenerator": "affine_grid",
    "PreluKernel": "prelu", "LogSigmoid": "logsigmoid",
    "LinalgCholeskyEx": "linalg_cholesky", "LinalgInvEx": "linalg_inv inverse",
    "LinalgSolveEx": "linalg_solve", "LinalgLuFactorEx": "linalg_lu_factor",
    "LinalgEig": "linalg_eigvals", "LinalgEigh": "linalg_eigvalsh", "LinalgSvd": "svd linalg_svdvals",
    "LinalgQr": "qr", "LinalgDet": "det", "LinalgSlogdet": "slogdet", "LinalgPinv": "pinverse", "LinalgMatrixExp": "matrix_exp",
    "LinalgLuSolve": "lu_solve", "LinalgCross": "cross", "Mm": "linalg_matrix_power",
    "Cat": "linalg_vander", "Where": "logdet", "Sort": "msort", "Flip": "fliplr flipud",
    "Gather": "take_along_dim", "Repeat": "tile", "Stack": "combinations", "Squeeze": "cov",
    "DiagEmbed": "diagflat", "Roll": "fft_fftshift fft_ifftshift", "Cumsum": "cumulative_trapezoid",
    "FftR2C": "fft_rfft fft_rfft2 fft_rfftn", "FftC2R": "fft_irfft fft_irfft2 fft_irfftn fft_hfft fft_hfft2 "
    "fft_hfftn", "FftC2C": "fft_fft2 fft_fftn fft_ifft2 fft_ifftn fft_ihfft2 fft_ihfftn",
    "FakeQuantizePerTensorAffineCachemask": "fake_quantize_per_tensor_affine",
    "FakeQuantizePerChannelAffineCachemask": "fake_quantize_per_channel_affine",
    "Conj": "fft_ihfft", "MaxPool2DWithIndices": "max_pool2d", "MaxPool3DWithIndices": "max_pool3d",
}
_NAMES = {name: f"{node}Backward0" for node, names in _SAME.items() for name in names.split()} | {
    **{f"conv{n}d_backward": "ConvolutionBackwardBackward0" for n in (1, 2, 3)},
    "copy": "CopyBackwards", "floor_divide": "NotImplemented", "heaviside": "NotImplemented",
    "special_ndtr": "MulBackward1", "trapezoid": "MulBackward1", "corrcoef": "ClampBackward1",
    "cosine_similarity": "SumBackward1", "linalg_vecdot": "SumBackward1", "pairwise_distance": "NormBackward1",
    "quantile": "SqueezeBackward4", "nanquantile": "SqueezeBackward4", "linalg_cond": "SqueezeBackward1",
    **dict.fromkeys(("avg_pool1d", "adaptive_avg_pool1d", "max_pool1d", "max_pool1d_with_indices",
                     "adaptive_max_pool1d"), "SqueezeBackward1"),
}

# What reduces a loss is the last op of it; without a reduction it is one of these.
_LOSSES = {
    "l1_loss": "Abs", "kl_div": "Sub", "poisson_nll_loss": "Sub", "margin_ranking_loss": "ClampMin",
    "hinge_embedding_loss": "Add", "cosine_embedding_loss": "Add", "triplet_margin_loss": "ClampMin",
    "multilabel_soft_margin_loss": "Div",
}


class _Call:
    """A planned call: its operands' geometries, and the values of static arguments."""

    def __init__(self, plan):
        self.plan = plan
        self.inputs = plan.inputs
        self.dims = tuple(g.ndim for g in plan.inputs)

    def is_number(self, position):
        return self.plan.structure.slots[position][0] == "s"

    def value(self, name):
        """The value of a static argument; None if it is an operand, or none of the op's (which ``vmap`` may
        have derived)."""
        names = self.plan.op.definition.argument_names
        if name not in names:
            return None
        slot = self.plan.structure.slots[names.index(name)]
        return slot[1] if slot[0] == "v" else None

    def has_tensor(self, name):
        """Whether an optional tensor is given; False if it is none of the op's arguments."""
        names = self.plan.op.definition.argument_names
        return name in names and self.plan.structure.slots[names.index(name)][0] == "t"


def _of_numbers(name, *numbers):
    """A rule: the node's number if no operand is a Python number, if the first is, if the second is."""

    def rule(call):
        which = 1 if call.is_number(0) else 2 if call.is_number(1) else 0
        return f"{name}Backward{numbers[which]}"

    return rule


def _division(call):
    if call.plan.op.definition.full_name == "div.Tensor_mode":
        return "DivBackward2"
    return "MulBackward0" if call.is_number(0) else "DivBackward0"


def _subtraction(call):
    return "RsubBackward1" if call.is_number(0) else "SubBackward0"


def _reduced(name):
    last = {"mean": "MeanBackward0", "sum": "SumBackward0", "none": f"{_LOSSES[name]}Backward0"}
    return lambda call: last.get(call.value("reduction"), "MeanBackward0")


def _cross_entropy(call):
    if call.value("label_smoothing"):
        return "AddBackward0"
    if call.inputs[1].dtype.category > 1:
        return "DivBackward1" if call.value("reduction") == "mean" else "NegBackward0"
    return "NllLossBackward0" if call.dims[0] < 3 else "NllLoss2DBackward0"


def _linear(call):
    has_bias = len(call.inputs) == 3
    if call.dims[0] == 1:
        return "ViewBackward0" if has_bias else "SqueezeBackward4"
    if call.dims[0] == 2:
        return "AddmmBackward0" if has_bias else "MmBackward0"
    return "ViewBackward0" if has_bias else "UnsafeViewBackward0"


_MATMUL = {(1, 1): "Dot", (2, 1): "Mv", (2, 2): "Mm"}


def _matmul(call):
    if call.dims == (1, 2):
        return "SqueezeBackward4"
    return f"{_MATMUL.get(call.dims, 'UnsafeView')}Backward0"


def _convolution(call):
    return "SqueezeBackward1" if call.dims[0] < call.dims[1] else "ConvolutionBackward0"


_UPSAMPLE = {"nearest": "Nearest", "nearest-exact": "NearestExact", "linear": "Linear", "bilinear": "Bilinear",
             "trilinear": "Trilinear", "bicubic": "Bicubic"}


def _interpolate(call):
    mode = _UPSAMPLE.get(call.value("mode"), "Nearest")
    smooth = "Aa" if call.value("antialias") else ""
    return f"Upsample{mode}{call.dims[0] - 2}D{smooth}Backward0"


def _pad(call):
    kind = {"reflect": "Reflection", "replicate": "Replication"}.get(call.value("mode"))
    if kind is None:
        return "ConstantPadNdBackward0"
    return f"{kind}Pad{len(call.value('pad')) // 2}DBackward0"


def _adaptive(name):
    def rule(call):
        size = call.value("output_size")
        is_mean = all(n == 1 for n in (size if isinstance(size, tuple) else (size,)))
        return "MeanBackward1" if is_mean else f"{name}Backward0"

    return rule


def _matrix_norm(call):
    order = call.value("ord")
    if order in ("fro", None):
        return "LinalgVectorNormBackward0"
    if order == "nuc":
        return "SumBackward1"
    return "AmaxBackward0" if order > 0 else "AminBackward0"


def _attention(call):
    return f"{'ScaledDotProductFlashAttentionForCpu' if call.dims[0] == 4 else 'UnsafeView'}Backward0"


def _power(call):
    return f"PowBackward{2 if call.is_number(0) else 0 if call.is_number(1) else 1}"


def _recurrent(call):
    """A layer over time: PyTorch's results are those of the steps, stacked, or of a library's kernel for LSTMs."""
    input = call.inputs[0]
    if call.has_tensor("batch_sizes"):
        return "CatBackward0"
    is_lstm = call.plan.op.definition.name == "_lstm_layer" and not call.has_tensor("w_hr")
    return f"{'MkldnnRnnLayer' if is_lstm and input.device.type == 'cpu' and input.dtype.itemsize < 8 else 'Stack'}Backward0"


_CTC = {"none": "CtcLossBackward0", "mean": "MeanBackward0"}
_RULES = {
    "_ctc_loss": lambda call: _CTC.get(call.value("reduction"), "SumBackward0"),
    "round": lambda call: f"RoundBackward{int(bool(call.value('decimals')))}",
    "_lstm_layer": _recurrent, "_rnn_layer": _recurrent,
    "fake_quantize_per_tensor_affine": lambda call: "FakeQuantizePerTensorAffineCachemask"
    f"{'TensorQparams' if len(call.dims) > 1 else ''}Backward0",
    **{name: _reduced(name) for name in _LOSSES},
    **{f"conv{kind}{n}d": _convolution for kind in ("", "_transpose") for n in (1, 2, 3)},
    "cross_entropy": _cross_entropy, "linear": _linear, "matmul": _matmul, "pow": _power,
    "float_power": _power, "div": _division, "sub": _subtraction, "rsub": _of_numbers("Rsub", 0, 1, 1),
    "remainder": _of_numbers("Remainder", 1, 1, 0), "fmod": _of_numbers("Fmod", 1, 1, 0),
    "xlogy": _of_numbers("Xlogy", 0, 1, 2), "copysign": _of_numbers("Copysign", 0, 0, 1),
    "clamp_min": _of_numbers("ClampMin", 1, 1, 0), "clamp_max": _of_numbers("ClampMax", 1, 1, 0),
    "clamp": lambda call: f"ClampBackward{int(len(call.inputs) == 1)}",
    "fill": lambda call: f"FillBackward{len(call.inputs) + (1 if call.plan.inplace else -1)}",
    "sort": lambda call: f"SortBackward{int(bool(_is_stable(call)))}",
    "_interpolate": _interpolate, "pad": _pad, "_scaled_dot_product_attention": _attention,
    "grid_sample": lambda call: f"GridSampler{call.dims[0] - 2}DBackward0",
    "adaptive_avg_pool2d": _adaptive("AdaptiveAvgPool2D"),
    "adaptive_avg_pool3d": _adaptive("AdaptiveAvgPool3D"), "linalg_matrix_norm": _matrix_norm,
    "diag": lambda call: "DiagEmbedBackward0" if call.dims[0] == 1 else "DiagonalBackward0_copy",
    "repeat_interleave": lambda call: f"{'IndexSelect' if len(call.inputs) > 1 else 'View'}Backward0",
    "fft_fft": lambda call: f"Fft{'C2C' if call.inputs[0].dtype.is_complex else 'R2C'}Backward0",
    "fft_ifft": lambda call: f"{'FftC2C' if call.inputs[0].dtype.is_complex else 'Conj'}Backward0",
}


def _is_stable(call):
    names = call.plan.op.definition.argument_names
    return "stable" in names and call.value("stable")


def is_named_by_call(definition) -> bool:
    """Whether an op's nodes have names that depend on what they are called with."""
    return definition.name in _RULES


def node_name(definition, plan=None) -> str:
    """The name of the class of an op's node: ``AddmmBackward0``, ``SumBackward1``."""
    name = definition.name
    if name.endswith("_backward") and getattr(definition.kernel, "mask", None) is not None:
        found = of_gradient(definition.kernel.plan, definition.kernel.mask)
        if found is not None:
            return found
    rule = None if plan is None else _RULES.get(name)
    if rule is not None:
        return rule(_Call(plan))
    if name in _NAMES:
        return _NAMES[name]
    camel = "".join(p[:1].upper() + p[1:] for p in name.split("_") if p)
    camel = re.sub(r"\d[a-z]", lambda match: match[0].upper(), camel)  # Log1P, MaxPool2D
    return f"{camel}Backward{_NUMBERS.get(definition.full_name, 0)}"


# What has another formula in place.
OTHERS_IN_PLACE = frozenset(("acosh", "asinh", "atanh", "celu", "elu", "leaky_relu", "selu", "threshold"))
_NEGATIVE_SLOPE = (
    "In-place {0} backward calculation is triggered with a negative slope which is not supported. This is caused by calling "
    "in-place forward function with a negative slope, please call out-of-place version instead."
)
_OF_SLOPE = {
    "elu": _NEGATIVE_SLOPE.format("elu"), "celu": _NEGATIVE_SLOPE.format("elu"),
    "leaky_relu": _NEGATIVE_SLOPE.format("leakyReLu") + (
        " File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu backward "
        "calculation with negative slope"
    ),
}


def refusal_in_place(plan) -> Exception | None:
    """Why there is no gradient of a call in place, where the result does not say what the operand was."""
    name = plan.op.definition.name
    if name == "acosh":
        return NotImplementedError("the derivative for 'inplace version of acosh' is not implemented.")
    text = _OF_SLOPE.get(name)
    return RuntimeError(text) if text is not None and plan.structure.slots[1][1] < 0 else None
