"""Autocast in programs: PyTorch's compiler casts arguments of more ops than eager calls do, by the ops' names."""

from __future__ import annotations

import ast
import operator

from ....amp import autocast
from ....eager.call.op import special
from ....eager.core.dtype import bfloat16, float16, float32
from ....eager.dispatch.autocast import state
from ....eager.native.contexts import contextmanager
from ....eager.tensor import TensorBase, modes
from .builtins import joined
from .types import DTYPE_OF

__all__ = ["ARITHMETIC", "cast_as_compiled", "context_of"]

_CLASSES = frozenset(
    f"__torch__.torch.{room}amp.autocast_mode.autocast" for room in ("", "cpu.", "cuda.")
)
_FLOAT32 = frozenset(
    "acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity dist erfinv exp expm1 "
    "gelu group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 log1p log2 logsumexp margin_ranking_loss "
    "mse_loss multi_margin_loss multilabel_margin_loss nll_loss pdist pow reciprocal renorm rsqrt sinh smooth_l1_loss "
    "soft_margin_loss softplus tan triplet_margin_loss".split()
)
_FLOAT32_WITHOUT_DTYPE = frozenset("cumprod cumsum log_softmax prod sum".split())
# Eager autocast casts these where they are called by another name, or not at all.
_LOWER = frozenset("_convolution _convolution_mode addmv addr convolution gru_cell mv".split())
# Of the widest dtype of their arguments, which a program does not know before it runs: float32.
_WIDEST = frozenset(
    "add addcdiv addcmul atan2 bilinear cross div dot equal index_put mul sub tensordot".split()
)


def context_of(obj, kind: str):
    """The context that an object of a program's class ``kind`` stands for, if it is one of autocast."""
    if kind not in _CLASSES:
        return None
    values = vars(obj)
    return _block(autocast(values["device"], DTYPE_OF[values["fast_dtype"]], values["_enabled"]))


@contextmanager
def _block(context):
    outer = state.in_script
    state.in_script = outer or modes.autocast is None
    try:
        with context:
            yield context
    finally:
        state.in_script = outer


def cast_as_compiled(name: str, function):
    """An op's function as it is called where autocast is on: of another dtype, for some ops.

    Raises:
        RuntimeError: by the function, for ``binary_cross_entropy``.
    """
    if name == "binary_cross_entropy":
        return _refused_in_autocast(function)
    if name in _LOWER:
        to = None
    elif name in _FLOAT32 or name in _FLOAT32_WITHOUT_DTYPE or name in _WIDEST:
        to = float32
    else:
        return function
    optional = name in _FLOAT32_WITHOUT_DTYPE

    def call(*args, **kwargs):
        if modes.autocast is not None and not (optional and _has_dtype(name, args, kwargs)):
            args = tuple(_cast(a, to) for a in args)
            if kwargs:
                kwargs = {k: _cast(v, to) for k, v in kwargs.items()}
        return function(*args, **kwargs)

    return call


def _refused_in_autocast(function):
    def call(*args, **kwargs):
        if modes.autocast is not None:
            raise RuntimeError("Unsafe to autocast")
        return function(*args, **kwargs)

    return call


def _arithmetic(function):
    def call(a, b):
        if special[0] and modes.autocast is not None:
            a, b = _cast(a, float32), _cast(b, float32)
        return function(a, b)

    return call


# What stands for ``+`` and its kin in a program.
ARITHMETIC = {
    ast.Add: _arithmetic(joined), ast.Sub: _arithmetic(operator.sub), ast.Mult: _arithmetic(operator.mul),
    ast.Div: _arithmetic(operator.truediv),
}


def _has_dtype(name, args, kwargs):
    """Whether a reduction is told its dtype: a number by keyword, or behind the dimension of log_softmax."""
    return kwargs.get("dtype") is not None or (name == "log_softmax" and len(args) > 2 and args[2] is not None)


def _cast(a, dtype):
    """An argument as ``dtype``, or as autocast's own; only tensors that autocast is for."""
    if isinstance(a, TensorBase):
        kind = a.device.type
        if kind not in (modes.autocast or ()) or a.dtype not in (bfloat16, float16, float32):
            return a
        return a.to(state.dtypes[kind] if dtype is None else dtype)
    if type(a) in (list, tuple) and a and isinstance(a[0], TensorBase):
        return type(a)(_cast(item, dtype) for item in a)
    return a
