"""The process that `DataLoader` workers are forked from where the main process is not to be ("spawn", "forkserver"), run as
a script.

It is started from scratch, stays single-threaded, and forks a worker in milliseconds whenever the main process
asks: with the worker's two descriptors. It also hears which modules workers have imported (see `imports.py`).

``ftorch`` is a placeholder here and in the workers. Importing the tensor engine takes seconds, and
a dataset that yields NumPy arrays never needs it; anything beyond ``ftorch.utils.data`` loads it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
import types
import warnings
from typing import ClassVar

PID, STATUS = struct.Struct("i"), struct.Struct("i")  # what goes over a worker's status pipe
LENGTH = struct.Struct("I")  # bytes of a request's module names

_PACKAGE = "ftorch"
_UTILS = "utils"
_LIGHT = (f"{_UTILS}.data", "_alias", "_arrays", "_utils", "_worker_errors")  # need no engine


class Placeholder(types.ModuleType):
    """Stands for the package until something in it is needed."""

    hooks: ClassVar[list] = []  # called when the package has been loaded

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.load()
        return getattr(self, name)

    def load(self):
        """Runs the package's own ``__init__``, in this module object."""
        self.__class__ = types.ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
        for hook in Placeholder.hooks:
            hook()

    @classmethod
    def install(cls, init: str):
        """Makes it what ``import ftorch`` finds, whose ``__init__`` is a file of the main process's."""
        spec = importlib.util.spec_from_file_location(_PACKAGE, init)
        package = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        package.__class__ = cls
        sys.modules[_PACKAGE] = package
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Loads the package when one of its submodules is imported that is not light."""

    def find_spec(self, fullname, path, target=None):
        root, _, name = fullname.partition(".")  # `torch` is the package, too, under the alias
        package = sys.modules.get(root)
        if not name or not isinstance(package, Placeholder):
            return None
        if name == _UTILS or name.startswith(_LIGHT):
            return None
        package.load()
        loaded = sys.modules.get(fullname)
        return loaded and importlib.util.spec_from_loader(fullname, _AlreadyLoaded(loaded))


class _AlreadyLoaded(importlib.abc.Loader):
    """Hands out a module that was imported while its spec was being looked for."""

    def __init__(self, module):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec


class Server:
    """Forks workers on request and reports their ends."""

    def __init__(self, control: socket.socket, prepare, serve):
        self.control = control
        self.prepare, self.serve = prepare, serve
        self.status_pipes: dict[int, int] = {}  # of living workers, by process id
        self.wake_up, wake_up_end = socket.socketpair()
        self.wake_up_end = wake_up_end
        for end in (self.wake_up, wake_up_end):
            end.setblocking(False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process gets it and ends this one
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_up_end.fileno(), warn_on_full_buffer=False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(control, selectors.EVENT_READ, self.answer)
        self.selector.register(self.wake_up, selectors.EVENT_READ, self.reap)

    def run(self):
        """Serves until the main process is gone."""
        while True:
            for key, _ in self.selector.select():
                key.data()

    def answer(self):
        """Answers one request: imports what it names, forks a worker on descriptors that came with it."""
        header, attached, _, _ = self.control.recvmsg(LENGTH.size, socket.CMSG_SPACE(2 * PID.size))
        if not header:
            os._exit(0)
        (length,) = LENGTH.unpack(header)
        if length:
            self.prepare(self.control.recv(length, socket.MSG_WAITALL).decode().split("\n"))
        if not attached:
            return
        worker_end, status_pipe = struct.unpack("2i", attached[0][2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of its threads: it has not started any
            pid = os.fork()
        if pid == 0:
            os.close(status_pipe)
            self.become_worker(socket.socket(fileno=worker_end))
        os.close(worker_end)
        os.write(status_pipe, PID.pack(pid))
        self.status_pipes[pid] = status_pipe

    def become_worker(self, worker_end):
        """Runs a worker in the forked child, and never returns."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.selector.close()
            for end in (self.control, self.wake_up, self.wake_up_end):
                end.close()
            for pipe in self.status_pipes.values():
                os.close(pipe)
            self.serve(worker_end)
            status = 0
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else int(e.code is not None)
        except BaseException:  # noqa: BLE001  (whatever it is, it ends here)
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(status)

    def reap(self):
        """Reports the workers that have ended."""
        self.wake_up.recv(4096)
        while self.status_pipes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            pipe = self.status_pipes.pop(pid)
            try:
                os.write(pipe, STATUS.pack(os.waitstatus_to_exitcode(status)))
            except BrokenPipeError:
                pass  # nobody waits for it any more
            os.close(pipe)


def main():
    """Runs the server on the socket, with the module search path and for the package given as arguments."""
    control = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:] = json.loads(sys.argv[2])
    Placeholder.install(sys.argv[4])
    if sys.argv[3] == "torch":  # as in the main process
        from ftorch._alias import install_as_torch

        install_as_torch()
    from ftorch.utils.data._utils import imports, worker

    imports.prepare([])
    Server(control, imports.prepare, worker.serve).run()


if __name__ == "__main__":
    main()
