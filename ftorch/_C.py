"""The names of PyTorch's extension module that programs reach for (``torch._C``)."""

from __future__ import annotations

from .eager.device import device  # noqa: F401
from .eager.dtype import dtype  # noqa: F401
from .eager.executor import OutOfMemoryError  # noqa: F401
from .eager.formats import layout, memory_format  # noqa: F401
from .eager.generator import Generator, default_generator  # noqa: F401
from .eager.geometry import Size  # noqa: F401
from .eager.tensor import Tensor as TensorBase  # noqa: F401
from .eager.tensor import TensorMeta as _TensorMeta  # noqa: F401
from .overrides import (  # noqa: F401
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    _disabled_torch_function_impl,
)

_TensorBase = TensorBase


def _log_api_usage_once(event: str) -> None:
    """Does nothing: nothing is logged."""


def _get_tracing_state():
    """None: no ``jit.trace`` is at work."""


def _get_accelerator(check: bool | None = None):
    """The device type of the accelerator, or the CPU."""
    from .accelerator import current_accelerator

    return current_accelerator() or device("cpu")
