"""Fork safety of locks: a child has one thread, and what the others held at that moment nobody in it gives back.

Locks of the package are made by `lock` and `rlock`: they are free in a child. Before a fork, `waits` are asked to let
what other threads are at come to an end, for a short time: so the child finds values, not work that stayed behind.
"""

from __future__ import annotations

import _imp
import functools
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

PATIENCE = 2.0  # s that a fork waits for other threads
PATIENCE_WITH_IMPORTS = 20.0  # s: those come to an end, and no child can repeat half of one of a module in C


class _Held(threading.local):
    """What the thread that forks holds over the fork: locks, and Python's of imports."""

    def __init__(self):
        self.locks: list[Any] = []
        self.imports = False
        self.beside = True  # whether there were other threads of Python's at the fork


_held = _Held()
_endless: set[tuple] = set()  # imports that were waited for already: (thread, module)
_locks: weakref.WeakSet[Any] = weakref.WeakSet()
waits: list[Callable[[float], list[Any]]] = []
"""Functions of a deadline (of `time.monotonic`), called before a fork; each gives the locks that it holds over it."""
after: list[Callable[[], None]] = []
"""Functions called in the child, in order, once its locks are free."""


def lock() -> Any:
    """A `threading.Lock` that is free in a forked child."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock() -> Any:
    """A `threading.RLock` that is free in a forked child."""
    made = threading.RLock()
    _locks.add(made)
    return made


def watch(lock) -> None:
    """Makes a lock that others made (of the `threading` module's) free in a forked child."""
    _locks.add(lock)


def acquire(locks, deadline: float) -> list[Any]:
    """Those of some locks that are free before a deadline, acquired."""
    return [each for each in locks if each.acquire(timeout=max(deadline - time.monotonic(), 0))]


def _before():
    deadline = time.monotonic() + PATIENCE
    last = time.monotonic() + (PATIENCE if _imports_itself() else PATIENCE_WITH_IMPORTS)
    while True:
        while (found := _importing()) and time.monotonic() < last:
            time.sleep(1e-3)
        _endless.update(found.items())
        for each in list(_locks):
            _held.locks.extend(acquire([each], min(deadline, time.monotonic() + PATIENCE / 4)))
        for wait in waits:
            _held.locks.extend(wait(deadline))
        _imp.acquire_lock()  # from here on no thread begins to import
        _held.imports = True
        if not _importing() or time.monotonic() >= last:
            _held.beside = len(sys._current_frames()) > 1
            return
        _release()


def beside_others() -> bool:
    """In a forked child: whether another thread of Python's was in the midst of something."""
    return _held.beside


def _release():
    while _held.locks:
        _held.locks.pop().release()
    if _held.imports:
        _held.imports = False
        _imp.release_lock()


def _imports() -> dict[str, int]:
    """{module that is being imported: the thread that does}, where a version of Python does not keep that otherwise.
    Python frees the lock of imports in a child, but not those of modules."""
    found = {}
    try:
        for name, reference in list(importlib._bootstrap._module_locks.items()):  # type: ignore[attr-defined]
            held = reference()
            if held is not None and held.owner is not None:
                found[name] = held.owner
    except (AttributeError, RuntimeError):
        pass
    return found


def _imports_itself() -> bool:
    """Whether the thread that forks is importing: others may wait for what it imports."""
    return threading.get_ident() in _imports().values()


def _importing() -> dict[str, int]:
    """What other threads are importing, without what has been waited for in vain."""
    own = threading.get_ident()
    return {name: owner for name, owner in _imports().items() if owner != own and (name, owner) not in _endless}


def _forget_imports():
    """What a thread that stayed with the parent was importing is imported anew."""
    own = threading.get_ident()
    for name in [name for name, owner in _imports().items() if owner != own]:
        importlib._bootstrap._module_locks.pop(name, None)  # type: ignore[attr-defined]
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]


def _in_parent():
    _release()


def _in_child():
    _release()
    for each in list(_locks):
        if not getattr(each, "_is_owned", bool)():  # else this thread is still in it
            each._at_fork_reinit()  # as the standard library does with its own
    _forget_imports()
    if sys.version_info < (3, 12) and beside_others():
        _free_cached_properties()
    for call in after:
        call()


def _free_cached_properties():
    """Each `functools.cached_property` had a lock before Python 3.12; JAX has some. They are looked for in classes: a look at
    all objects would copy each page of memory that has some."""
    seen, classes = {object}, [object]
    while classes:
        for each in type.__subclasses__(classes.pop()):
            if each not in seen:
                seen.add(each)
                classes.append(each)
                for found in list(vars(each).values()):
                    held = (
                        getattr(found, "lock", None)
                        if type(found) is functools.cached_property
                        else None
                    )
                    if held is not None and not held._is_owned():
                        held._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
