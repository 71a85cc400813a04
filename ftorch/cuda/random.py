"""Seeds and states of the GPUs' default generators."""

from __future__ import annotations

import secrets

from ..eager.core import device as _device
from ..eager.sampling import generator as _generators
from .index import device_index


def _generator(device):
    return _generators.default_generator_of(_device.device("cuda", device_index(device)))


def _all():
    return range(len(_device.jax_devices("cuda")))


def manual_seed(seed: int) -> None:
    """Restarts the generator of this thread's GPU; without one it does nothing."""
    seed = int(seed)
    if _all():
        _generator(None).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Restarts the generators of all GPUs; without any it does nothing."""
    seed = int(seed)
    for index in _all():
        _generator(index).manual_seed(seed)


def seed() -> None:
    """Restarts the generator of this thread's GPU from a random seed."""
    manual_seed(secrets.randbits(63))


def seed_all() -> None:
    """Restarts the generators of all GPUs from one random seed."""
    manual_seed_all(secrets.randbits(63))


def initial_seed() -> int:
    """The seed of this thread's GPU.

    Raises:
        AssertionError: without a GPU.
    """
    return _generator(None).initial_seed()


def get_rng_state(device="cuda"):
    """The state of a GPU's generator, a uint8 tensor.

    Raises:
        AssertionError: without a GPU.
    """
    return _generator(device).get_state()


def get_rng_state_all() -> list:
    """The states of all GPUs' generators."""
    return [get_rng_state(index) for index in _all()]


def set_rng_state(new_state, device="cuda") -> None:
    """Continues as a GPU's generator did when `get_rng_state` was called."""
    if _all():
        _generator(device).set_state(new_state)


def set_rng_state_all(new_states) -> None:
    """`set_rng_state` for all GPUs."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
