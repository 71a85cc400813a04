"""``torch.nn``: modules, parameters, initialisation and functions of neural networks."""

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
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]
