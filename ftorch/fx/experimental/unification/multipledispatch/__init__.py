"""Functions that are chosen by the classes of all positional arguments."""

from . import conflict, core, dispatcher, utils, variadic  # noqa: F401
from .core import dispatch
from .dispatcher import Dispatcher, MDNotImplementedError, halt_ordering, restart_ordering

__all__ = ["dispatch", "Dispatcher", "halt_ordering", "restart_ordering", "MDNotImplementedError"]
