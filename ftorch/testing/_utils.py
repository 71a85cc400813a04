"""Seeds around a test's parts."""

from __future__ import annotations

import contextlib

import ftorch as torch


def wrapper_set_seed(op, *args, **kwargs):
    """Calls ``op`` from seed 42, with the generator's state restored afterwards; gives what it returns."""
    with freeze_rng_state():
        torch.manual_seed(42)
        return op(*args, **kwargs)


@contextlib.contextmanager
def freeze_rng_state():
    """Restores the states of the default generators at the end.

    >>> import ftorch as torch
    >>> from ftorch.testing._internal.common_utils import freeze_rng_state
    >>> with freeze_rng_state():
    ...     first = torch.rand(2)
    >>> bool((torch.rand(2) == first).all())
    True
    """
    host = torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
        torch.set_rng_state(host)
