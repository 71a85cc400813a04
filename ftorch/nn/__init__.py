"""``torch.nn``: modules, parameters, initialisation and functions of neural networks."""

from .._submodules import on_demand as _on_demand
from . import functional, init, modules, parallel, parameter, utils
from .modules import *  # noqa: F403 - every module class, listed in modules.__all__
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *modules.__all__,
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]


def factory_kwargs(kwargs: dict | None) -> dict:
    """What a module's factories of tensors are given, from its own arguments.

    Args:
        kwargs: ``device``, ``dtype``, ``memory_format``, and ``factory_kwargs``, a dictionary of the same.

    Raises:
        TypeError: for other names, and for one that comes twice.

    >>> import ftorch as torch
    >>> torch.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": torch.float64}})
    {'dtype': torch.float64, 'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    if unknown := kwargs.keys() - names - {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {unknown}")
    made = dict(kwargs.get("factory_kwargs", {}))
    for name in ("device", "dtype", "memory_format"):
        if name in kwargs:
            if name in made:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            made[name] = kwargs[name]
    return made


# Packages that are imported when they are first used.
__getattr__ = _on_demand(globals(), "_reduction attention common_types grad intrinsic qat quantizable quantized")
