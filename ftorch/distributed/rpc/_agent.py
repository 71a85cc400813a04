"""The agent of a process: connections to the others, calls that wait for answers, and what answers calls.

A process listens at one port. Each pair of processes has a connection for each direction; whoever opens it sends
calls on it and receives their answers. Each call runs in a thread of its own.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from datetime import timedelta

from ...futures import Future
from .. import _wire
from .._transport import own_address
from . import internal

_NAME = re.compile(r"^[A-Za-z0-9\-_:.]{1,127}$")


class WorkerInfo:
    """A process by name and number (``torch.distributed.rpc.WorkerInfo``)."""

    def __init__(self, name: str, id: int):
        if not _NAME.match(name):
            raise RuntimeError(f"Worker name must match ^[A-Za-z0-9-_:]*$. Invalid worker name {name}")
        self.name, self.id = name, id

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, name={self.name})"

    def __eq__(self, other):
        return isinstance(other, WorkerInfo) and (self.name, self.id) == (other.name, other.id)

    def __hash__(self):
        return hash((self.name, self.id))


class _Peer:
    """The connection on which this process calls another one."""

    def __init__(self, agent, info, host, port):
        self.agent, self.info = agent, info
        self.connection = _wire.connect(host, port, 60.0)
        self.lock = threading.Lock()
        self.waiting: dict[int, Future] = {}
        self.gone: str | None = None
        threading.Thread(target=self._receive, name="rpc answers", daemon=True).start()

    def call(self, number, message, future):
        """Sends a call whose answer the future gets."""
        with self.lock:
            if self.gone is not None:
                raise RuntimeError(f"{self.info} has ended: {self.gone}")
            self.waiting[number] = future
            _wire.send_frame(self.connection, message)

    def _receive(self):
        try:
            while True:
                number, failed, data, tensors = _wire.unpack(_wire.receive_frame(self.connection))
                with self.lock:
                    future = self.waiting.pop(number, None)
                if future is not None:
                    threading.Thread(
                        target=self.agent.settle, args=(future, failed, data, tensors), daemon=True
                    ).start()
        except (OSError, EOFError, ValueError) as error:
            with self.lock:
                self.gone = str(error) or type(error).__name__
                left, self.waiting = list(self.waiting.values()), {}
            for future in left:
                _fail(future, RuntimeError(f"{self.info} has ended: {self.gone}"))

    def close(self):
        """Ends the connection."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()


def _fail(future, error):
    if not future.done():
        future.set_exception(error)


