"""What one company's builds of PyTorch replace (``torch._utils_internal``): events go nowhere, switches have defaults."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import wraps

from .eager.core import places

torch_parent = os.path.dirname(places.PACKAGE.rstrip(os.sep))

TEST_MASTER_ADDR, TEST_MASTER_PORT = "127.0.0.1", 29500
USE_GLOBAL_DEPS, USE_RTLD_GLOBAL_WITH_LIBTORCH, REQUIRES_SET_PYTHON_MODULE = True, False, False
DISABLE_JUSTKNOBS = True


def get_file_path(*path_components: str) -> str:
    """A path below the folder that the package lies in."""
    return os.path.join(torch_parent, *path_components)


def get_file_path_2(*path_components: str) -> str:
    """The parts of a path, joined.

    >>> from ftorch._utils_internal import get_file_path_2
    >>> get_file_path_2("/data", "file")
    '/data/file'
    """
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """The path, or that of a new folder where it cannot be written to."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def prepare_multiprocessing_environment(path: str) -> None:
    """Does nothing: processes need no preparation."""


def resolve_library_path(path: str) -> str:
    """The path without symbolic links."""
    return os.path.realpath(path)


def throw_abstract_impl_not_imported_error(opname, module, context):
    """Raises NotImplementedError: an operator has no implementation for fake tensors, which a module would bring."""
    text = f"{opname}: We could not find the fake impl for this operator. "
    if module not in sys.modules:
        text += (
            f"The operator specified that you may need to import the '{module}' Python module to load the fake impl. {context}"
        )
    raise NotImplementedError(text)


def compile_time_strobelight_meta(phase_name: str) -> Callable[[Callable], Callable]:
    """A decorator for a phase of compilation: the function as it is, as no such profiler is there."""
    return lambda function: function


def _event(name: str, doc: str):
    def told(*args, **kwargs) -> None:
        pass

    told.__name__ = told.__qualname__ = name
    told.__doc__ = f"{doc}: it goes nowhere."
    return told


signpost_event = _event("signpost_event", "An event of a category, with parameters")
add_mlhub_insight = _event("add_mlhub_insight", "A hint about a job")
log_compilation_event = _event("log_compilation_event", "What a compilation took")
upload_graph = _event("upload_graph", "A graph")
set_pytorch_distributed_envs_from_justknobs = _event("set_pytorch_distributed_envs_from_justknobs", "Settings by switches")
log_export_usage = _event("log_export_usage", "A call of export")
log_draft_export_usage = _event("log_draft_export_usage", "A call of draft_export")
log_trace_structured_event = _event("log_trace_structured_event", "A structured event")
log_cache_bypass = _event("log_cache_bypass", "A call past the cache")
log_torchscript_usage = _event("log_torchscript_usage", "A call of TorchScript")
log_torch_jit_trace_exportability = _event("log_torch_jit_trace_exportability", "Whether a trace could be exported")
log_chromium_event_internal = _event("log_chromium_event_internal", "An event for a trace viewer")
record_chromium_event_internal = _event("record_chromium_event_internal", "An event for a trace viewer")
profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 = _event(
    "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12", "A workaround for a profiler"
)
log_triton_builds = _event("log_triton_builds", "A build of a compiler")
get_mast_job_name_version = _event("get_mast_job_name_version", "Asks for the job")
maybe_upload_prof_stats_to_manifold = _event("maybe_upload_prof_stats_to_manifold", "A profile")
get_default_numa_options = _event("get_default_numa_options", "Asks for a binding of processes")
find_compile_subproc_binary = _event("find_compile_subproc_binary", "Asks for a compiler's program")


def check_if_torch_exportable() -> bool:
    """False: no traced call is tried with export beside."""
    return False


def export_training_ir_rollout_check() -> bool:
    """True: exported programs are of the current kind."""
    return True


def full_aoti_runtime_assert() -> bool:
    """True: packaged programs check what was assumed."""
    return True


def justknobs_check(name: str, default: bool = True) -> bool:
    """A switch's default.

    >>> from ftorch._utils_internal import justknobs_check
    >>> justknobs_check("pytorch/any:switch"), justknobs_check("pytorch/any:switch", default=False)
    (True, False)
    """
    return default


def justknobs_getval_int(name: str) -> int:
    """The value of a numeric switch: 0."""
    return 0


def is_fb_unit_test() -> bool:
    """False: the tests run elsewhere."""
    return False


def get_torch_source_version() -> str:
    """The revision that the version was made from."""
    from .version import git_version

    return git_version


def deprecated() -> Callable[[Callable], Callable]:
    """A decorator for a function whose name got an underscore: its former name stays, and warns.

    Raises:
        ValueError: the name has no leading underscore. RuntimeError: the module has the former name.
    """
    def decorate(func):
        if not func.__name__.startswith("_"):
            raise ValueError(
                "@deprecate must decorate a function whose name starts with a single leading underscore (e.g. '_foo') as the "
                "api should be considered internal for deprecation."
            )
        public, module = func.__name__[1:], sys.modules[func.__module__]
        if hasattr(module, public):
            raise RuntimeError(f"Cannot create alias '{public}' -> symbol already exists in {module.__name__}. \
                 Please rename it or consult a pytorch developer on what to do")

        @wraps(func)
        def alias(*args, **kwargs):
            warnings.warn(f"{public} is DEPRECATED, please consider using an alternative API(s). ", stacklevel=2)
            return func(*args, **kwargs)

        alias.__name__ = public
        alias.__qualname__ = f"{func.__qualname__.rpartition('.')[0]}.{public}".lstrip(".")
        setattr(module, public, alias)
        return func

    return decorate
