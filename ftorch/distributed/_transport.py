"""Connections between the processes of a group, and blocks of bytes that travel on them.

Each process listens at one port (the loopback interface unless the group's store is elsewhere). A group
connects two of its ranks when they first exchange something: one connection for each direction, whose
opener is the sender. Both ends prove that they know the launcher's token (`ftorch.distributed._wire`).

A block has a header of 16 bytes: the number of the collective, what is done (a checksum of its name,
dtype and shape) and the length. A rank that calls something else than its peers gets an error that says so.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import threading
import time
import zlib

from . import _wire

_HEADER = struct.Struct("<IIQ")
_BUFFER = 4 << 20  # of sockets, in bytes


class Listener:
    """The port of this process, and the connections that came in and that nobody has asked for yet."""

    _of_process: dict[tuple[int, str], Listener] = {}
    _lock = threading.Lock()

    @classmethod
    def at(cls, host: str) -> Listener:
        """The process' listener at an address; a forked child has its own."""
        with cls._lock:
            key = (os.getpid(), host)
            if key not in cls._of_process:
                cls._of_process[key] = cls(host)
            return cls._of_process[key]

    def __init__(self, host):
        self.socket = _wire.listen(host)
        self.host, self.port = host, self.socket.getsockname()[1]
        self.arrived: dict[tuple, socket.socket] = {}
        self.meshes: set[str] = set()  # the keys of those that are open
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, name="collectives", daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._admit, args=(peer,), daemon=True).start()

    def _admit(self, peer):
        if not _wire.admit(peer):
            peer.close()
            return
        try:
            peer.settimeout(_wire.HANDSHAKE_SECONDS)
            key, rank, channel = _wire.unpack(_wire.receive_frame(peer, 1 << 12))
        except (OSError, EOFError, ValueError, TypeError):
            peer.close()
            return
        _tune(peer)
        with self.changed:
            if key not in self.meshes:  # the group has ended
                peer.close()
                return
            self.arrived[key, rank, channel] = peer
            self.changed.notify_all()

    def take(self, key, timeout: float) -> socket.socket | None:
        """The connection that a rank of a mesh opened for a channel, waited for."""
        with self.changed:
            self.changed.wait_for(lambda: key in self.arrived, timeout)
            return self.arrived.pop(key, None)

    def open(self) -> str:
        """A key by which peers name one mesh: that of no other one, nor of an earlier group of the same name."""
        key = secrets.token_hex(8)
        with self.changed:
            self.meshes.add(key)
        return key

    def close(self, key: str) -> None:
        """Takes no more connections for a mesh, and lets go of those that nobody asked for."""
        with self.changed:
            self.meshes.discard(key)
            left = [k for k in self.arrived if k[0] == key]
            connections = [self.arrived.pop(k) for k in left]
            self.changed.notify_all()
        for connection in connections:
            _shut(connection, socket.SHUT_RDWR)
            connection.close()


