"""Tests of devices and dtypes: a class of tests becomes one for each device."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import threading
import unittest
from collections import namedtuple
from collections.abc import Iterable

import ftorch as torch

from . import _flags as flags
from ._cases import TestCase
from ._parametrization import _none, compose_parametrize_fns, dtype_name


def _dtype_test_suffix(dtypes):
    if isinstance(dtypes, (list, tuple)):
        return "".join(f"_{dtype_name(dtype)}" for dtype in dtypes)
    return f"_{dtype_name(dtypes)}" if dtypes else ""


def _update_param_kwargs(param_kwargs, name, value):
    """Sets an argument; of a list the plural one."""
    for former in (name, f"{name}s"):
        param_kwargs.pop(former, None)
    if isinstance(value, (list, tuple)):
        param_kwargs[f"{name}s"] = value
    elif value is not None:
        param_kwargs[name] = value


class DeviceTypeTestBase(TestCase):
    """The base of the tests of one type of devices.

    Attributes:
        device_type: the devices' type.
        precision, rel_tol: the least tolerances, which `precisionOverride` and `toleranceOverride` set.
    """

    __test__ = False
    device_type: str = "generic_device_type"
    bypass_device_restrictions = False
    _stop_test_suite = False
    _tls = threading.local()

    @property
    def precision(self):
        return getattr(self._tls, "precision", TestCase._precision)

    @precision.setter
    def precision(self, prec):
        self._tls.precision = prec

    @property
    def rel_tol(self):
        return getattr(self._tls, "rel_tol", TestCase._rel_tol)

    @rel_tol.setter
    def rel_tol(self, prec):
        self._tls.rel_tol = prec

    @classmethod
    def get_primary_device(cls):
        """The device that a test of one device uses."""
        return cls.device_type

    @classmethod
    def get_all_devices(cls):
        """The devices of the type, the primary one first."""
        return [cls.get_primary_device()]

    @classmethod
    def _get_dtypes(cls, test):
        if not hasattr(test, "dtypes"):
            return None
        default = test.dtypes.get("all")
        if default is None:
            raise AssertionError(f"@dtypes is mandatory when using @dtypesIf however '{test.__name__}' didn't specify it")
        return test.dtypes.get(cls.device_type, default)

    def _apply_precision_override_for_test(self, test, param_kwargs):
        dtype = param_kwargs.get("dtypes", param_kwargs.get("dtype"))
        if dtype:
            self.precision = getattr(test, "precision_overrides", {}).get(dtype, self.precision)
            overrides = getattr(test, "tolerance_overrides", {})
            self.precision, self.rel_tol = overrides.get(dtype, (self.precision, self.rel_tol))

    @classmethod
    def instantiate_test(cls, name, test, *, generic_cls=None):
        """Makes the tests of one generic test, by its parameters and dtypes."""
        parametrize_fn = getattr(test, "parametrize_fn", lambda test, generic_cls, device_cls: [(test, "", {}, _none)])
        dtypes = cls._get_dtypes(test)
        if dtypes is not None:
            def by_dtype(test, generic_cls, device_cls):
                for dtype in dtypes:
                    kwargs: dict = {}
                    _update_param_kwargs(kwargs, "dtype", dtype)
                    yield test, "", kwargs, _none  # its name comes after the device's

            parametrize_fn = compose_parametrize_fns(by_dtype, parametrize_fn)
        for function, suffix, kwargs, decorators in parametrize_fn(test, generic_cls, cls):
            dtype = _dtype_test_suffix(kwargs.get("dtypes", kwargs.get("dtype")))
            cls._add_test(f"{name}{suffix and '_'}{suffix}_{cls.device_type}{dtype}", function, kwargs, decorators)

    @classmethod
    def _add_test(cls, name, test, kwargs, decorators):
        parameters = inspect.signature(test).parameters
        if "device" in parameters or "devices" in parameters:
            many = hasattr(test, "num_required_devices")
            _update_param_kwargs(kwargs, "device", cls.get_all_devices() if many else cls.get_primary_device())
        for decorator in decorators(kwargs):
            test = decorator(test)

        @functools.wraps(test)
        def instantiated_test(self, param_kwargs=kwargs):
            former = self.precision, self.rel_tol
            try:
                self._apply_precision_override_for_test(test, param_kwargs)
                return test(self, **param_kwargs)
            finally:
                self.precision, self.rel_tol = former

        if hasattr(cls, name):
            raise AssertionError(f"Redefinition of test {name}")
        setattr(cls, name, instantiated_test)


class CPUTestBase(DeviceTypeTestBase):
    """Tests on the CPU."""

    __test__ = False
    device_type = "cpu"


class CUDATestBase(DeviceTypeTestBase):
    """Tests on CUDA devices."""

    __test__ = False
    device_type = "cuda"

    @classmethod
    def get_primary_device(cls):
        return "cuda:0"

    @classmethod
    def get_all_devices(cls):
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def get_device_type_test_bases():
    """The bases for the devices there are."""
    return [CPUTestBase] + ([CUDATestBase] if torch.cuda.is_available() else [])


device_type_test_bases = get_device_type_test_bases()


def get_all_device_types() -> list[str]:
    """The types of the devices there are."""
    return ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def filter_desired_device_types(bases, except_for=None, only_for=None):
    """Those of some bases that are for, or not for, some types of devices."""
    both = set(except_for or ()) & set(only_for or ())
    if both:
        raise AssertionError(f"same device cannot appear in except_for and only_for: {both}")
    kept = [base for base in bases if not except_for or base.device_type not in except_for]
    return [base for base in kept if not only_for or base.device_type in only_for]


def get_desired_device_type_test_bases(except_for=None, only_for=None, include_lazy=False, allow_mps=False,
                                       allow_xpu=False):
    """The bases that a class of tests, and the variables ``PYTORCH_TESTING_DEVICE_ONLY_FOR`` and ``..._EXCEPT_FOR``, want."""
    names = lambda kind: flags.split_if_not_empty(os.getenv(f"PYTORCH_TESTING_DEVICE_{kind}", ""))  # noqa: E731
    wanted = filter_desired_device_types(device_type_test_bases, except_for, only_for)
    return filter_desired_device_types(wanted, names("EXCEPT_FOR"), names("ONLY_FOR"))


def instantiate_device_type_tests(generic_test_class, scope, except_for=None, only_for=None, include_lazy=False,
                                  allow_mps=False, allow_xpu=False) -> None:
    """Puts a class of tests for each type of devices in the place of a generic one.

    Args:
        generic_test_class: its tests take ``device`` (and ``dtype``, with `dtypes`).
        scope: the module's ``globals()``.
        except_for, only_for: types of devices.

    >>> from ftorch.testing._internal.common_utils import TestCase
    >>> from ftorch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
    >>> import ftorch as torch
    >>> class TestOnes(TestCase):
    ...     @dtypes(torch.float32, torch.int64)
    ...     def test_sum(self, device, dtype):
    ...         self.assertEqual(torch.ones(3, device=device, dtype=dtype).sum(), 3)
    >>> scope = {"TestOnes": TestOnes}
    >>> instantiate_device_type_tests(TestOnes, scope, only_for="cpu")
    >>> [name for name in dir(scope["TestOnesCPU"]) if name.startswith("test_")]
    ['test_sum_cpu_float32', 'test_sum_cpu_int64']
    """
    del scope[generic_test_class.__name__]
    members = list(vars(generic_test_class))
    tests = [name for name in members if name.startswith("test")]
    for base in get_desired_device_type_test_bases(except_for, only_for, include_lazy, allow_mps, allow_xpu):
        name = generic_test_class.__name__ + base.device_type.upper()
        cls = type(name, (base, generic_test_class), {
            "setUpClass": _of_both(base, generic_test_class, "setUpClass"),
            "tearDownClass": _of_both(generic_test_class, base, "tearDownClass"),
            "__module__": generic_test_class.__module__,
        })
        for member in members:
            value = getattr(generic_test_class, member)
            if member in tests:
                cls.instantiate_test(member, copy.deepcopy(value), generic_cls=generic_test_class)
            elif member not in vars(cls):
                setattr(cls, member, vars(generic_test_class)[member])
        scope[name] = cls
    for name in tests:
        delattr(generic_test_class, name)


def _of_both(first, second, name):
    def both(cls):
        for owner in (first, second):
            getattr(owner, name).__func__(cls)

    both.__name__ = name
    return classmethod(both)


# --- decorators ----------------------------------------------------------------------


class skipIf:
    """Skips a test on a type of devices.

    Args:
        dep: a boolean, or the name of an attribute of the test's class.
        reason: what the skipped test says.
        device_type: the type, or several; None means all.
    """

    def __init__(self, dep, reason, device_type=None):
        self.dep, self.reason, self.device_type = dep, reason, device_type

    def _is_for(self, device_type):
        kinds = self.device_type
        if kinds is None or kinds == device_type:
            return True
        return not isinstance(kinds, str) and isinstance(kinds, Iterable) and device_type in kinds

    def __call__(self, fn):
        @functools.wraps(fn)
        def wrapper(slf, *args, **kwargs):
            if self._is_for(slf.device_type):
                if getattr(slf, self.dep, True) if isinstance(self.dep, str) else self.dep:
                    raise unittest.SkipTest(self.reason)
            return fn(slf, *args, **kwargs)

        return wrapper


def _skip_on(name, device_type):
    def __init__(self, dep, reason):
        skipIf.__init__(self, dep, reason, device_type=device_type)

    return type(name, (skipIf,), {"__init__": __init__, "__module__": __name__, "__doc__": f"`skipIf` on {device_type}."})


skipCPUIf = _skip_on("skipCPUIf", "cpu")
skipCUDAIf = _skip_on("skipCUDAIf", "cuda")
skipXPUIf = _skip_on("skipXPUIf", "xpu")
skipGPUIf = _skip_on("skipGPUIf", ("cuda", "xpu"))
skipLazyIf = _skip_on("skipLazyIf", "lazy")
skipMetaIf = _skip_on("skipMetaIf", "meta")
skipMPSIf = _skip_on("skipMPSIf", "mps")
skipHPUIf = _skip_on("skipHPUIf", "hpu")
skipXLAIf = _skip_on("skipXLAIf", "xla")
skipPRIVATEUSE1If = _skip_on("skipPRIVATEUSE1If", "privateuse1")

skipCPUIfNoLapack = skipCPUIf(not torch._C.has_lapack, "PyTorch compiled without Lapack")
skipCPUIfNoFFT = skipCPUIf(not torch._C.has_spectral, "PyTorch is built without FFT support")
skipCPUIfNoMkl = skipCPUIf(not flags.TEST_MKL, "PyTorch is built without MKL support")
skipCPUIfNoMklSparse = skipCPUIf(not flags.TEST_MKL, "PyTorch is built without MKL support for sparse")
skipCPUIfNoMkldnn = skipCPUIf(not flags.TEST_ONEDNN, "PyTorch is built without mkldnn support")
skipCUDAIfNoMagma = skipCUDAIf(False, "no MAGMA library detected")
skipCUDAIfNoCusolver = skipCUDAIf(False, "cuSOLVER not available")
skipCUDAIfNoMagmaAndNoCusolver = skipCUDAIf(False, "no MAGMA and no cuSOLVER library detected")
skipCUDAIfNoCudnn = skipCUDAIf(not flags.TEST_CUDNN, "PyTorch is built without cuDNN support")
skipCUDAIfNotRocm = skipCUDAIf(not flags.TEST_WITH_ROCM, "test doesn't currently work on the CUDA stack")
skipMeta = skipMetaIf(True, "test doesn't work with meta tensors")
skipLazy = skipLazyIf(True, "test doesn't work with lazy tensors")
skipXLA = skipXLAIf(True, "Marked as skipped for XLA")
skipMPS = skipMPSIf(True, "test doesn't work on MPS backend")
skipHPU = skipHPUIf(True, "test doesn't work on HPU backend")
skipXPU = skipXPUIf(True, "test doesn't work on XPU backend")
skipPRIVATEUSE1 = skipPRIVATEUSE1If(True, "test doesn't work on privateuse1 backend")


def skipCUDAIfRocm(func=None, *, msg="test doesn't currently work on the ROCm stack"):
    """Skips a test of CUDA on ROCm."""
    decorator = skipCUDAIf(flags.TEST_WITH_ROCM, f"skipCUDAIfRocm: {msg}")
    return decorator(func) if func is not None else decorator


class expectedFailure:
    """Expects a test to fail on a type of devices, or for a dtype.

    Args:
        device_type, dtype: None means all.
    """

    def __init__(self, device_type, dtype=None):
        self.device_type, self.dtype = device_type, dtype

    def __call__(self, fn):
        @functools.wraps(fn)
        def wrapper(slf, *args, **kwargs):
            device_type = getattr(slf, "device_type", None) or slf.device
            dtype = kwargs.get("dtype", getattr(slf, "dtype", None))
            if self.device_type not in (None, device_type) or self.dtype not in (None, dtype):
                return fn(slf, *args, **kwargs)
            try:
                fn(slf, *args, **kwargs)
            except Exception:
                return None
            return slf.fail("expected test to fail, but it passed")

        return wrapper


expectedFailureCPU, expectedFailureCUDA = expectedFailure("cpu"), expectedFailure("cuda")
expectedFailureMeta, expectedFailureXLA = expectedFailure("meta"), expectedFailure("xla")
expectedFailureMPS, expectedFailureXPU = expectedFailure("mps"), expectedFailure("xpu")
expectedFailureHPU = expectedFailure("hpu")


class onlyOn:
    """Runs a test on a type of devices, or several, only."""

    def __init__(self, device_type: str | list):
        self.device_type = device_type

    def __call__(self, fn):
        @functools.wraps(fn)
        def wrapper(slf, *args, **kwargs):
            if slf.device_type not in self.device_type and not getattr(slf, "bypass_device_restrictions", False):
                raise unittest.SkipTest(f"Only runs on {self.device_type}")
            return fn(slf, *args, **kwargs)

        return wrapper


onlyCPU, onlyCUDA, onlyMPS = onlyOn("cpu"), onlyOn("cuda"), onlyOn("mps")
onlyXPU, onlyHPU = onlyOn("xpu"), onlyOn("hpu")
onlyAccelerator = onlyOn(["cuda", "xpu", "mps", "hpu", "mtia", "privateuse1"])
onlyCUDAAndPRIVATEUSE1 = onlyOn(["cuda", "privateuse1"])


def onlyNativeDeviceTypesAnd(devices=None):
    """Runs a test on PyTorch's own types of devices, and on those given, only."""

    def decorator(fn):
        @functools.wraps(fn)
        def wrapper(self, *args, **kwargs):
            if self.device_type not in (*flags.NATIVE_DEVICES, *(devices or ())):
                raise unittest.SkipTest(f"onlyNativeDeviceTypesAnd {devices} : doesn't run on {self.device_type}")
            return fn(self, *args, **kwargs)

        return wrapper

    return decorator


