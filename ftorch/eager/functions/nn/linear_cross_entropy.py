"""A linear layer and its cross entropy in one call."""

from __future__ import annotations

import math

from ...core import api as torch
from ...core.composite import composite


def _check(input, linear_weight, linear_bias):
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    features, (classes, *outputs, inner) = input.shape[-1], linear_weight.shape
    if features != inner:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {inner}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *outputs):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *outputs)}, got {tuple(linear_bias.shape)}"
        )
    if outputs and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )


@composite(public="nn.functional")
def linear_cross_entropy(
    input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
    ignore_index=None, label_smoothing=0.0, options=None,
):
    """The cross entropy of ``linear(input, linear_weight, linear_bias)``.

    Args:
        input: (N, in_features) or (in_features).
        linear_weight: (classes, ..., in_features).
        target: (N, ...) class indices, or (N, classes, ...) probabilities.
        options: how PyTorch divides the computation into parts; here it is not divided.
        The others are those of `cross_entropy`.

    Raises:
        RuntimeError: shapes that do not fit, or an ``ignore_index`` with probabilities.

    >>> import ftorch as torch
    >>> loss = torch.nn.functional.linear_cross_entropy(
    ...     torch.ones(2, 3), torch.zeros(4, 3), torch.tensor([0, 1])
    ... )
    >>> round(loss.item(), 4)
    1.3863
    """
    _check(input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    if ignore_index is not None and tuple(target.shape) == shape:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    rows = math.prod(linear_weight.shape[:-1])
    if linear_weight.dim() > 2:
        linear_weight = linear_weight.reshape(rows, -1)
        linear_bias = None if linear_bias is None else linear_bias.reshape(rows)
    scores = torch.nn.functional.linear(input, linear_weight, linear_bias).reshape(shape)
    return torch.nn.functional.cross_entropy(
        scores, target, weight=weight, reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )
