"""``torch.mps.profiler``: of no device."""


from .._toplevel.absent_device import functions
from ..eager.native.contexts import contextmanager

__all__ = [
    "is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start", "stop",
]

_WHY = "Cannot execute profiler{}Trace() without MPS backend."
start = functions(["start"], RuntimeError, _WHY.format("Start"))["start"]
stop = functions(["stop"], RuntimeError, _WHY.format("Stop"))["stop"]


def is_capturing_metal() -> bool:
    """False: there is no such device."""
    return False


def is_metal_capture_enabled() -> bool:
    """False: there is no such device."""
    return False


@contextmanager
def profile(mode: str = "interval", wait_until_completed: bool = False):
    """Raises RuntimeError: there is no such device."""
    start(mode, wait_until_completed)
    yield


@contextmanager
def metal_capture(fname: str):
    """Raises RuntimeError: there is no such device."""
    start(fname)
    yield
