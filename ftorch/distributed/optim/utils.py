"""The functional counterparts of optimizers."""

from __future__ import annotations

from ftorch import optim

from .functional_adadelta import _FunctionalAdadelta
from .functional_adagrad import _FunctionalAdagrad
from .functional_adam import _FunctionalAdam
from .functional_adamax import _FunctionalAdamax
from .functional_adamw import _FunctionalAdamW
from .functional_rmsprop import _FunctionalRMSprop
from .functional_rprop import _FunctionalRprop
from .functional_sgd import _FunctionalSGD

__all__ = ["as_functional_optim", "functional_optim_map", "register_functional_optim"]

functional_optim_map: dict = {
    optim.Adadelta: _FunctionalAdadelta, optim.Adagrad: _FunctionalAdagrad, optim.Adam: _FunctionalAdam,
    optim.Adamax: _FunctionalAdamax, optim.AdamW: _FunctionalAdamW, optim.RMSprop: _FunctionalRMSprop,
    optim.Rprop: _FunctionalRprop, optim.SGD: _FunctionalSGD,
}


def register_functional_optim(key, optim) -> None:
    """Names the functional counterpart of an optimizer class, if it has none yet."""
    functional_optim_map.setdefault(key, optim)


def as_functional_optim(optim_cls: type, *args, **kwargs):
    """The functional counterpart of an optimizer class, without parameters.

    Raises:
        ValueError: if there is none.
    """
    if optim_cls not in functional_optim_map:
        raise ValueError(f"Optimizer {optim_cls} does not have a functional counterpart!")
    return functional_optim_map[optim_cls]([], *args, **kwargs, _allow_empty_param_list=True)
