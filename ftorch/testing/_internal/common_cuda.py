"""What there is of CUDA: flags, and tests with and without TF32."""

from __future__ import annotations

import contextlib
import functools
import inspect

import ftorch as torch

from ._flags import TEST_CUDA, TEST_CUDNN, TEST_MULTIGPU, LazyVal

__all__ = [
    "CUDA_DEVICE", "PLATFORM_SUPPORTS_BF16", "PLATFORM_SUPPORTS_FLASH_ATTENTION", "PLATFORM_SUPPORTS_FP8",
    "PLATFORM_SUPPORTS_FUSED_ATTENTION", "PLATFORM_SUPPORTS_MEM_EFF_ATTENTION", "SM53OrLater", "SM60OrLater",
    "SM70OrLater", "SM75OrLater", "SM80OrLater", "SM89OrLater", "SM90OrLater", "SM100OrLater", "TEST_CUDA", "TEST_CUDNN",
    "TEST_CUDNN_VERSION", "TEST_MAGMA", "TEST_MULTIGPU", "tf32_enabled", "tf32_off", "tf32_on", "tf32_on_and_off",
    "with_tf32_off",
]

CUDA_DEVICE = torch.device("cuda:0") if TEST_CUDA else None
TEST_MAGMA = TEST_CUDA
TEST_CUDNN_VERSION = LazyVal(lambda: torch.backends.cudnn.version() if TEST_CUDNN else 0)


def _at_least(*capability):
    return LazyVal(lambda: torch.cuda.is_available() and torch.cuda.get_device_capability() >= capability)


SM53OrLater, SM60OrLater, SM70OrLater, SM75OrLater = _at_least(5, 3), _at_least(6, 0), _at_least(7, 0), _at_least(7, 5)
SM80OrLater, SM89OrLater, SM90OrLater, SM100OrLater = _at_least(8, 0), _at_least(8, 9), _at_least(9, 0), _at_least(10, 0)
PLATFORM_SUPPORTS_BF16 = PLATFORM_SUPPORTS_FLASH_ATTENTION = SM80OrLater
PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = SM53OrLater
PLATFORM_SUPPORTS_FUSED_ATTENTION = LazyVal(lambda: bool(SM53OrLater))
PLATFORM_SUPPORTS_FP8 = SM89OrLater


def _with_tf32(enabled):
    @contextlib.contextmanager
    def context():
        matmul = torch.backends.cuda.matmul
        former = matmul.allow_tf32
        matmul.allow_tf32 = enabled
        try:
            with torch.backends.cudnn.flags(enabled=None, benchmark=None, deterministic=None, allow_tf32=enabled):
                yield
        finally:
            matmul.allow_tf32 = former

    return context()


def tf32_off():
    """A context without TF32."""
    return _with_tf32(False)


def tf32_enabled():
    """A context with TF32."""
    return _with_tf32(True)


@contextlib.contextmanager
def tf32_on(self, tf32_precision=1e-5):
    """A context with TF32, in which a test case's tolerance is another."""
    former = self.precision
    self.precision = tf32_precision
    try:
        with tf32_enabled():
            yield
    finally:
        self.precision = former


def tf32_on_and_off(tf32_precision=1e-5, *, only_if=True):
    """Runs a test of CUDA twice, without TF32 and with it, where there is a device that has it."""

    def decorator(fn):
        names = list(inspect.signature(fn).parameters)

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            kwargs.update(zip(names, args))
            applies = torch.cuda.is_tf32_supported() if torch.cuda.is_available() else False
            if "device" in kwargs:
                applies = applies and torch.device(kwargs["device"]).type == "cuda"
            if "dtype" in kwargs:
                applies = applies and kwargs["dtype"] in (torch.float32, torch.complex64)
            if not applies or not only_if:
                fn(**kwargs)
                return
            with tf32_off():
                fn(**kwargs)
            with tf32_on(kwargs["self"], tf32_precision):
                fn(**kwargs)

        return wrapper

    return decorator


def with_tf32_off(fn):
    """Runs a test without TF32."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        with tf32_off():
            return fn(*args, **kwargs)

    return wrapper
