"""Losses of logits that are divided along the classes (``torch.distributed.tensor.parallel.loss``)."""

from __future__ import annotations

import ftorch as torch

from ....autograd import Function
from ....eager.native.contexts import contextmanager, putting_back
from ... import _functional_collectives as funcol
from .._api import DTensor
from .._dispatch import divided_losses
from ..placement_types import Partial, Replicate, Shard, divides

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel():
    """Within, ``cross_entropy`` of logits that are divided along the classes keeps them divided: what is
    exchanged is a maximum and two sums for each example, and nothing in backward."""
    with putting_back(divided_losses.__delitem__, slice(len(divided_losses), None)):
        divided_losses.append(cross_entropy)
        yield


class _CrossEntropy(Function):
    """The losses of a part of the classes: (N, C / n, ...) to the losses of all.

    Args:
        x: the part; labels: of all classes; weights: for each class; start: the part's first class.
        group: the processes that have the other parts; others: those that have other examples.
    """

    @staticmethod
    def forward(ctx, x, labels, weights, start, group, others, ignore_index, reduction):
        values = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        top = funcol.all_reduce(values.amax(1, keepdim=True), "max", group)
        shifted = values - top
        total = funcol.all_reduce(shifted.exp().sum(1, keepdim=True), "sum", group)
        log = shifted - total.log()
        counted = labels != ignore_index
        own = counted & (labels >= start) & (labels < start + x.shape[1])
        place = torch.where(own, labels - start, 0).unsqueeze(1)
        losses = -log.gather(1, place).squeeze(1) * own if x.shape[1] else torch.zeros_like(total.squeeze(1))
        losses = funcol.all_reduce(losses, "sum", group)
        each = counted.to(values.dtype)
        if weights is not None:
            each = each * weights[torch.where(counted, labels, 0)]
        losses = losses * each
        whole = each.sum() if reduction == "mean" else each.new_ones(())
        for other in others if reduction == "mean" else ():
            whole = funcol.all_reduce(whole, "sum", other)
        ctx.save_for_backward(log, each / whole, own, place)
        ctx.is_one, ctx.dtype = reduction != "none", x.dtype
        out = losses if reduction == "none" else losses.sum() / whole
        return out.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        log, share, own, place = ctx.saved_tensors
        share = (share * grad).unsqueeze(1)
        found = log.exp() * share
        if found.shape[1]:
            found = found.scatter_add(1, place, -share * own.unsqueeze(1))
        return found.to(ctx.dtype), None, None, None, None, None, None, None


def _here(name, value, mesh, placements):
    """This process' part of an argument that lies in some way.

    Raises:
        RuntimeError: it lies in another way. ValueError: it does not say how, and is to be divided.
    """
    if isinstance(value, DTensor):
        if tuple(value.placements) != placements:
            raise RuntimeError(f"Expected {placements} but got {value.placements}.")
        return value._local_tensor
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"Unsupported type {type(value)}")
    if any(divides(p) for p in placements):
        raise ValueError(
            f"loss_parallel() requires a DTensor (not a plain torch.Tensor) when the derived placements {placements} contain "
            f"Shard: distribute {name}, to say which part it is"
        )
    return value


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """The loss of logits of shape (N, C, ...), divided along C on one dimension of the mesh.

    Raises:
        ValueError: they are not, or others are sums of terms. NotImplementedError: for smoothed labels.
    """
    placements, mesh = tuple(input.placements), input.device_mesh
    found = [m for m, p in enumerate(placements) if p.is_shard(1 if input.dim() > 1 else 0)]
    if len(found) != 1:
        raise ValueError(
            f"loss_parallel() requires exactly one mesh dim to shard tensor dimension {1 if input.dim() > 1 else 0}, but got "
            f"placements {placements} with {len(found)} such mesh dim(s)."
        )
    for m, p in enumerate(placements):
        if m != found[0] and not (divides(p) or p.is_replicate()):
            raise ValueError(f"loss_parallel() expects non-TP mesh dims to be Shard or Replicate, got {p} at dim {m}.")
    if label_smoothing or input.dim() < 2 or target.is_floating_point():
        raise NotImplementedError("losses of divided classes take labels of examples, without smoothing")
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    (m,) = found
    lying = tuple(
        Replicate() if i == m or not divides(p) else Shard(p.dim - (p.dim > 1)) for i, p in enumerate(placements)
    )
    labels = _here("the target", target, mesh, lying)
    weights = None if weight is None else _here("the weight", weight, mesh, (Replicate(),) * mesh.ndim)
    start = -(-input.shape[1] // mesh.size(m)) * mesh.get_local_rank(m)
    others = [mesh.get_group(i) for i, p in enumerate(lying) if divides(p)]
    out = _CrossEntropy.apply(
        input._local_tensor, labels, weights, start, mesh.get_group(m), others, ignore_index, reduction
    )
    if reduction == "none":
        return DTensor._made(out, mesh, lying, tuple(target.shape))
    return DTensor._made(out, mesh, [Partial() if divides(p) else p for p in lying], ())