def _tune(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    connection.setblocking(False)


def _shut(connection, how):
    try:
        connection.shutdown(how)
    except OSError:
        pass


def own_address(store_host: str) -> str:
    """The address at which others reach this process: the loopback interface if the store is there."""
    given = os.environ.get("FTORCH_DISTRIBUTED_ADDRESS")
    if given:
        return given
    if _wire.is_loopback(store_host):
        return "127.0.0.1"
    family = socket.AF_INET6 if ":" in store_host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # sends nothing: asks for the route
        probe.connect((store_host, 9))
        return probe.getsockname()[0]


def checksum(*what) -> int:
    """What a header says of a collective."""
    return zlib.crc32(repr(what).encode())


class Mesh:
    """The connections of one group, seen from one rank.

    Args:
        name: the same in all processes: what errors call the group.
        host: where this process listens.
    """

    def __init__(self, name: str, rank: int, size: int, store, host: str = "127.0.0.1"):
        self.name, self.rank, self.size, self.store = name, rank, size, store
        self.listener = Listener.at(host) if size > 1 else None
        self.outgoing: dict[tuple, socket.socket] = {}
        self.incoming: dict[tuple, socket.socket] = {}
        self.addresses: dict[int, tuple[str, int, str]] = {}
        self.lock = threading.Lock()
        self.closed = False
        self.failure: RuntimeError | None = None  # of an earlier collective
        self.has_ended = False  # whether the group was destroyed: nobody would answer
        self.key = self.listener.open() if self.listener is not None else ""
        if self.listener is not None:
            # A store that outlives the group (a launcher's, say) holds addresses of earlier ones.
            self.use = store.add(f"uses/{rank}", 1)
            store.set(f"address/{self.use}/{rank}", _wire.pack([host, self.listener.port, self.key]))

    def sender(self, peer: int, timeout: float, channel: str = "") -> socket.socket:
        """The connection on which this rank sends to another one."""
        found = self.outgoing.get((peer, channel))
        if found is None:
            with self.lock:
                if peer not in self.addresses:
                    place = f"address/{self.use}/{peer}"
                    self.store.wait([place])
                    self.addresses[peer] = tuple(_wire.unpack(self.store.get(place)))
            host, port, key = self.addresses[peer]
            try:
                found = _wire.connect(host, port, timeout)
            except OSError as error:
                raise RuntimeError(
                    f"Connection closed by peer: rank {peer} of {self.name} cannot be reached ({error})"
                ) from None
            _wire.send_frame(found, _wire.pack([key, self.rank, channel]))
            _tune(found)
            self.outgoing[peer, channel] = found
        return found

    def receiver(self, peer: int, timeout: float, channel: str = "") -> socket.socket:
        """The connection on which another rank sends to this one."""
        found = self.incoming.get((peer, channel))
        if found is None:
            found = self.listener.take((self.key, peer, channel), timeout)
            if found is None:
                raise self.late(timeout, [peer], "connect")
            self.incoming[peer, channel] = found
        return found

    def late(self, timeout, peers, doing="recv"):
        """The error of a rank whose peers did nothing in time."""
        return RuntimeError(
            f"Timed out waiting {int(timeout * 1000)}ms for {doing} operation to complete (rank "
            f"{self.rank} of {self.name} waits for {', '.join(f'rank {p}' for p in sorted(set(peers)))})"
        )

    def gone(self, peer, error=None):
        """The error of a rank whose peer has ended."""
        if self.closed:
            return RuntimeError("the process group was aborted")
        reason = f": {error}" if error else ""
        return RuntimeError(f"Connection closed by peer [rank {peer} of {self.name}]{reason}")

    def close(self) -> None:
        """Ends all connections; who waits on one gets an error."""
        self.closed = True
        for connection in [*self.outgoing.values(), *self.incoming.values()]:
            _shut(connection, socket.SHUT_RDWR)
            connection.close()
        self.outgoing.clear()
        self.incoming.clear()
        if self.listener is not None:
            self.listener.close(self.key)

    def exchange(self, number: int, what: int, sends, receives, timeout: float) -> None:
        """Sends and receives blocks at the same time.

        Args:
            number, what: the collective's number and checksum, for headers.
            sends, receives: pairs of a rank and a buffer of bytes; a rank occurs once in each.
        """
        if self.has_ended and (sends or receives):
            raise RuntimeError("The process group has been destroyed: it exchanges nothing any more")
        if self.failure is not None and (sends or receives):
            raise RuntimeError(f"An earlier collective of the group has failed: {self.failure}")
        try:
            self._exchange(number, what, sends, receives, timeout)
        except RuntimeError as error:
            # What lies half read in the connections would be taken for the next collective's: none follows.
            # The others read what was sent before, then that no more comes.
            self.failure = error
            for (_, channel), connection in list(self.outgoing.items()):
                if not channel:
                    _shut(connection, socket.SHUT_WR)
            raise

    def _exchange(self, number, what, sends, receives, timeout):
        limit = time.monotonic() + timeout
        going = [
            _Sending(self, peer, view, _HEADER.pack(number & 0xFFFFFFFF, what, len(view)), timeout)
            for peer, view in sends
        ]
        expected = [
            _Receiving(self, peer, view, (number & 0xFFFFFFFF, what, len(view)), None)
            for peer, view in receives
        ]
        going = [s for s in going if not s.go()]
        for step in expected:  # connected when everything that can be sent is on its way
            step.connect(max(0.0, limit - time.monotonic()))
        pending = [s for s in (*expected, *going) if not s.go()]
        while pending:
            self._wait(pending, limit, timeout)
            pending = [s for s in pending if not s.go()]

    def _wait(self, pending, limit, timeout):
        poll = select.poll()
        events: dict[int, int] = {}
        for step in pending:
            number = step.connection.fileno()
            if number < 0:
                raise self.gone(step.peer)
            events[number] = events.get(number, 0) | step.event
        for number, event in events.items():
            poll.register(number, event)
        left = limit - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000 + 1):
            raise self.late(timeout, [s.peer for s in pending])


class _Sending:
    event = select.POLLOUT

    def __init__(self, mesh, peer, view, header, timeout):
        self.mesh, self.peer = mesh, peer
        self.connection = mesh.sender(peer, timeout)
        self.parts = [memoryview(header), view]

    def go(self) -> bool:
        """Sends what can be sent at once; whether all is."""
        while True:
            try:
                if len(self.parts) == 2:
                    sent = self.connection.sendmsg(self.parts)
                else:
                    sent = self.connection.send(self.parts[0])
            except BlockingIOError:
                return False
            except OSError as error:
                raise self.mesh.gone(self.peer, error) from None
            while self.parts and sent >= len(self.parts[0]):
                sent -= len(self.parts.pop(0))
            if not self.parts:
                return True
            self.parts[0] = self.parts[0][sent:]


class _Receiving:
    event = select.POLLIN

    def __init__(self, mesh, peer, view, expected, connection):
        self.mesh, self.peer, self.expected, self.connection = mesh, peer, expected, connection
        self.header = bytearray(_HEADER.size)
        self.parts = [memoryview(self.header), view]

    def connect(self, timeout):
        """Finds the connection."""
        self.connection = self.mesh.receiver(self.peer, timeout)

    def go(self) -> bool:
        """Receives what is there; whether all is."""
        while True:
            try:
                if len(self.parts) == 2:
                    got = self.connection.recvmsg_into(self.parts)[0]
                else:
                    got = self.connection.recv_into(self.parts[0])
            except BlockingIOError:
                return False
            except OSError as error:
                raise self.mesh.gone(self.peer, error) from None
            if not got:
                raise self.mesh.gone(self.peer)
            if len(self.parts) == 2 and got >= len(self.parts[0]):
                self._check()
            while self.parts and got >= len(self.parts[0]):
                got -= len(self.parts.pop(0))
            if not self.parts:
                return True
            self.parts[0] = self.parts[0][got:]

    def _check(self):
        found = _HEADER.unpack(self.header)
        if found != self.expected:
            number, what, length = self.expected
            theirs = f"collective {found[0]} with a block of {found[2]} bytes"
            raise RuntimeError(
                f"Detected mismatch between collectives on ranks. Rank {self.mesh.rank} is running "
                f"collective {number} and expects a block of {length} bytes, but Rank {self.peer} is running "
                f"{theirs}{'' if found[1] == what else ', of another kind, dtype or size'}."
            )
