"""Modules whose parameters are not initialised."""

from __future__ import annotations

import inspect

from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """Makes a module without spending time on initial values, which are arbitrary.

    Args:
        args, kwargs: those of the class, which must take ``device``.

    Raises:
        RuntimeError: for a class that is no module or takes no ``device``.

    >>> import ftorch as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