onlyNativeDeviceTypes = onlyNativeDeviceTypesAnd()


class deviceCountAtLeast:
    """Gives a test a list ``devices``; skips it where there are fewer than a number."""

    def __init__(self, num_required_devices):
        self.num_required_devices = num_required_devices

    def __call__(self, fn):
        if hasattr(fn, "num_required_devices"):
            raise AssertionError(f"deviceCountAtLeast redefinition for {fn.__name__}")
        fn.num_required_devices = self.num_required_devices

        @functools.wraps(fn)
        def wrapper(slf, devices, *args, **kwargs):
            if len(devices) < self.num_required_devices:
                raise unittest.SkipTest(f"fewer than {self.num_required_devices} devices detected")
            return fn(slf, devices, *args, **kwargs)

        return wrapper


class precisionOverride:
    """The least absolute tolerance of a test by dtype.

    Args:
        d: ``{dtype: tolerance}``.
    """

    def __init__(self, d):
        if not isinstance(d, dict):
            raise AssertionError("precisionOverride not given a dtype : precision dict!")
        for dtype in d:
            if not isinstance(dtype, torch.dtype):
                raise AssertionError(f"precisionOverride given unknown dtype {dtype}")
        self.d = d

    def __call__(self, fn):
        fn.precision_overrides = self.d
        return fn


