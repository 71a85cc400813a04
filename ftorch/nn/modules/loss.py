"""Losses."""

from __future__ import annotations

import math
import warnings

from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .distance import PairwiseDistance
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


def legacy_reduction(size_average, reduce) -> str:
    """The reduction that the two deprecated flags mean, with a warning."""
    average = size_average is None or size_average
    reduced = reduce is None or reduce
    name = ("mean" if average else "sum") if reduced else "none"
    warnings.warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{name}' instead.",
        stacklevel=4,
    )
    return name


class _Loss(Module):
    """Applies ``F.<function>``; ``options`` are attributes that it takes by keyword.

    Args:
        size_average, reduce: deprecated, see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    _ftorch_function: str
    _ftorch_options: tuple[str, ...] = ()

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = legacy_reduction(size_average, reduce)
        self.reduction = reduction

    def _ftorch_call(self, *tensors):
        options = {name: getattr(self, name) for name in self._ftorch_options}
        return getattr(F, self._ftorch_function)(*tensors, **options, reduction=self.reduction)

    def forward(self, input, target):
        return self._ftorch_call(input, target)


class _WeightedLoss(_Loss):
    """``weight`` is a buffer: it moves with the module and is part of its state."""

    _ftorch_options = ("weight",)

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """``|input - target|``."""

    _ftorch_function = "l1_loss"


class MSELoss(_Loss):
    """``(input - target)^2``.

    >>> import ftorch as torch
    >>> torch.nn.MSELoss()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])).item()
    2.0
    """

    _ftorch_function = "mse_loss"


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` with targets 1 and -1."""

    _ftorch_function = "soft_margin_loss"


class MultiLabelMarginLoss(_Loss):
    """The margin between each target class and each other class.

    Shapes: (N, C) or (C), and targets of the same shape: class indices, ended by -1.
    """

    _ftorch_function = "multilabel_margin_loss"


