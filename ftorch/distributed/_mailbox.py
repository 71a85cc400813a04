"""Messages from rank to rank: kept until somebody wants them, by sender and tag."""

from __future__ import annotations

import struct
import threading
from collections import deque

from . import _wire
from ._transport import Mesh

_HEADER = struct.Struct("<qQ")
CHANNEL = "messages"


class Mailbox:
    """The messages of one rank of a group. A thread for each sender reads what comes, so a sender never
    waits for the receive that belongs to its message."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self.messages: dict[tuple[int, int], deque] = {}
        self.gone: dict[int, str] = {}
        self.changed = threading.Condition()
        self.readers: dict[int, threading.Thread] = {}
        self.locks: dict[int, threading.Lock] = {}
        self.out_lock = threading.Lock()
        if mesh.listener is not None:
            threading.Thread(target=self._accept, name="messages", daemon=True).start()

    def _accept(self):
        listener = self.mesh.listener
        while not self.mesh.closed and len(self.readers) < self.mesh.size - 1:
            with listener.changed:
                keys = [k for k in listener.arrived if k[0] == self.mesh.key and k[2] == CHANNEL]
                if not keys:
                    listener.changed.wait(5.0)
                    continue
                found = [(k[1], listener.arrived.pop(k)) for k in keys]
            for peer, connection in found:
                connection.setblocking(True)
                self.mesh.incoming[peer, CHANNEL] = connection
                reader = threading.Thread(target=self._read, args=(peer, connection), daemon=True)
                self.readers[peer] = reader
                reader.start()

    def _read(self, peer, connection):
        try:
            while True:
                tag, length = _HEADER.unpack(_wire.receive_exactly(connection, _HEADER.size))
                data = _wire.receive_exactly(connection, length)
                with self.changed:
                    self.messages.setdefault((peer, tag), deque()).append(data)
                    self.changed.notify_all()
        except (OSError, EOFError) as error:
            with self.changed:
                self.gone[peer] = str(error)
                self.changed.notify_all()

    def send(self, peer: int, tag: int, data, timeout: float) -> None:
        """Sends bytes to a rank."""
        with self.out_lock:
            lock = self.locks.setdefault(peer, threading.Lock())
        with lock:
            connection = self.mesh.sender(peer, timeout, CHANNEL)
            connection.settimeout(timeout)
            try:
                connection.sendall(_HEADER.pack(tag, len(data)))
                if len(data):
                    connection.sendall(data)
            except TimeoutError:
                raise self.mesh.late(timeout, [peer], "send") from None
            except OSError as error:
                raise self.mesh.gone(peer, error) from None

    def _found(self, source, tag):
        if source is not None:
            return (source, tag) if self.messages.get((source, tag)) else None
        return next((k for k, v in self.messages.items() if k[1] == tag and v), None)

    def receive(self, source: int | None, tag: int, timeout: float):
        """(rank, bytes) of the next message with a tag from a rank, or from any.

        Raises:
            RuntimeError: if none comes in time, or the rank has ended.
        """

        def ready():
            left = self.gone if source is None else {source} & set(self.gone)
            ended = len(left) == (self.mesh.size - 1 if source is None else 1)
            return self._found(source, tag) is not None or ended or self.mesh.closed

        with self.changed:
            self.changed.wait_for(ready, timeout)
            key = self._found(source, tag)
            if key is not None:
                return key[0], self.messages[key].popleft()
        peers = [source] if source is not None else [
            r for r in range(self.mesh.size) if r != self.mesh.rank
        ]
        if self.mesh.closed or (source in self.gone or source is None and self.gone):
            raise self.mesh.gone(peers[0])
        raise self.mesh.late(timeout, peers)

    def wake(self) -> None:
        """Lets who waits see that the group has ended."""
        with self.changed:
            self.changed.notify_all()
