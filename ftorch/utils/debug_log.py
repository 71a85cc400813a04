"""Norms of gradients in a log (``torch.utils.debug_log``)."""

from __future__ import annotations

import logging

import ftorch as torch

__all__ = ["debug_grad_log"]

log = logging.getLogger(__name__)


def _get_rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


@torch.compiler.disable
def debug_grad_log(*tensors) -> None:
    """Writes the norms of tensors' gradients into the log, in one line, once all of them are there.

    >>> import ftorch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x * 2
    >>> torch.utils.debug_log.debug_grad_log(y)
    >>> y.sum().backward()  # logs [rank 0][bwd] t0_grad_norm=1.4142
    """
    watched = [t for t in tensors if t.requires_grad]
    if not watched:
        return

    def write(grads):
        norms = " ".join(f"t{i}_grad_norm={g.norm().item():.4f}" for i, g in enumerate(grads) if g is not None)
        log.info("[rank %d][bwd] %s", _get_rank(), norms)

    torch.autograd.graph.register_multi_grad_hook(watched, write)