class NLLLoss(_WeightedLoss):
    """The negative of the log-probability of the target class.

    Shapes: (N, C, *) log-probabilities and (N, *) class indices.

    Args:
        weight: of each class, (C).
        ignore_index: a target that does not count.
    """

    _ftorch_function = "nll_loss"
    _ftorch_options = ("weight", "ignore_index")

    def __init__(
        self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class NLLLoss2d(NLLLoss):
    """The older name of `NLLLoss`."""

    def __init__(self, *args, **kwargs):
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement and see https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more "
            "details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """`NLLLoss` of the log-softmax of the input.

    Shapes: (N, C, *) scores, and (N, *) class indices or (N, C, *) probabilities.

    Args:
        weight: of each class, (C).
        ignore_index: a target that does not count.
        label_smoothing: the share of each target that is spread over all classes.

    >>> import ftorch as torch
    >>> loss = torch.nn.CrossEntropyLoss()(torch.zeros(2, 4), torch.tensor([0, 3]))
    >>> round(loss.item(), 4)
    1.3863
    """

    _ftorch_function = "cross_entropy"
    _ftorch_options = ("weight", "ignore_index", "label_smoothing")

    def __init__(
        self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
        label_smoothing=0.0,
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing


class LinearCrossEntropyLoss(_WeightedLoss):
    """A `Linear` layer and the cross entropy of its result.

    Args:
        in_features, num_classes: of the layer.
        out_features: further dimensions of the target.
        bias: whether the layer has a bias.
        weight, ignore_index, label_smoothing, reduction: those of `CrossEntropyLoss`.
        options: how to compute it in parts; see `LinearCrossEntropyOptions`.

    Raises:
        RuntimeError: a weight of another shape, or a smoothing outside [0, 1].
    """

    def __init__(
        self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None,
        reduction="mean", weight=None, ignore_index=None, label_smoothing=0.0, options=None,
    ):
        if weight is not None and weight.shape != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        width = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, width, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input, target):
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape((*shape, self.linear.in_features)), target,
            linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )

    def extra_repr(self):
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class BCELoss(_WeightedLoss):
    """The binary cross entropy of probabilities."""

    _ftorch_function = "binary_cross_entropy"


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of the sigmoid of the input.

    Args:
        weight: of each element.
        pos_weight: of the positive targets.
    """

    _ftorch_function = "binary_cross_entropy_with_logits"

    def __init__(
        self, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the binary cross entropy of the sigmoid."""

    _ftorch_function = "multilabel_soft_margin_loss"


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of counts under a Poisson distribution.

    Args:
        log_input: whether the input is the log of the rate.
        full: whether to add Stirling's approximation of the constant term.
        eps: added to the rate before its log is taken.
    """

    _ftorch_function = "poisson_nll_loss"
    _ftorch_options = ("log_input", "full", "eps")

    def __init__(
        self, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
        reduction="mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input, target):
        return self._ftorch_call(log_input, target)


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood under normal distributions of given variances.

    Args:
        full: whether to add the constant term.
        eps: the least variance.
    """

    _ftorch_function = "gaussian_nll_loss"
    _ftorch_options = ("full", "eps")

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input, target, var):
        return self._ftorch_call(input, target, var)


class KLDivLoss(_Loss):
    """``target * (log(target) - input)``, with log-probabilities as the input.

    Args:
        reduction: also ``"batchmean"``: the sum divided by the first size.
        log_target: whether the target too is given as log-probabilities.
    """

    _ftorch_function = "kl_div"
    _ftorch_options = ("log_target",)

    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class SmoothL1Loss(_Loss):
    """``d^2 / (2 beta)`` where ``d = |input - target|`` is below ``beta``, else ``d - beta/2``."""

    _ftorch_function = "smooth_l1_loss"
    _ftorch_options = ("beta",)

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_Loss):
    """``d^2 / 2`` where ``d = |input - target|`` is below ``delta``, else linear.

    Raises:
        TypeError: ``delta`` is not a number.
    """

    _ftorch_function = "huber_loss"
    _ftorch_options = ("delta",)

    def __init__(self, reduction="mean", delta=1.0):
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta


class HingeEmbeddingLoss(_Loss):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1."""

    _ftorch_function = "hinge_embedding_loss"
    _ftorch_options = ("margin",)

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class _PairLoss(_Loss):
    _ftorch_options = ("margin",)

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return self._ftorch_call(input1, input2, target)


class CosineEmbeddingLoss(_PairLoss):
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where -1."""

    _ftorch_function = "cosine_embedding_loss"


class MarginRankingLoss(_PairLoss):
    """``max(0, -target * (input1 - input2) + margin)``, with targets 1 and -1."""

    _ftorch_function = "margin_ranking_loss"


class MultiMarginLoss(_WeightedLoss):
    """The margin between the target class and every other, to the power ``p``.

    Raises:
        ValueError: ``p`` is neither 1 nor 2, or the weight is not a vector.
    """

    _ftorch_function = "multi_margin_loss"
    _ftorch_options = ("p", "margin", "weight")

    def __init__(
        self, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
    ):
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D "
                "instead"
            )
        self.p = p
        self.margin = margin


class _Triplet(_Loss):
    def _ftorch_set_margin(self, margin):
        if margin <= 0:
            raise ValueError(
                f"{type(self).__name__}: expected margin to be greater than 0, got {margin} "
                "instead"
            )
        self.margin = margin

    def forward(self, anchor, positive, negative):
        return self._ftorch_call(anchor, positive, negative)


class TripletMarginLoss(_Triplet):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with the ``p``-norm.

    Args:
        swap: use the distance of positive and negative where it is smaller.

    Raises:
        ValueError: the margin is not positive.
    """

    _ftorch_function = "triplet_margin_loss"
    _ftorch_options = ("margin", "p", "eps", "swap")

    def __init__(
        self, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None,
        reduction="mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self._ftorch_set_margin(margin)
        self.p = p
        self.eps = eps
        self.swap = swap


class TripletMarginWithDistanceLoss(_Triplet):
    """`TripletMarginLoss` with any distance; by default `PairwiseDistance`."""

    _ftorch_function = "triplet_margin_with_distance_loss"
    _ftorch_options = ("distance_function", "margin", "swap")

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(reduction=reduction)
        self._ftorch_set_margin(margin)
        self.distance_function = distance_function or PairwiseDistance()
        self.swap = swap


class CTCLoss(_Loss):
    """The connectionist temporal classification loss of unsegmented sequences.

    Args:
        blank: the class of no label.
        zero_infinity: whether infinite losses (the input is too short) count as zero.
    """

    _ftorch_function = "ctc_loss"
    _ftorch_options = ("blank", "zero_infinity")

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        """The loss of a batch.

        Args:
            log_probs: (T, N, C) or (T, C) log-probabilities.
            targets: (N, S), or all targets one after the other.
            input_lengths, target_lengths: (N), each at most T or S.
        """
        return self._ftorch_call(log_probs, targets, input_lengths, target_lengths)
