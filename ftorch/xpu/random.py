"""``torch.xpu.random``: of no device."""

from .._toplevel.absent_device import functions

_NAMES = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]

globals().update(functions(_NAMES, AssertionError, "Torch not compiled with XPU enabled"))

__all__ = list(_NAMES)
