"""What there is on this machine, and what the environment's variables say of the tests to run."""

from __future__ import annotations

import importlib.util
import operator
import os
import platform
import sys

import ftorch as torch


class TestEnvironment:
    """Flags and settings of the tests, from variables of the environment.

    Attributes:
        repro_env_vars: those that are not as usual, to be given when a test is run again.
    """

    __test__ = False
    repro_env_vars: dict = {}

    @staticmethod
    def def_flag(name, env_var=None, default=False, include_in_repro=True, enabled_fn=None,
                 implied_by_fn=lambda: False):
        """A flag; it also becomes a global of this module.

        Args:
            name: the global's name, a new one.
            env_var: the variable, ``"1"`` and ``"0"`` of which switch it.
            default: what it is without the variable, unless implied.
            include_in_repro: whether to note it in ``repro_env_vars``.
            enabled_fn: what to make of the variable's text (or None) and the default.
            implied_by_fn: whether something else switches it on.
        """
        text = os.getenv(env_var) if env_var is not None else None
        enabled = default
        if env_var is not None:
            enabled = enabled_fn(text, default) if enabled_fn else (text != "0" if default else text == "1")
        implied = text is None and implied_by_fn()
        enabled = enabled or implied
        if include_in_repro and env_var is not None and enabled != default and not implied:
            TestEnvironment.repro_env_vars[env_var] = text
        return _define(name, enabled, "flag")

    @staticmethod
    def def_setting(name, env_var=None, default=None, include_in_repro=True, parse_fn=lambda text: text):
        """A setting; it also becomes a global of this module. ``parse_fn`` makes it of the variable's text."""
        value = parse_fn(default if env_var is None else os.getenv(env_var))
        if include_in_repro and value != default:
            TestEnvironment.repro_env_vars[env_var] = value
        return _define(name, value, "setting")

    @staticmethod
    def repro_env_var_prefix() -> str:
        """The variables to be set in front of a command."""
        return " ".join(f"{name}={value}" for name, value in TestEnvironment.repro_env_vars.items())


def _define(name, value, kind):
    if name in globals():
        raise AssertionError(f"duplicate definition of {kind} '{name}'")
    globals()[name] = value
    return value


class LazyVal:
    """A value that is found out when it is first used.

    Args:
        cb: what gives it.
    """

    def __init__(self, cb):
        self._cb, self._value = cb, None


def _lazily(name):
    def method(self, *args):
        if self._cb is not None:
            self._value, self._cb = self._cb(), None
        if name in ("__bool__", "__int__"):
            return {"__bool__": bool, "__int__": int}[name](self._value)
        if name == "__divmod__":
            return divmod(self._value, *args)
        return getattr(operator, name)(self._value, *args)

    return method


for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or", "xor", "neg",
    "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "bool", "int", "index",
):
    setattr(LazyVal, f"__{_name}__", _lazily(f"__{_name}__"))


def _check_module_exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


_flag = TestEnvironment.def_flag

SEED = 1234
IS_LINUX = sys.platform == "linux"
IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_PPC = platform.machine() == "ppc64le"
IS_X86 = platform.machine() in ("x86_64", "i386")
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_S390X = platform.machine() == "s390x"
IS_JETSON = any(name in platform.platform() for name in ("orin", "concord", "galen", "xavier", "nano", "jetson", "tegra"))
IS_AVX512_VNNI_SUPPORTED = torch.cpu._is_vnni_supported()
MACOS_VERSION = float(".".join(platform.mac_ver()[0].split(".")[:2]) or -1)
IS_FILESYSTEM_UTF8_ENCODING = sys.getfilesystemencoding() == "utf-8"

IS_CI = _flag("IS_CI", "CI", include_in_repro=False, enabled_fn=lambda text, _: bool(text))
IS_SANDCASTLE = _flag(
    "IS_SANDCASTLE", "SANDCASTLE", implied_by_fn=lambda: os.getenv("TW_JOB_USER") == "sandcastle", include_in_repro=False
)
IS_FBCODE = _flag("IS_FBCODE", "PYTORCH_TEST_FBCODE", include_in_repro=False)
IS_REMOTE_GPU = _flag("IS_REMOTE_GPU", "PYTORCH_TEST_REMOTE_GPU", include_in_repro=False)
IN_RE_WORKER = os.environ.get("INSIDE_RE_WORKER") is not None
PRINT_REPRO_ON_FAILURE = _flag("PRINT_REPRO_ON_FAILURE", "PYTORCH_PRINT_REPRO_ON_FAILURE", True, include_in_repro=False)
NO_MULTIPROCESSING_SPAWN = False

