"""Lets PyTorch's own test files be imported over ftorch: its test helpers, and stand-ins for what ftorch lacks.

Loaded by the ``conftest.py`` that ``pytorch_suites.py`` writes. PyTorch's helpers (``torch.testing._internal``) come from
an installed PyTorch, as source; nothing else of it is imported. A name that ftorch lacks and an import statement asks
for is written down, and replaced by a class that does nothing, so that the rest of a file can run.
"""

from __future__ import annotations

import atexit
import builtins
import importlib.abc
import importlib.util
import multiprocessing
import os
import sys
import types
from pathlib import Path

HELPERS = "torch.testing._internal"
# Asked for as attributes while PyTorch's helpers are imported, or by its test cases.
ATTRIBUTES = (
    "torch.cuda.jiterator", "torch.jiterator_unary", "torch.jiterator_binary", "torch.jiterator_2inputs_2outputs",
    "torch.jiterator_4inputs_with_extra_args", "torch.jiterator_binary_return_by_ref", "torch.backends.python_native",
    "torch.jit._recursive.ConcreteTypeStore",
)
# Switches and passes of TorchScript's own executor, and of how processes end: what of them is no part of ftorch does nothing.
EXECUTOR = ("_jit_", "_debug_", "_set_print_stack_traces_on_fatal_signal")
# What files of PyTorch's earlier versions import, and its helpers no longer have.
GONE = {
    f"{HELPERS}.common_utils.skipIfMps": lambda test: test,
    f"{HELPERS}.common_utils.disable_translation_validation_if_dynamic_shapes": lambda test: test,
    f"{HELPERS}.common_utils.BUILD_WITH_CAFFE2": False,
    f"{HELPERS}.inductor_utils.HAS_CUDA": False,
    "torch._dynamo.testing.requires_static_shapes": lambda test: test,
    "torch._dynamo.testing.skipIfPy311": lambda test: test,
    "torch._dynamo.utils.ifdyn": lambda dynamic, static: dynamic,
    "torch._dynamo.utils.ifunspec": lambda unspecialized, specialized: unspecialized,
    "torch._dynamo.utils.CompileProfiler": object,
    "torch._dynamo.exc.IncorrectUsage": type("IncorrectUsage", (Exception,), {}),
    "torch._dynamo.backends.onnxrt.has_onnxruntime": lambda: False,
    "torch.autograd.profiler._enable_dynamo_cache_lookup_profiler": lambda enabled: None,
    "torch._export.dynamic_dim": lambda tensor, dim: None,
}
missing: set[str] = set()


class _Nothing(type):
    """A class of which every attribute is a function that says False, as every call does."""

    available_dsls = all_dsls = ()

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: cls if args and callable(args[0]) else False

    def __call__(cls, *args, **kwargs):
        return False


def stand_in(name: str) -> type:
    """A class in place of something missing, which is written down."""
    missing.add(name)
    body = {"__doc__": f"Missing: {name}", "__class_getitem__": classmethod(lambda cls, _: cls)}
    return _Nothing(name.rpartition(".")[2], (), body)


