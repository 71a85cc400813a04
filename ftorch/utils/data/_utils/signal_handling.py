"""Watches worker processes that a loader of the user's own starts: dead ones raise in the parent."""

from __future__ import annotations

import os
import signal
import threading

from . import IS_WINDOWS

__all__: list[str] = []

_workers: dict[int, set[int]] = {}  # by the id of the loader's iterator
_SIGCHLD_handler_set = False


def _set_worker_pids(key: int, pids) -> None:
    """Notes the processes of a loader.

    Raises:
        ValueError: those of the loader are noted already.
    """
    if key in _workers:
        raise ValueError("_set_worker_pids should be called only once for each _BaseDataLoaderIter.")
    _workers[key] = set(pids)


def _remove_worker_pids(key: int) -> None:
    """Forgets the processes of a loader.

    Raises:
        ValueError: none are noted.
    """
    if key not in _workers:
        raise ValueError(f"Cannot find worker information for _BaseDataLoaderIter with id {key}")
    del _workers[key]


def _error_if_any_worker_fails() -> None:
    """Raises RuntimeError if one of the processes noted has failed; their loader's are then forgotten."""
    for pids in _workers.values():
        for pid in pids:
            try:
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                continue
            if ended is None:
                continue
            if ended.si_code == os.CLD_EXITED and ended.si_status:
                why = (
                    f"exited unexpectedly with exit code {ended.si_status}. Details are lost due to multiprocessing. "
                    "Rerunning with num_workers=0 may give better error trace."
                )
            elif ended.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
                why = f"is killed by signal: {signal.strsignal(ended.si_status)}. "
            else:
                continue
            pids.clear()
            raise RuntimeError(f"DataLoader worker (pid {pid}) {why}")


def _set_worker_signal_handlers() -> None:
    """Lets a worker end at once at a SIGTERM of its own parent; what else kills it is reported by the system."""
    parent = os.getppid()

    def end(number, frame):
        if os.getppid() == parent:
            os._exit(0)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


def _set_SIGCHLD_handler() -> None:  # noqa: N802
    """Lets this process look after the workers noted when a child ends, then do what it did before."""
    global _SIGCHLD_handler_set
    if IS_WINDOWS or _SIGCHLD_handler_set or threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGCHLD)

    def handle(number, frame):
        _error_if_any_worker_fails()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handle)
    _SIGCHLD_handler_set = True
