"""NVIDIA's collectives within one process (``torch.cuda.nccl``), as copies and sums between devices."""

from __future__ import annotations

from ..nn.parallel import comm as _comm

__all__ = ["all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter", "is_available", "version"]


def is_available(tensors=None) -> bool:
    """Whether NCCL's handles are there: not here; XLA has its own. The functions below need none."""
    return False


def version():
    """NCCL's version: XLA's is not told.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("the version of NCCL is XLA's own matter: torch.distributed and jax have the collectives")


def all_reduce(inputs, outputs=None, op=0, streams=None, comms=None):
    """Puts the sum of tensors on several devices on all of them."""
    total = _comm.reduce_add(inputs)
    for out in inputs if outputs is None else outputs:
        out.copy_(total)


def reduce(inputs, output=None, root=0, op=0, streams=None, comms=None, *, outputs=None):
    """Puts the sum on one of them."""
    target = output if output is not None else inputs[root] if outputs is None else outputs[root]
    target.copy_(_comm.reduce_add(inputs))


def broadcast(inputs, root=0, streams=None, comms=None):
    """Copies one tensor to all others."""
    for i, t in enumerate(inputs):
        if i != root:
            t.copy_(inputs[root])


def all_gather(inputs, outputs, streams=None, comms=None):
    """Puts all tensors, one after another, on all devices."""
    for out in outputs:
        out.copy_(_comm.gather([t.flatten() for t in inputs], destination=out.device).view_as(out))


def reduce_scatter(inputs, outputs, op=0, streams=None, comms=None):
    """Puts a part of the sum on each device."""
    total = _comm.reduce_add(inputs).flatten().chunk(len(outputs))
    for out, part in zip(outputs, total):
        out.copy_(part.view_as(out))
