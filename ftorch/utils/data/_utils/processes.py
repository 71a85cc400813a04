"""Worker processes, seen from the main process."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
import weakref

from . import MP_STATUS_CHECK_INTERVAL, engine, transport, worker
from .server import LENGTH, PID, STATUS

# A pickled reference to something in the package that needs the tensor engine.
_ENGINE_REFERENCE = re.compile(rb"\x8c.ftorch(?!\.utils\.data|\._utils|\._arrays)", re.DOTALL)


class _ServerProcess:
    """The main process's connection to its `server.py`, which is started when first needed."""

    def __init__(self):
        self.lock = threading.Lock()
        self.owner = None  # the process that started it: a forked child needs its own
        self.modules: dict[str, None] = {}  # what workers have imported so far (see `imports`)
        self.told = 0  # how many of them the server knows of
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self):
        self.lock = threading.Lock()  # another thread of the parent's may hold the other
        for sock in list(
            _sockets
        ):  # its workers end when it closes them, and not when its other children end
            sock.close()

    def start_worker(self):
        """Asks for a worker; returns the socket to it and its status pipe."""
        sock, worker_end = socket.socketpair()
        status_pipe, status_end = os.pipe()
        attached = struct.pack("2i", worker_end.fileno(), status_end)
        with self.lock, worker_end:
            try:
                self._request(attached)
            except (BrokenPipeError, ConnectionResetError):  # somebody killed it
                self.owner = None
                self._request(attached)
            finally:
                os.close(status_end)
        return sock, status_pipe

    def _request(self, attached):
        if self.owner != os.getpid():
            self._start()
        self._tell([(socket.SOL_SOCKET, socket.SCM_RIGHTS, attached)])

    def _tell(self, attached=()):
        names = "\n".join(itertools.islice(self.modules, self.told, None)).encode()
        self.control.sendmsg([LENGTH.pack(len(names))], attached)
        self.control.sendall(names)
        self.told = len(self.modules)

    def needs(self, modules):
        """Has modules ready in the workers that are started from now on."""
        with self.lock:
            self.modules.update(dict.fromkeys(modules))
            if self.owner == os.getpid() and self.told < len(self.modules):
                # At once: it imports them while those who asked are at work.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self._tell()

    def _start(self):
        self.control, server_end = socket.socketpair()
        _sockets.add(self.control)
        script = pathlib.Path(__file__).with_name("server.py")
        flags = worker.ENVIRONMENT | {
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {worker.ENVIRONMENT['XLA_FLAGS']}"
        }
        root = __name__.partition(".")[0]  # "torch" under the alias
        package = sys.modules[root].__spec__.origin
        with server_end:
            # -P: the script's own folder is no place to import modules from.
            self.process = subprocess.Popen(
                [
                    sys.executable, "-P", str(script), str(server_end.fileno()), json.dumps(sys.path), root, package,
                ],
                pass_fds=[server_end.fileno()], stdin=subprocess.DEVNULL, env=os.environ | flags,
            )
        self.owner, self.told = os.getpid(), 0


_sockets: weakref.WeakSet[socket.socket] = (
    weakref.WeakSet()
)  # this process's ends of those to workers and their server
_server = _ServerProcess()


class WorkerProcess:
    """A worker, with the part of `multiprocessing.Process` that applies."""

    def __init__(self, worker_id: int):
        self.name = f"DataLoaderWorker-{worker_id}"
        self.daemon = True
        self.exitcode: int | None = None
        self.sock, self.sentinel = _server.start_worker()
        _sockets.add(self.sock)
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        if self._pid is None:
            answer = os.read(self.sentinel, PID.size)
            if not answer:
                raise RuntimeError("DataLoader worker could not be started: its server has ended")
            (self._pid,) = PID.unpack(answer)
        return self._pid

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end of the process."""
        _ = self.pid  # comes first in the pipe
        if self.exitcode is None and select.select([self.sentinel], [], [], timeout)[0]:
            status = os.read(self.sentinel, STATUS.size)
            self.exitcode = STATUS.unpack(status)[0] if status else -signal.SIGKILL

    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        self.join(0)
        return self.exitcode is None

    def terminate(self) -> None:
        """Ends the process."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, signal.SIGTERM)

    def close(self) -> None:
        """Lets go of the process's descriptors."""
        self.sock.close()
        if self.sentinel >= 0:
            os.close(self.sentinel)
            self.sentinel = -1

    def why_dead(self) -> str:
        """PyTorch's words for an unexpected end."""
        self.join()
        code = self.exitcode
        if code is not None and code < 0:
            text = f"DataLoader worker (pid {self.pid}) is killed by signal: "
            text += f"{signal.strsignal(-code)}. "
            if -code == signal.SIGBUS:
                text += (
                    "It is possible that dataloader's workers are out of shared memory. "
                    "Please try to raise your shared memory limit."
                )
            return text
        return (
            f"DataLoader worker (pid {self.pid}) exited unexpectedly with exit code {code}. "
            "Details are lost due to multiprocessing. Rerunning with num_workers=0 may give "
            "better error trace."
        )


