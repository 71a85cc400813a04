"""Losses of torch.nn.functional that are built of other calls, and torch.*_loss."""

from __future__ import annotations

from ...core import api as torch
from ...core.composite import composite
from ...kernels.nn._windows import check_reduction

_REDUCTIONS = ("none", "mean", "sum")


def _reduced(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _differs_in_one_size(size, other):
    """Whether ``other`` is ``size`` with a single dimension of extent 1."""
    return len(size) == len(other) and [b for a, b in zip(size, other, strict=True) if a != b] == [1]


@composite(public="nn.functional")
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of ``target`` under a Gaussian of mean ``input``, variance ``var``.

    Raises:
        ValueError: for a negative variance or one whose shape does not fit.

    >>> import ftorch as torch
    >>> torch.nn.functional.gaussian_nll_loss(torch.zeros(2), torch.ones(2), 1.0)
    tensor(0.5000)
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not _differs_in_one_size(input.size(), var.size()) and var.dim():
            raise ValueError("var is of incorrect size")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    # Clamped for the value only: the gradient is the unclamped variance's.
    var = var + (var.detach().clamp_min(eps) - var.detach())
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.9189385332046727  # log(2 pi) / 2
    return _reduced(loss, reduction)


@composite(public="nn.functional")
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None,
                                      margin=1.0, swap=False, reduction="mean"):
    """`triplet_margin_loss` with a distance function of one's own.

    Raises:
        ValueError: unless ``margin`` is positive.
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    check_reduction(reduction)
    distance = torch.nn.functional.pairwise_distance
    distance = distance if distance_function is None else distance_function
    ranks = (anchor.ndim, positive.ndim, negative.ndim)
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative "
            f"{ranks[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return _reduced(torch.clamp_min(margin + near - far, 0), reduction)


@composite(public="nn.functional")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
             zero_infinity=False):
    """Connectionist temporal classification loss.

    Args:
        log_probs: (T, N, C) or (T, C).
        targets: (N, S), or all labels in one dimension.
        input_lengths, target_lengths: (N,) tensors or tuples.

    Raises:
        RuntimeError: for lengths or labels that do not fit.
    """
    check_reduction(reduction)
    kinds = {isinstance(x, (tuple, list)) for x in (input_lengths, target_lengths)}
    if len(kinds) > 1:
        raise TypeError("ctc_loss() received an invalid combination of arguments")
    if kinds == {True}:
        input_lengths, target_lengths = map(torch.tensor, (input_lengths, target_lengths))
    return torch._ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
    )


# --- torch.*_loss: the same functions, the reduction a number. PyTorch's parser reads the default "Mean" as 0, none ---


def _number_of(reduction):
    return _REDUCTIONS[reduction]


@composite()
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    """`torch.nn.functional.cosine_embedding_loss` with ATen's signature."""
    return torch.nn.functional.cosine_embedding_loss(
        input1, input2, target, margin, reduction=_number_of(reduction)
    )


@composite()
def hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    """`torch.nn.functional.hinge_embedding_loss` with ATen's signature."""
    return torch.nn.functional.hinge_embedding_loss(
        input, target, margin, reduction=_number_of(reduction)
    )


@composite()
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    """`torch.nn.functional.margin_ranking_loss` with ATen's signature."""
    return torch.nn.functional.margin_ranking_loss(
        input1, input2, target, margin, reduction=_number_of(reduction)
    )


@composite()
def kl_div(input, target, reduction=0, *, log_target=False):
    """`torch.nn.functional.kl_div` with ATen's signature."""
    return torch.nn.functional.kl_div(
        input, target, reduction=_number_of(reduction), log_target=log_target
    )


@composite()
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """`torch.nn.functional.poisson_nll_loss` with ATen's signature."""
    return torch.nn.functional.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_number_of(reduction)
    )


@composite()
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False,
                        reduction=0):
    """`torch.nn.functional.triplet_margin_loss` with ATen's signature."""
    return torch.nn.functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_number_of(reduction)
    )


@composite()
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    """`torch.nn.functional.binary_cross_entropy_with_logits` with ATen's signature."""
    return torch.nn.functional.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_number_of(reduction), pos_weight=pos_weight
    )


@composite(name="ctc_loss")
def ctc_loss_aten(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0,
                  zero_infinity=False):
    """`torch.nn.functional.ctc_loss` with ATen's signature."""
    return ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _number_of(reduction),
        zero_infinity,
    )
