"""The device of new tensors, for a while (``torch.utils._device``)."""

from __future__ import annotations

import functools

from ..autograd.grad_mode import DecoratorContextManager
from ..eager.core.device import device as _device

__all__ = ["set_device"]


def set_device(device):
    """A decorator: a function in which new tensors are made on a device.

    >>> import ftorch as torch
    >>> from ftorch.utils._device import set_device
    >>> set_device("meta")(lambda: torch.ones(2).device)()
    device(type='meta')
    """
    return functools.partial(device_decorator, _device(device))


class _On(DecoratorContextManager):
    """A device as the default."""

    def __init__(self, device):
        self.device = device

    def clone(self):
        return _On(self.device)

    def __enter__(self):
        self.device.__enter__()

    def __exit__(self, *exception):
        self.device.__exit__(*exception)


def device_decorator(device, func):
    """The function, or generator function, run with a device as the default."""
    return _On(device)(func)
