"""What the profiler and saved tensors' hooks are asked (``torch._C._autograd``)."""

from ..autograd.profiler import DeviceType
from ..eager.autograd import backward as _backward
from ..eager.autograd.saved_values import SavedTensor
from ..eager.tensor import counter_of
from ..eager.tensor import modes as _modes

__all__ = ["DeviceType", "SavedTensor"]


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward pass that is running keeps its graph; True outside of one."""
    return _backward.final.keeps if _backward.running() is not None else True


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """What `disable_saved_tensors_hooks` says, where it is at work."""
    return getattr(_modes.saved_hooks, "message", None)


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether hooks on saved tensors may be set."""
    return _saved_tensors_hooks_get_disabled_error_message() is None


def _unsafe_set_version_counter(tensors, versions) -> None:
    """Sets how often tensors were written to.

    Raises:
        RuntimeError: for a number below 0.
    """
    for t, version in zip(tensors, versions):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        counter_of(t).version = version
