"""Forked processes compute on the host tier: XLA's threads stayed with the parent, so that they would wait for ever."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..core import device as _device
from ..core import jax_internals
from . import host_tier

_steps: dict[Any, Any] = {}

SPAWN = (
    "Cannot run {} in a forked subprocess, where the threads of XLA are missing. To use ftorch with multiprocessing, "
    "use the 'spawn' start method"
)


def run_step(plan, arrays, numbers):
    """The results of a step, a tuple of arrays, without XLA.

    Raises:
        RuntimeError: if the host tier cannot run it; the message says to use spawn.
    """
    if plan.device is not _device.CPU:
        raise RuntimeError(SPAWN.format(f"{plan.name} on {plan.device}"))
    if plan.element is None and (step := host_tier.step_of(plan)):
        return tuple(host_tier.run_step(step, [value_of(a) for a in arrays], numbers))
    operands = [value_of(a) for a in (*arrays, *numbers)]
    closed = _steps.get(plan)
    if closed is None:
        closed = _steps[plan] = jax.make_jaxpr(plan.step())(*operands)
    return tuple(_arrays(closed, operands, plan.name))


def value_of(array):
    """An array's elements.

    Raises:
        RuntimeError: if they were being computed in the parent when it was forked.
    """
    if isinstance(array, jax.Array) and not jax_internals.is_ready(array):
        raise RuntimeError(_device.NOT_COMPUTED)
    return np.asarray(array)


def run_function(function, operands, name):
    """The results of a function of JAX's on a tree of arrays, in order; errors as of `run_step`."""
    operands = jax.tree.map(value_of, operands)
    closed = jax.make_jaxpr(function)(*operands)
    return _arrays(closed, jax.tree.leaves(operands), name)


def _arrays(closed, operands, name):
    from .. import host  # a child's only: its rules take a while to import

    try:
        results = host.evaluate(closed, *operands)
    except host.MissingRule as error:
        raise RuntimeError(f"{SPAWN.format(name)} ({error})") from None
    return [np.asarray(a) for a in results]