TEST_WITH_ASAN = _flag("TEST_WITH_ASAN", "PYTORCH_TEST_WITH_ASAN")
TEST_WITH_DEV_DBG_ASAN = _flag("TEST_WITH_DEV_DBG_ASAN", "PYTORCH_TEST_WITH_DEV_DBG_ASAN")
TEST_WITH_TSAN = _flag("TEST_WITH_TSAN", "PYTORCH_TEST_WITH_TSAN")
TEST_WITH_UBSAN = _flag("TEST_WITH_UBSAN", "PYTORCH_TEST_WITH_UBSAN")
TEST_WITH_ROCM = _flag("TEST_WITH_ROCM", "PYTORCH_TEST_WITH_ROCM")
TEST_WITH_MTIA = _flag("TEST_WITH_MTIA", "PYTORCH_TEST_WITH_MTIA")
TEST_WITH_SLOW = _flag("TEST_WITH_SLOW", "PYTORCH_TEST_WITH_SLOW")
TEST_SKIP_FAST = _flag("TEST_SKIP_FAST", "PYTORCH_TEST_SKIP_FAST")
TEST_WITH_CROSSREF = _flag("TEST_WITH_CROSSREF", "PYTORCH_TEST_WITH_CROSSREF")
TEST_SKIP_CUDAGRAPH = _flag("TEST_SKIP_CUDAGRAPH", "PYTORCH_TEST_SKIP_CUDAGRAPH")
TEST_WITH_TORCHINDUCTOR = _flag("TEST_WITH_TORCHINDUCTOR", "PYTORCH_TEST_WITH_INDUCTOR")
TEST_WITH_AOT_EAGER = _flag("TEST_WITH_AOT_EAGER", "PYTORCH_TEST_WITH_AOT_EAGER")
TEST_WITH_TORCHDYNAMO = _flag(
    "TEST_WITH_TORCHDYNAMO", "PYTORCH_TEST_WITH_DYNAMO",
    implied_by_fn=lambda: TEST_WITH_TORCHINDUCTOR or TEST_WITH_AOT_EAGER,
)
TEST_WITH_SLOW_GRADCHECK = _flag("TEST_WITH_SLOW_GRADCHECK", "PYTORCH_TEST_WITH_SLOW_GRADCHECK")
TEST_CUDA_MEM_LEAK_CHECK = _flag("TEST_CUDA_MEM_LEAK_CHECK", "PYTORCH_TEST_CUDA_MEM_LEAK_CHECK")
TEST_WITH_TV = os.getenv("PYTORCH_TEST_WITH_TV") == "1"
GRADCHECK_NONDET_TOL = 1e-12

TEST_NUMPY = _check_module_exists("numpy")
TEST_SCIPY = _check_module_exists("scipy")
TEST_FAIRSEQ = _check_module_exists("fairseq")
TEST_NUMBA = _check_module_exists("numba")
TEST_TRANSFORMERS = _check_module_exists("transformers")
TEST_DILL = _check_module_exists("dill")
TEST_LIBROSA = _check_module_exists("librosa") and not IS_ARM64
TEST_OPT_EINSUM = _check_module_exists("opt_einsum")
TEST_Z3 = _check_module_exists("z3")
TEST_MKL = torch.backends.mkl.is_available()
TEST_ONEDNN = torch.backends.mkldnn.is_available()
TEST_ACL = False
TEST_MPS = torch.backends.mps.is_available()
TEST_XPU = torch.xpu.is_available()
TEST_HPU = False
TEST_CUDA = torch.cuda.is_available()
TEST_MULTIGPU = TEST_CUDA and torch.cuda.device_count() >= 2
TEST_CUDA_GRAPH = False  # graphs of kernels are XLA's own affair
TEST_CUDNN = TEST_CUDA and torch.backends.cudnn.is_available()
TEST_ACCELERATOR = LazyVal(lambda: torch.accelerator.is_available())
TEST_MULTIACCELERATOR = LazyVal(lambda: torch.accelerator.device_count() > 1)
TEST_PRIVATEUSE1 = False
NATIVE_DEVICES = ("cpu", "cuda", "xpu", "meta", "mps", "mtia", "privateuseone")


def split_if_not_empty(x: str) -> list[str]:
    """The parts of a list with commas; of an empty text none."""
    return x.split(",") if x else []


NOTEST_CPU = "cpu" in split_if_not_empty(os.getenv("PYTORCH_TESTING_DEVICE_EXCEPT_FOR", ""))
