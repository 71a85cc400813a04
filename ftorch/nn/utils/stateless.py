"""`functional_call` under its old name."""

from __future__ import annotations

import warnings

from ...eager.transforms.functional_call import functional_call as _functional_call
from ...eager.transforms.functional_call import swapped

__all__ = ["functional_call"]


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True,
                    strict=False):
    """Deprecated: `torch.func.functional_call`, which see."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """A context in which a module has other parameters and buffers.

    Args:
        module: the module.
        parameters_and_buffers: {name: tensor}; gets what the module assigned to its buffers meanwhile.
        tie_weights, strict: as of `torch.func.functional_call`.
        stack_weights: whether contexts within each other end in any order; they do.
    """
    return swapped(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict)
