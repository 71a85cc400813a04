"""Node names of double backward: what PyTorch calls the nodes of gradients' own graphs (``create_graph=True``).

There a gradient is a composition of ops, and shows the last of them; here it is one op, whose node has that name.
"""

from __future__ import annotations

_LAST = {  # each node: the ops whose gradients end with it
    "MulBackward0": "_pow_static exp sin cos tan rsqrt abs absolute mul reciprocal erf erfc erfinv expm1 square atan2 addcmul "
    "dist norm linalg_vector_norm sinh cosh asin acos asinh acosh lgamma digamma polygamma mish silu dot vdot prod logsumexp "
    "var std amax amin sinc xlogy hypot i0",
    "DivBackward0": "log sqrt log1p log2 log10 atan atanh cumprod true_divide",
    "NegBackward0": "neg negative inverse linalg_inv",
    "MulBackward1": "exp2 lerp deg2rad rad2deg",
    "ExpandBackward0": "sum",
    "DivBackward1": "mean",
    "MmBackward0": "mm matmul",
    "BmmBackward0": "bmm",
    "MaskedFillBackward0": "maximum minimum masked_fill fmax fmin",
    "ScatterBackward0": "sort topk kthvalue mode cummax cummin msort",
    "WhereBackward0": "where clamp clamp_min clamp_max",
    "ThresholdBackwardBackward0": "relu",
    "HardtanhBackwardBackward0": "relu6",
    "EluBackwardBackward0": "selu",
    "LogSigmoidBackwardBackward0": "logsigmoid",
    "SoftmaxBackwardDataBackward0": "softmax",
    "LogSoftmaxBackwardDataBackward0": "log_softmax cross_entropy",
    "IndexPutImplBackward0": "index",
    "ScatterAddBackward0": "gather",
    "IndexAddBackward0": "index_select",
    "SliceBackward0": "cat", "SelectBackward0": "stack", "FlipBackward0": "flip cumsum", "RollBackward0": "roll",
    "TrilBackward0": "tril", "TriuBackward0": "triu", "SumBackward1": "repeat", "ViewBackward0": "outer trace",
    "EmbeddingDenseBackwardBackward0": "embedding",
    "NativeLayerNormBackwardBackward0": "layer_norm",
    "NativeBatchNormBackwardBackward0": "batch_norm _batch_norm_train _batch_norm_eval",
    "PreluKernelBackwardBackward0": "prelu",
    "LinalgSolveExBackward0": "linalg_det det",
    "AddBackward0": "cosine_similarity",
    "SqueezeBackward1": "max_pool1d avg_pool1d adaptive_avg_pool1d",
}
_BY_OP = {op: node for node, ops in _LAST.items() for op in ops.split()}

# Where the gradients of the operands end with different ones: by the operand's number.
_BY_OPERAND = {
    "pow": ("WhereBackward0", "MulBackward0"), "div": ("DivBackward0", "MulBackward0"), "sub": (None, "NegBackward0"),
    "linear": ("MmBackward0", "TBackward0", "ViewBackward0"), "addmm": (None, "MmBackward0", "MmBackward0"),
    "baddbmm": (None, "BmmBackward0", "BmmBackward0"), "mv": ("MulBackward0", "MvBackward0"),
    "l1_loss": ("MulBackward0", "NegBackward0"), "kl_div": ("MulBackward0", "AddBackward0"),
    "linalg_solve": ("NegBackward0", "LinalgSolveExBackward0"), "fmod": (None, "MulBackward0"),
    "remainder": (None, "MulBackward0"), "addcdiv": (None, "MulBackward0", "MulBackward0"),
}

_OF_VIEWS = {
    "t": "TBackward0", "transpose": "TransposeBackward0", "swapaxes": "TransposeBackward0", "swapdims": "TransposeBackward0",
    "adjoint": "TransposeBackward0", "mT": "TransposeBackward0", "permute": "PermuteBackward0", "movedim": "PermuteBackward0",
    "numpy_T": "PermuteBackward0", "view": "ViewBackward0", "unflatten": "ViewBackward0", "squeeze": "UnsqueezeBackward0",
    "unsqueeze": "SqueezeBackward1", "select": "SelectBackwardBackward0", "_index_select": "SelectBackwardBackward0",
    "slice": "SliceBackwardBackward0", "narrow": "SliceBackwardBackward0", "_index_slice": "SliceBackwardBackward0",
    "diagonal": "DiagonalBackwardBackward0", "unfold": "UnfoldBackwardBackward0", "_index_newaxis": "SqueezeBackward1",
}


def of_gradient(plan, mask) -> str | None:
    """The name of the node of a call's gradient in the operands of the mask; None if it is the call's and ``Backward``."""
    name, first = plan.op.definition.name, next((i for i, m in enumerate(mask) if m), 0)
    if len(plan.inputs) == 1:
        if name == "pow":
            return "MulBackward0"
        if name in ("sub", "rsub"):
            return "NegBackward0"
        if name in ("max", "min", "median", "nanmedian"):
            return "ScatterBackward0" if len(plan.geometries) > 1 else "MaskedFillBackward1"
        if name == "div" and plan.structure.slots[0][0] == "s":
            return "MulBackward0"
    if name in _BY_OPERAND:
        names = _BY_OPERAND[name]
        return names[first] if first < len(names) else None
    return _BY_OP.get(name)


def of_view_gradient(name: str, base, view) -> str | None:
    """The same of a view of a tensor, given the geometries."""
    if name in ("expand", "broadcast_to"):
        return "ViewBackward0" if len(view.shape) > len(base.shape) else "SumBackward1"
    return _OF_VIEWS.get(name)
