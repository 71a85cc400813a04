"""Automatic differentiation: ``torch.autograd``."""

from ..eager.autograd.backward import backward, grad
from ..eager.autograd.saved_values import SavedTensor  # noqa: F401
from . import anomaly_mode, function, functional, grad_mode, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, NestedIOFunction
from .grad_mode import (  # noqa: F401
    _force_original_view_tracking,
    _unsafe_preserve_version_counter,
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    is_view_replay_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck  # the function hides its module, as in PyTorch
from .variable import Variable, variable  # the function hides its module, as in PyTorch

__all__ = [
    "Function", "NestedIOFunction", "Variable", "anomaly_mode", "backward", "detect_anomaly", "enable_grad",
    "enforce_grad_layout_policy", "forward_ad",
    "function", "functional", "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph",
    "inference_mode", "no_grad", "profiler", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled", "variable",
]


def __getattr__(name):
    if name == "DeviceType":  # the profiler stands above: it is imported when it is asked for
        import importlib

        return importlib.import_module(f"{__name__}.profiler").DeviceType
    if name in ("forward_ad", "profiler", "profiler_legacy", "profiler_util"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name == "torch":  # PyTorch's module imports it by that name
        import importlib

        return importlib.import_module(__package__.rpartition(".")[0])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_checkpoint_valid() -> bool:
    """Whether a checkpoint may run its function again: not in a pass that asks for some gradients only.

    >>> import ftorch as torch
    >>> torch.autograd._is_checkpoint_valid()
    True
    """
    return Variable._execution_engine.is_checkpoint_valid()


def _profiler_enabled() -> bool:
    """Whether a profiler records."""
    import sys

    collector = sys.modules.get("ftorch.profiler._collector")
    return collector is not None and collector.active() is not None


def _disable_profiler():
    """Ends the profiler that records. Raises RuntimeError without one."""
    if not _profiler_enabled():
        raise RuntimeError("Can't disable Kineto profiler when it's not running")
    import sys

    sys.modules["ftorch.profiler._collector"].active().suspend()


def kineto_available() -> bool:
    """Whether there is a profiler of PyTorch's kind: here JAX's takes its place, by the same interface."""
    return True


def _calculate_shape(output, grad, is_grads_batched: bool):
    """The shapes of an output and of a gradient for it, without the batch's dimension.

    Raises:
        RuntimeError: a batch for an edge of the graph.
    """
    if isinstance(output, graph.GradientEdge):
        if is_grads_batched:
            raise RuntimeError("Batched grads are not supported with GradientEdge")
        return output.node._input_metadata[output.output_nr].shape, grad.shape
    return output.shape, grad.shape[1:] if is_grads_batched else grad.shape