tol = namedtuple("tol", ["atol", "rtol"])


class toleranceOverride:
    """The least tolerances of a test by dtype.

    Args:
        d: ``{dtype: tol(atol, rtol)}``.
    """

    def __init__(self, d):
        if not isinstance(d, dict) or not all(isinstance(tolerances, tol) for tolerances in d.values()):
            raise AssertionError("toleranceOverride not given a dtype : tol dict!")
        for dtype in d:
            if not isinstance(dtype, torch.dtype):
                raise AssertionError(f"toleranceOverride given unknown dtype {dtype}")
        self.d = d

    def __call__(self, fn):
        fn.tolerance_overrides = self.d
        return fn


class dtypes:
    """Makes a test of each dtype, or of each tuple of dtypes.

    Args:
        *args: the dtypes or tuples.
        device_type: the devices for which they are.
    """

    def __init__(self, *args, device_type="all"):
        if args and isinstance(args[0], (list, tuple)):
            for arg in args:
                if not isinstance(arg, (list, tuple)):
                    raise AssertionError(
                        "When one dtype variant is a tuple or list, all dtype variants must be. "
                        f"Received non-list non-tuple dtype {arg}"
                    )
                if not all(isinstance(dtype, torch.dtype) for dtype in arg):
                    raise AssertionError(f"Unknown dtype in {arg}")
        elif not all(isinstance(arg, torch.dtype) for arg in args):
            raise AssertionError(f"Unknown dtype in {args}")
        self.args, self.device_type = args, device_type

    def __call__(self, fn):
        found = getattr(fn, "dtypes", {})
        if self.device_type in found:
            raise AssertionError(f"dtypes redefinition for {self.device_type}")
        found[self.device_type] = self.args
        fn.dtypes = found
        return fn


