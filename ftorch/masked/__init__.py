"""``torch.masked``: tensors with masks, reductions and normalizations of what a mask selects."""

from . import maskedtensor
from . import ops as _ops  # noqa: F401  (PyTorch's name of the module)
from ._layouts import (  # noqa: F401  (libraries and tests use them)
    _combine_input_and_mask,
    _input_mask,
    _output_mask,
    _reduction_identity,
    _where,
)
from ._layouts import canonical_dim as _canonical_dim  # noqa: F401
from .maskedtensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor
from .ops import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)

__all__ = [
    "MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor", "maskedtensor",
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp",
    "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]