class Helpers(importlib.abc.MetaPathFinder):
    """Finds PyTorch's test helpers in an installed PyTorch."""

    def __init__(self, site: Path):
        self.site = site

    def find_spec(self, name, path, target=None):
        if not name.startswith(f"{HELPERS}."):
            return None
        base = self.site / name.replace(".", "/")
        if base.with_suffix(".py").exists():
            return importlib.util.spec_from_file_location(name, base.with_suffix(".py"))
        if (base / "__init__.py").exists():
            return importlib.util.spec_from_file_location(name, base / "__init__.py", submodule_search_locations=[str(base)])
        return None


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes an empty module of each that PyTorch has and ftorch lacks, unless ftorch itself asks."""

    def __init__(self, site: Path, package: str):
        self.site, self.package = site, package

    def find_spec(self, name, path, target=None):
        base = self.site / name.replace(".", "/")
        known = base.is_dir() or any(base.with_suffix(suffix).exists() for suffix in (".py", ".pyi"))
        if not name.startswith("torch.") or not known:
            return None
        frame = sys._getframe(1)
        while frame and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename == __file__):
            frame = frame.f_back
        if frame and frame.f_code.co_filename.startswith(self.package):
            return None
        missing.add(f"{name} (module)")
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pass


def _attribute(dotted: str) -> None:
    path, _, name = dotted.rpartition(".")
    owner = importlib.import_module("torch")
    for part in path.split(".")[1:]:
        try:
            owner = getattr(owner, part)
        except AttributeError:
            owner = importlib.import_module(f"{owner.__name__}.{part}")
    try:
        getattr(owner, name)
    except AttributeError:
        object.__setattr__(owner, name, stand_in(dotted))


def _executor() -> None:
    """Gives ``torch._C`` the switches and passes of `EXECUTOR` that it lacks."""
    core = importlib.import_module("torch._C")
    plain = core.__getattr__

    def __getattr__(name):
        try:
            return plain(name)
        except AttributeError:
            if not name.startswith(EXECUTOR):
                raise
        missing.add(f"torch._C.{name}")
        return lambda *args: args[0] if args and hasattr(args[0], "nodes") else False

    core.__getattr__ = __getattr__


def adapt() -> None:
    """Adds, for either library, the decorators that a device's adaptation of the files has of its own."""
    common = importlib.import_module(f"{HELPERS}.common_utils")
    distributed = importlib.import_module(f"{HELPERS}.common_distributed")
    for owner, name in ((common, "SupportedDevices"), (distributed, "skipIfUnsupportMultiNPU")):
        setattr(owner, name, lambda _: lambda test: test)
    distributed.with_comms = importlib.import_module(f"{HELPERS}.distributed._tensor.common_dtensor").with_comms
    distributed.skip_if_lt_x_gpu = lambda count, **_: lambda test: test  # their processes are the CPU's
    fork = multiprocessing.get_context("fork").Process  # a spawned one imports all once more: 25 s a test instead of 1
    distributed.MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(fork)
    common.GRAPH_EXECUTOR = common.ProfilingMode.SIMPLE  # what the files set where they are programs
    common.TestCase.assertRtolEqual = lambda self, a, b, *_, **__: self.assertEqual(a, b, atol=1e-3, rtol=1e-3)
    for dotted, value in GONE.items():
        path, _, name = dotted.rpartition(".")
        owner = importlib.import_module(path)
        if not hasattr(owner, name):
            setattr(owner, name, value)


def install(reference: str, listing: str) -> None:
    """Puts ftorch in PyTorch's place in this process.

    Args:
        reference: the ``site-packages`` that an installed PyTorch lies in.
        listing: the file to which the missing names are added at the end.
    """
    import ftorch

    ftorch.install_as_torch()
    site, package = Path(reference), os.path.dirname(ftorch.__file__)
    for name in [n for n in sys.modules if n.startswith((HELPERS, f"f{HELPERS}"))]:
        del sys.modules[name]
    sys.meta_path.insert(0, Helpers(site))
    sys.meta_path.append(Absent(site, package))
    plain = builtins.__import__

    def importing(name, scope=None, local=None, fromlist=(), level=0):
        own = scope is not None and str(scope.get("__file__", "")).startswith(package)
        if own or level or name.partition(".")[0] not in ("torch", "functorch"):
            return plain(name, scope, local, fromlist, level)
        parts = name.split(".")
        for i in range(2, len(parts)):  # a module of ftorch may be a package of PyTorch's
            parent = plain(".".join(parts[:i]), None, None, ("__name__",), 0)
            if not hasattr(parent, "__path__"):
                parent.__path__ = []
        found = plain(name, scope, local, fromlist, level)
        for wanted in fromlist or ():
            if wanted != "*" and isinstance(found, types.ModuleType) and not hasattr(found, wanted):
                try:
                    importlib.import_module(f"{name}.{wanted}")
                except ImportError:
                    setattr(found, wanted, stand_in(f"{name}.{wanted}"))
        return found

    builtins.__import__ = importing
    setattr(importlib.import_module("torch").ops, "load_library", lambda path: None)  # C++ that tests of it bring along
    for dotted in ATTRIBUTES:
        _attribute(dotted)
    _executor()

    def write():
        with open(listing, "a") as file:
            file.writelines(f"{name}\n" for name in sorted(missing))

    atexit.register(write)