def _dtypes_on(name, device_type):
    def __init__(self, *args):
        dtypes.__init__(self, *args, device_type=device_type)

    return type(name, (dtypes,), {"__init__": __init__, "__module__": __name__, "__doc__": f"`dtypes` on {device_type}."})


dtypesIfCPU = _dtypes_on("dtypesIfCPU", "cpu")
dtypesIfCUDA = _dtypes_on("dtypesIfCUDA", "cuda")
dtypesIfXPU = _dtypes_on("dtypesIfXPU", "xpu")
dtypesIfMPS = _dtypes_on("dtypesIfMPS", "mps")
dtypesIfHPU = _dtypes_on("dtypesIfHPU", "hpu")
dtypesIfPRIVATEUSE1 = _dtypes_on("dtypesIfPRIVATEUSE1", "privateuse1")


def _with_flags(flags_of):
    """Runs a test within the flags of a backend."""

    def decorator(fn):
        @functools.wraps(fn)
        def wrapper(self, *args, **kwargs):
            with flags_of():
                return fn(self, *args, **kwargs)

        return wrapper

    return decorator


disablecuDNN = _with_flags(lambda: torch.backends.cudnn.flags(enabled=False))
disableMkldnn = _with_flags(lambda: torch.backends.mkldnn.flags(enabled=False))


def _has_sufficient_memory(device, size):
    if torch.device(device).type == "cuda":
        return torch.cuda.is_available() and torch.cuda.get_device_properties(device).total_memory >= size
    pages, page = os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return pages * page >= size


def largeTensorTest(size, device=None, inductor=False):
    """Skips a test where there is less memory.

    Args:
        size: bytes, ``"12GB"``, or a function of the test's arguments.
        device: the device; by default the test's.
    """
    if isinstance(size, str):
        if not size.endswith(("GB", "gb")):
            raise AssertionError("only bytes or GB supported")
        size = 1024**3 * int(size[:-2])

    def decorator(fn):
        @functools.wraps(fn)
        def wrapper(self, *args, **kwargs):
            needed = size(self, *args, **kwargs) if callable(size) else size
            where = device if device is not None else getattr(self, "get_primary_device", lambda: self.device)()
            if not _has_sufficient_memory(where, needed):
                raise unittest.SkipTest(f"Insufficient {where} memory")
            return fn(self, *args, **kwargs)

        return wrapper

    return decorator


IS_FLEX_ATTENTION_CPU_PLATFORM_SUPPORTED = sys.platform == "linux"
