"""Modules that compute their forward again in backward, unwrapped."""

from __future__ import annotations

import functools

from ...utils.checkpoint import checkpoint as _checkpoint
from .contract import contract

__all__ = ["checkpoint"]


@contract()
def checkpoint(module, **kwargs):
    """Lets a module compute its forward again in backward, in place.

    Raises:
        NotImplementedError: for ``use_reentrant=True``. ValueError: for unknown options.

    >>> import ftorch as torch
    >>> from ftorch.distributed._composable import checkpoint
    >>> model = checkpoint(torch.nn.Linear(2, 2))
    >>> model(torch.ones(1, 2)).shape
    torch.Size([1, 2])
    """
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. Please use "
            "torch.utils.checkpoint.checkpoint instead."
        )
    known = {"preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}
    if unknown := [k for k in kwargs if k not in known]:
        raise ValueError("Unexpected keyword arguments: " + ",".join(unknown))
    forward = module.forward

    @functools.wraps(forward)
    def recomputed(*args, **named):
        return _checkpoint(forward, *args, use_reentrant=False, **kwargs, **named)

    module.forward = recomputed
    return module
