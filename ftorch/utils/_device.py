"""The device of new tensors, for a while (``torch.utils._device``)."""

from __future__ import annotations

import functools

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


def device_decorator(device, func):
    """The function, called with a device as the default."""
    @functools.wraps(func)
    def called(*args, **kwargs):
        with device:
            return func(*args, **kwargs)

    return called