class Agent:
    """The agent of this process.

    Args:
        store: where the processes find each other.
        timeout: seconds that a call may take by default.

    Raises:
        RuntimeError: for a name that another process has.
    """

    def __init__(self, name: str, rank: int, size: int, store, timeout: float, host: str):
        self.info, self.size, self.store, self.timeout = WorkerInfo(name, rank), size, store, timeout
        self.handlers: dict = {}
        self.peers: dict[int, _Peer] = {}
        self.lock, self.changed = threading.Lock(), threading.Condition()
        self.numbers, self.pending, self.running = 0, 0, 0
        self.attach = lambda tensors, to: None  # what dist_autograd adds to a message that leaves
        self.closed = False
        self.listener = _wire.listen(own_address(host))
        address = self.listener.getsockname()
        if store.add(f"name/{name}", 1) > 1:
            self.listener.close()
            store.set("failed", f"RPC worker name {name} is not unique.")
            raise RuntimeError(f"RPC worker name {name} is not unique.")
        store.set(f"worker/{rank}", _wire.pack([name, address[0], address[1], os.getpid()]))
        threading.Thread(target=self._accept, name="rpc", daemon=True).start()
        self.infos: dict[int, tuple] = {}
        for other in range(size):
            found = _wire.unpack(store.get(f"worker/{other}"))
            self.infos[other] = (WorkerInfo(found[0], other), found[1], found[2])
        self.by_name = {info.name: info for info, _, _ in self.infos.values()}

    def worker(self, to) -> WorkerInfo:
        """The process that a name, number or `WorkerInfo` means.

        Raises:
            RuntimeError: for an unknown one.
        """
        if to is None:
            return self.info
        if isinstance(to, WorkerInfo):
            return to
        if isinstance(to, str):
            if to not in self.by_name:
                raise RuntimeError(f"{self._own()} could not find destination name {to}")
            return self.by_name[to]
        if isinstance(to, int):
            if to not in self.infos:
                raise RuntimeError(f"{self._own()} could not find destination id {to}")
            return self.infos[to][0]
        raise ValueError(f"Cannot get WorkerInfo from name {to}")

    def _own(self):
        return f"name:{self.info.name},rank:{self.info.id}"

    def _peer(self, rank) -> _Peer:
        with self.lock:
            if rank not in self.peers:
                info, host, port = self.infos[rank]
                self.peers[rank] = _Peer(self, info, host, port)
            return self.peers[rank]

    # --- calls that leave ---

    def call(self, to: WorkerInfo, kind: str, value, timeout: float = -1.0, note=None) -> Future:
        """A call of a handler of another process (or of this one); a future of the answer.

        Args:
            note: what dist_autograd has to say of the message.
        """
        if self.closed:
            raise RuntimeError("the RPC agent has been shut down")
        future: Future = Future()
        data, tensors = internal.serialize(value)
        attached = self.attach(tensors, to) if note is None else note
        with self.lock:
            self.numbers += 1
            number = self.numbers
        message = _wire.pack([
            number, kind, self.info.id, data, [internal.tensor_bytes(t) for t in tensors], attached,
        ])
        with self.changed:
            self.pending += 1
        future.add_done_callback(lambda _: self._count(pending=-1))
        limit = self.timeout if timeout == -1.0 else timeout
        if limit > 0:
            timer = threading.Timer(limit, _late, (future, kind, to, limit))
            timer.daemon = True
            timer.start()
            future.add_done_callback(lambda _: timer.cancel())
        try:
            self._peer(to.id).call(number, message, future)
        except (OSError, RuntimeError) as error:
            _fail(future, RuntimeError(str(error)))
        return future

    def _count(self, pending=0, running=0):
        with self.changed:
            self.pending += pending
            self.running += running
            self.changed.notify_all()

    def settle(self, future, failed, data, tensors):
        """Gives a future its answer."""
        if future.done():
            return
        try:
            made = [internal.tensor_of(t) for t in tensors[0]]
            self.arrived(made, tensors)
            value = internal.deserialize(data, made)
            if failed:
                internal.raise_failure(value)
        except BaseException as error:
            _fail(future, error)
            return
        if not future.done():
            future.set_result(value)

    # --- calls that come ---

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        if not _wire.admit(connection):
            connection.close()
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lock = threading.Lock()
        try:
            while True:
                message = _wire.unpack(_wire.receive_frame(connection))
                self._count(running=1)
                threading.Thread(target=self._answer, args=(connection, lock, message), daemon=True).start()
        except (OSError, EOFError, ValueError):
            connection.close()

    def _answer(self, connection, lock, message):
        number, kind, source, data, tensors, note = message

        def reply(result, failed=False):
            try:
                try:
                    answer, made = internal.serialize(result)
                    attached = self.attach(made, self.infos[source][0])
                except Exception as error:
                    failed, attached = True, None
                    answer, made = internal.serialize(internal.failure(error, self.info))
                frame = _wire.pack([
                    number, failed, answer, [[internal.tensor_bytes(t) for t in made], attached, source],
                ])
                with lock:
                    _wire.send_frame(connection, frame)
            except (OSError, TypeError):
                pass  # who asked has gone
            finally:
                self._count(running=-1)

        try:
            made = [internal.tensor_of(t) for t in tensors]
            with self.within(made, [tensors, note, source]):
                value = internal.deserialize(data, made)
                result = self.handlers[kind](self.infos[source][0], value)
                if isinstance(result, Deferred):
                    result.then(reply, lambda e: reply(internal.failure(e, self.info), True))
                    return
                reply(result)
        except BaseException as error:
            reply(internal.failure(error, self.info), True)

    def arrived(self, made, described):
        """What dist_autograd does with tensors that came as an answer."""

    def within(self, made, described):
        """The context of dist_autograd in which a call runs."""
        raise NotImplementedError

    # --- the end ---

    def barrier(self, name: str, timeout: float) -> None:
        """Waits until all processes have come to it. Raises RuntimeError if they do not in time."""
        key = f"barrier/{name}"
        if self.store.add(key, 1) == self.size:
            self.store.set(f"{key}/done", b"1")
        self.store.wait([f"{key}/done"], timedelta(seconds=timeout))

    def finish(self, timeout: float) -> None:
        """Waits until this process neither waits for answers nor computes any."""
        limit = time.monotonic() + timeout
        with self.changed:
            while self.pending > 0 or self.running > 0:
                left = limit - time.monotonic()
                if left <= 0:
                    raise RuntimeError(f"{self.info} still has {self.pending} calls under way")
                self.changed.wait(left)

    def close(self) -> None:
        """Ends all connections."""
        self.closed = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for peer in self.peers.values():
            peer.close()


class Deferred:
    """An answer that comes later: a future of a function's result."""

    def __init__(self, future):
        self.future = future

    def then(self, reply, fail) -> None:
        """Answers when the result is there."""

        def done(future):
            try:
                value = future.value()
            except BaseException as error:
                fail(error)
                return
            reply(value)

        self.future.add_done_callback(done)


def _late(future, kind, to, limit):
    _fail(
        future,
        RuntimeError(
            f"RPCErr:1:RPC ran for more than set timeout ({int(limit * 1000)} ms) and will now be marked with an error"
        ),
    )
