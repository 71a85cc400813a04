"""What workers import: their server has it ready for those that are started next.

Only installed packages count, which a forked worker of PyTorch's also finds as its main process imported
them. The user's own modules are imported by each worker itself: they may have changed, or keep state.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import sysconfig
import threading
import warnings

# Nobody's state is kept in these, and importing them starts no thread.
_ENGINE = (__name__.partition(".")[0], "ftorch", "jax", "jaxlib", "numpy")
_PLACES = tuple(
    os.path.join(folder, "")
    for name, folder in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)

_known: set[str] = set()  # the modules that were there when `new` was last asked


def new() -> list[str]:
    """The names of modules of installed packages that were imported since the last call, in order."""
    if len(sys.modules) == len(_known):
        return []
    names = [name for name in sys.modules if name not in _known]
    _known.update(names)
    return [name for name in names if _of_engine(name) or _is_installed(name)]


def prepare(names) -> None:
    """Imports modules for the processes that are forked from this one."""
    engine = [name for name in names if _of_engine(name)]
    _load(engine)
    others = [name for name in names if not _of_engine(name)]
    if others and not _start_threads(others):
        _load(others)
    new()
    gc.freeze()  # a collection in a worker would have each page with an object copied


def _of_engine(name):
    return name.partition(".")[0] in _ENGINE


def _is_installed(name):
    package = sys.modules.get(name.partition(".")[0])
    return (getattr(package, "__file__", None) or "").startswith(_PLACES)


def _load(names):
    for name in names:
        with contextlib.suppress(Exception):  # a worker that needs it says so
            importlib.import_module(name)


def _start_threads(names):
    """Whether importing modules starts threads, which a forked process would miss: tried in one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of threads that it has not started
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _load(names)
            status = int(_threads() > 1)
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] != 0


def _threads():
    try:
        return len(os.listdir("/proc/self/task"))  # those of libraries, too
    except OSError:
        return threading.active_count()
