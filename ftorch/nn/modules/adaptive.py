"""A softmax for very many classes."""

from __future__ import annotations

from collections import namedtuple
from itertools import pairwise

from ...eager.core import api as torch
from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """The adaptive softmax: rare classes are in clusters, each with a smaller projection.

    Classes are numbered from the most frequent to the rarest.

    Args:
        cutoffs: the first class of each cluster, increasing; those before the first are the
            shortlist.
        div_value: by how much each cluster's projection is smaller than the one before.
        head_bias: whether the head has a bias.

    Raises:
        ValueError: cutoffs that are not unique, increasing and in [1, n_classes - 1].
    """

    def __init__(
        self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None,
        dtype=None,
    ):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or not 0 < cutoffs[0] <= cutoffs[-1] < n_classes
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        factory = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail = ModuleList()
        for i, (first, end) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **factory),
                    Linear(width, end - first, bias=False, **factory),
                )
            )

    def reset_parameters(self) -> None:
        """Draws new values."""
        self.head.reset_parameters()
        for down, up in self.tail:
            down.reset_parameters()
            up.reset_parameters()

    @staticmethod
    def _ftorch_check(input_, target_):
        dims = target_.dim()
        if dims > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if dims == 1 and input_.size(0) != target_.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input_.dim() != dims + 1:
            raise RuntimeError(
                f"{dims}D target tensor expects {dims + 1}D input tensors, but found inputs with "
                f"size {input_.size()}"
            )

    def forward(self, input_, target_):
        """The log-probability of each target, and the mean loss.

        Shapes: (N, in_features) and (N), or without N.

        Returns:
            a named tuple ``(output, loss)``.

        Raises:
            RuntimeError: shapes that do not fit, or a target that is no class.
        """
        self._ftorch_check(input_, target_)
        is_batched = target_.dim() > 0
        input = input_ if is_batched else input_.unsqueeze(0)
        target = target_ if is_batched else target_.unsqueeze(0)
        if bool(((target < 0) | (target >= self.n_classes)).any()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        # Every row goes through every cluster that occurs, and keeps what is its own: shapes then
        # do not depend on the targets, so that nothing is compiled anew for another batch.
        head = F.log_softmax(self.head(input), dim=1)
        column, output = target, None
        for i, (first, end) in enumerate(pairwise(self.cutoffs)):
            mine = (target >= first) & (target < end)
            if not bool(mine.any()):
                continue
            log_probs = F.log_softmax(self.tail[i](input), dim=1)
            relative = torch.where(mine, target - first, 0)
            local = log_probs.gather(1, relative.unsqueeze(1)).squeeze(1)
            local = torch.where(mine, local, torch.zeros_like(local))
            output = local if output is None else output + local
            column = torch.where(mine, self.shortlist_size + i, column)
        own = head.gather(1, column.unsqueeze(1)).squeeze(1)
        output = own if output is None else output + own
        loss = (-output).mean()
        return _ASMoutput(output if is_batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            cluster = F.log_softmax(tail(input), dim=1)
            parts.append(cluster + head[:, self.shortlist_size + i].unsqueeze(1))
        return torch.cat(parts, dim=1)

    def log_prob(self, input):
        """(N, n_classes) log-probabilities."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """(N) most probable classes; clusters are looked at only where one is ahead."""
        head_output = self.head(input)
        best = torch.argmax(head_output, dim=1)
        in_tail = best >= self.shortlist_size
        if not bool(in_tail.any()):
            return best
        full = torch.argmax(self._get_full_log_prob(input, head_output), dim=1)
        return torch.where(in_tail, full, best)