class ForkedWorkerProcess(WorkerProcess):
    """A worker forked from this process, with all that is in it: what only a child can share (a lock, a `Value`, a queue),
    what cannot be pickled (a generator, a handle of a database), what modules were set to.
    """

    def __init__(self, worker_id: int, job: worker.Job):
        self.sock, worker_end = socket.socketpair()
        _sockets.add(self.sock)
        self._process = multiprocessing.get_context("fork").Process(
            target=worker.serve,
            args=(worker_end, worker_id, job),
            name=f"DataLoaderWorker-{worker_id}",
            daemon=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: the child computes without them
            self._process.start()
        worker_end.close()
        self.name, self.daemon, self.exitcode, self.sentinel = self._process.name, True, None, -1
        self._pid = self._process.pid

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end of the process."""
        self._process.join(timeout)
        self.exitcode = self._process.exitcode


def _start_method(context) -> str:
    """That of a context of `multiprocessing`, by default the process's, which stays open to be set."""
    found = None if context is None else context.get_start_method()
    return found or multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


class WorkerPool:
    """The workers of one iterator, and the messages to and from them.

    Args:
        ahead: how many results of a worker may wait to be received.
        context: that of `multiprocessing` whose start method is taken, or None for the process's own. By "fork" workers are
            forked from this process, by others from a server (see `server.py`), to which the job is sent.
    """

    def __init__(self, job: worker.Job, ahead: int, context):
        self.selector = selectors.DefaultSelector()
        self.arrived: collections.deque = collections.deque()
        self.active = set(range(job.num_workers))  # those that are still listened to
        self.workers: list[WorkerProcess] = []
        self.owner = os.getpid()
        if _start_method(context) == "fork":
            engine.settle()
            for i in range(job.num_workers):
                self.workers.append(ForkedWorkerProcess(i, job))
            self._listen(ahead)
            return
        with transport.Message(job) as message:
            if _ENGINE_REFERENCE.search(message.pickle.getbuffer()):
                _server.needs(["ftorch.eager"])
            self.workers = [WorkerProcess(i) for i in range(job.num_workers)]
            self._listen(ahead)
            for i in range(job.num_workers):
                with transport.Message(worker.Surroundings.of_this_process(i)) as surroundings:
                    self._send(i, surroundings)
                self._send(i, message)

    def _listen(self, ahead):
        # Beside those that wait: one in use, and the one before it, which a loop still holds.
        self.mappings = [transport.Mappings(ahead + 2) for _ in self.workers]
        for i, process in enumerate(self.workers):
            self.selector.register(process.sock, selectors.EVENT_READ, i)

    def send(self, worker_id: int, obj) -> None:
        """Sends an object to a worker.

        Raises:
            RuntimeError: if the worker is dead.
        """
        with transport.Message((obj, self.mappings[worker_id].given_back())) as message:
            self._send(worker_id, message)

    def _send(self, worker_id, message):
        process, sent = self.workers[worker_id], 0
        while sent < len(message.data):
            try:
                sent = message.send_some(process.sock, sent, socket.MSG_DONTWAIT)
            except BlockingIOError:
                # The worker may itself be waiting for its results to be taken.
                self._wait(None, also_to_send=worker_id)
            except ConnectionError:
                self._give_up(worker_id)

    def receive(self, timeout: float | None = None):
        """The next ``(worker_id, key, result)`` of any worker, or None if time is up.

        Raises:
            RuntimeError: if a worker is dead.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.arrived:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._wait(left)
        return self.arrived.popleft()

    def _wait(self, timeout, also_to_send=None):
        if also_to_send is not None:
            process = self.workers[also_to_send]
            events = selectors.EVENT_READ | selectors.EVENT_WRITE
            self.selector.modify(process.sock, events, also_to_send)
        ready = self.selector.select(_POLL if timeout is None else min(timeout, _POLL))
        if also_to_send is not None:
            self.selector.modify(process.sock, selectors.EVENT_READ, also_to_send)
        for key, events in ready:
            if events & selectors.EVENT_READ:
                try:
                    mappings = self.mappings[key.data]
                    *message, imported = transport.receive(key.fileobj, mappings=mappings)
                except (EOFError, ConnectionError):
                    self._give_up(key.data)
                if imported:
                    _server.needs(imported)
                self.arrived.append(message)
        if not ready:
            # A dead worker's socket stays open if a process that it started has inherited it.
            for i in self.active:
                if not self.workers[i].is_alive():
                    self._give_up(i)

    def _give_up(self, worker_id):
        self.retire(worker_id)
        raise WorkerDied(worker_id, self.workers[worker_id].why_dead())

    def retire(self, worker_id: int) -> None:
        """Lets a worker end; nothing more is sent to it or expected of it."""
        if worker_id in self.active:
            self.active.remove(worker_id)
            self.selector.unregister(self.workers[worker_id].sock)
            self.workers[worker_id].sock.close()

    def shut_down(self) -> None:
        """Ends all workers: at once if they are idle, after a grace period if they are not."""
        if (
            self.owner != os.getpid()
        ):  # a child inherits the iterators of this process, whose workers are not its own
            return
        for i in range(len(self.workers)):
            self.retire(i)
        self.selector.close()
        self.mappings.clear()
        deadline = time.monotonic() + MP_STATUS_CHECK_INTERVAL
        for process in self.workers:
            with contextlib.suppress(RuntimeError):  # one that was never started has nothing to end
                process.join(max(0, deadline - time.monotonic()))
                process.terminate()
        for process in self.workers:
            process.close()


_POLL = MP_STATUS_CHECK_INTERVAL  # seconds between looks at whether workers are alive


class WorkerDied(RuntimeError):
    """A worker process has ended unexpectedly."""

    def __init__(self, worker_id: int, message: str):
        super().__init__(message)
        self.worker_id = worker_id
