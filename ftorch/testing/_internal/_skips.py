"""Decorators that skip tests, or expect them to fail."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import unittest

import ftorch as torch

from . import _flags as flags


def lazy_skip_if(condition_fn, reason):
    """Skips a test, or a class's tests, if the condition holds when they begin.

    Args:
        condition_fn: without arguments, gives whether to skip.
        reason: what the skipped test says.
    """

    def decorator(fn):
        if isinstance(fn, type):
            setup = fn.setUpClass.__func__ if "setUpClass" in vars(fn) else None

            def begin(cls):
                if condition_fn():
                    raise unittest.SkipTest(reason)
                if setup is not None:
                    setup(cls)
                else:
                    super(fn, cls).setUpClass()

            fn.setUpClass = classmethod(begin)
            return fn

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            if condition_fn():
                raise unittest.SkipTest(reason)
            return fn(*args, **kwargs)

        return wrapper

    return decorator


def _optional(name, condition, default):
    """A decorator with or without a message, for what holds."""

    def decorator(func=None, *, msg=default):
        chosen = lazy_skip_if(condition, f"{name}: {msg}")
        return chosen(func) if func is not None else chosen

    decorator.__name__ = decorator.__qualname__ = name
    return decorator


def _with_message(condition, default):
    def decorator_of(msg=default):
        if not isinstance(msg, str):
            raise AssertionError("the decorator takes a message: write it with brackets")
        return lazy_skip_if(condition, msg)

    return decorator_of


_AWAY = "test doesn't currently work"
skipIfRocm = _optional("skipIfRocm", lambda: flags.TEST_WITH_ROCM, f"{_AWAY} on the ROCm stack")
skipIfXpu = _optional("skipIfXpu", lambda: flags.TEST_XPU, f"{_AWAY} on the XPU stack")
skipIfWindows = _optional("skipIfWindows", lambda: flags.IS_WINDOWS, f"{_AWAY} on the Windows stack")
skipIfTorchDynamo = _with_message(lambda: flags.TEST_WITH_TORCHDYNAMO, f"{_AWAY} with dynamo")
skipIfTorchInductor = _with_message(lambda: flags.TEST_WITH_TORCHINDUCTOR, f"{_AWAY} with torchinductor")
skipIfLegacyJitExecutor = _with_message(lambda: False, f"{_AWAY} with legacy JIT executor")
skipIfFreeThreaded = _with_message(
    lambda: not getattr(sys, "_is_gil_enabled", lambda: True)(), "Test doesn't work with free-threaded python"
)
skipIfCrossRef = lazy_skip_if(lambda: flags.TEST_WITH_CROSSREF, "test doesn't currently with crossref")
skipIfMPS = lazy_skip_if(lambda: flags.TEST_MPS, f"{_AWAY} with MPS")
skipIfHpu = lazy_skip_if(lambda: flags.TEST_HPU, f"{_AWAY} with HPU")
skipIfNoXPU = lazy_skip_if(lambda: not flags.TEST_XPU, "test required PyTorched compiled with XPU")
skipIfNoLapack = lazy_skip_if(lambda: not torch._C.has_lapack, "PyTorch compiled without Lapack")
skipIfNoSciPy = lazy_skip_if(lambda: not flags.TEST_SCIPY, "test require SciPy, but SciPy not found")
skipIfCompiledWithoutNumpy = lazy_skip_if(lambda: not flags.TEST_NUMPY, "PyTorch was compiled without numpy support")
skipIfNoXNNPACK = unittest.skipIf(True, "XNNPACK must be enabled for these tests. Please build with USE_XNNPACK=1.")
skipIfNoDill = unittest.skipIf(not flags.TEST_DILL, "no dill")
skipIfSlowGradcheckEnv = unittest.skipIf(
    flags.TEST_WITH_SLOW_GRADCHECK, "Tests that don't use gradcheck don't need to run on slow_gradcheck CI"
)
requires_cuda = unittest.skipUnless(flags.TEST_CUDA, "Requires CUDA")
requires_mkl = unittest.skipUnless(flags.TEST_MKL, "Test requires MKL")
requires_onednn = unittest.skipUnless(flags.TEST_ONEDNN, "Test requires OneDNN/MKLDNN")
skip_if_pytest = lazy_skip_if(lambda: "pytest" in sys.modules, "does not work under pytest")


def xfailIf(condition):
    """Expects a test to fail if the condition holds."""
    return unittest.expectedFailure if condition else lambda func: func


xfailIfTorchDynamo = xfailIf(flags.TEST_WITH_TORCHDYNAMO)
xfailIfACL = xfailIf(flags.TEST_ACL)
xfailIfLinux = xfailIf(flags.IS_LINUX and not flags.TEST_WITH_ROCM and not flags.IS_FBCODE)
xfailIfWindows = xfailIf(flags.IS_WINDOWS)
xfailIfS390X = xfailIf(flags.IS_S390X)
xfailIfPy312Plus = xfailIf(sys.version_info >= (3, 12))


def runOnRocm(fn):
    """Runs a test on ROCm only."""
    return lazy_skip_if(lambda: not flags.TEST_WITH_ROCM, "test currently only works on the ROCm stack")(fn)


def skipIfNotRegistered(op_name, message):
    """Skips a test of an operator of Caffe2: there are none any more."""
    return unittest.skip("Pytorch is compiled without Caffe2")


def skipIfPythonVersionMismatch(predicate):
    """Skips a test unless the predicate holds of Python's version."""
    return lazy_skip_if(lambda: not predicate(sys.version_info), f"Python version mismatch {sys.version}")


def slowTest(fn):
    """Runs a test only where ``PYTORCH_TEST_WITH_SLOW`` is set."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        if not flags.TEST_WITH_SLOW:
            raise unittest.SkipTest("test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")
        fn(*args, **kwargs)

    vars(wrapper)["slow_test"] = True
    return wrapper


def slowTestIf(condition):
    """`slowTest` if the condition holds."""
    return slowTest if condition else lambda fn: fn


def skip_exception_type(exc_type):
    """A context that turns an exception into a skip."""
    import contextlib

    @contextlib.contextmanager
    def context():
        try:
            yield
        except exc_type as error:
            raise unittest.SkipTest(f"not implemented: {error}") from error

    return context()


def skip_but_pass_in_sandcastle_if(condition, reason):
    """Skips a test if the condition holds; in Sandcastle it passes instead."""

    def decorator(func):
        if not condition:
            return func
        if not flags.IS_SANDCASTLE:
            func.__unittest_skip__ = True
            func.__unittest_skip_why__ = reason
            return func

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            print(f"Skipping {func.__name__} on sandcastle for following reason: {reason}", file=sys.stderr)

        return wrapper

    return decorator


def skip_but_pass_in_sandcastle(reason):
    """Skips a test; in Sandcastle it passes instead."""
    return skip_but_pass_in_sandcastle_if(True, reason)


def serialTest(condition=True):
    """Marks a test that must not run beside others (of pytest)."""

    def decorator(fn):
        if condition and importlib.util.find_spec("pytest") is not None:
            import pytest

            return pytest.mark.serial(fn)
        return fn

    return decorator


def _mark(attribute, value):
    def decorator(cls_or_func=None, **_):
        def mark(target):
            if inspect.isclass(target) or callable(target):
                setattr(target, attribute, value)
            return target

        return mark if cls_or_func is None else mark(cls_or_func)

    return decorator


markDynamoStrictTest = _mark("dynamo_strict", True)
unMarkDynamoStrictTest = _mark("dynamo_strict", False)
skipIfNNModuleInlined = _with_message(lambda: False, "test doesn't currently work with nn module inlining")
