"""Messages between processes: bytes with lengths before them, and the proof of a common token.

What comes from the network is never unpickled here: a message is numbers, strings, bytes and lists of
them. A connection begins with the proof that both ends know the token; who does not gets no byte.

The token is that of the launcher (the environment variable ``FTORCH_DISTRIBUTED_TOKEN``, which
`torchrun` and `multiprocessing.spawn` hand to their workers). Where no launcher gave one, it is a random number
in a file that only the user can read, so that processes of one user on one machine find each other.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pathlib
import secrets
import socket
import stat
import struct
import tempfile
from typing import Any

TOKEN_VARIABLE = "FTORCH_DISTRIBUTED_TOKEN"
HANDSHAKE_SECONDS = 10.0
_LENGTH = struct.Struct("<Q")
_INT, _FLOAT = struct.Struct("<q"), struct.Struct("<d")
_NONCE = _PROOF = 32


# --- values ----------------------------------------------------------------------------


def pack(value) -> bytes:
    """The bytes of a value made of None, bool, int, float, str, bytes and lists of these.

    >>> unpack(pack(["set", b"value", 3, None]))
    ['set', b'value', 3, None]
    """
    parts: list[bytes] = []
    _pack(value, parts)
    return b"".join(parts)


def _pack(value, parts):
    if value is None:
        parts.append(b"n")
    elif isinstance(value, bool):
        parts.append(b"t" if value else b"u")
    elif isinstance(value, int):
        parts += (b"i", _INT.pack(value))
    elif isinstance(value, float):
        parts += (b"f", _FLOAT.pack(value))
    elif isinstance(value, str):
        data = value.encode()
        parts += (b"s", _LENGTH.pack(len(data)), data)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        parts += (b"b", _LENGTH.pack(len(value)), bytes(value))
    elif isinstance(value, (list, tuple)):
        parts += (b"l", _LENGTH.pack(len(value)))
        for item in value:
            _pack(item, parts)
    else:
        raise TypeError(f"cannot send a {type(value).__name__} between processes")


def unpack(data: bytes) -> Any:
    """The value of `pack`'s bytes.

    Raises:
        ValueError: for other bytes.
    """
    try:
        value, end = _unpack(data, 0)
    except (struct.error, IndexError, UnicodeDecodeError, RecursionError):
        raise ValueError("malformed message") from None
    if end != len(data):
        raise ValueError("malformed message")
    return value


_SINGLE = {ord("n"): None, ord("t"): True, ord("u"): False}


def _unpack(data, at):
    kind = data[at]
    at += 1
    if kind in _SINGLE:
        return _SINGLE[kind], at
    (number,) = (_FLOAT if kind == ord("f") else _INT).unpack_from(data, at)
    at += 8
    if kind in b"if":
        return number, at
    if kind in b"sb":
        if not 0 <= number <= len(data) - at:
            raise ValueError("malformed message")
        found = data[at : at + number]
        return (found.decode() if kind == ord("s") else found), at + number
    if kind != ord("l") or not 0 <= number <= len(data) - at:
        raise ValueError("malformed message")
    items = []
    for _ in range(number):
        item, at = _unpack(data, at)
        items.append(item)
    return items, at


# --- frames ------------------------------------------------------------------------------


def send_frame(connection: socket.socket, data: bytes) -> None:
    """Sends bytes with their length before them."""
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive_frame(connection: socket.socket, limit: int = 1 << 40) -> bytes:
    """The bytes of a frame.

    Raises:
        EOFError: if the peer has gone. ValueError: if it is longer than ``limit``.
    """
    (length,) = _LENGTH.unpack(receive_exactly(connection, 8))
    if length > limit:
        raise ValueError(f"a message of {length} bytes")
    return receive_exactly(connection, length)


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    """The next ``count`` bytes. Raises EOFError if the peer goes before."""
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        n = connection.recv_into(view[got:])
        if not n:
            raise EOFError("connection closed by peer")
        got += n
    return bytes(data)


# --- the token ---------------------------------------------------------------------------


def token() -> bytes:
    """What both ends of a connection have to know."""
    given = os.environ.get("FTORCH_DISTRIBUTED_TOKEN")  # TOKEN_VARIABLE
    return given.encode() if given else _user_token()


def new_token() -> str:
    """A token for the workers that a launcher starts."""
    return secrets.token_hex(32)


def _user_token() -> bytes:
    base = os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.cache")
    path = pathlib.Path(base) / "ftorch" / "distributed_token"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            # Linked into its place when complete: who comes at the same time reads one of them.
            handle, made = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "w") as file:
                file.write(new_token())
            try:
                os.link(made, path)
            except FileExistsError:
                pass
            finally:
                os.unlink(made)
        status = path.stat()
        data = path.read_bytes()
    except OSError as error:
        raise RuntimeError(
            f"cannot keep a token for connections between processes at {path} ({error}): start the "
            f"program with torchrun, or set {TOKEN_VARIABLE} to the same random text in all processes"
        ) from None
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077 or len(data) < 32:
        raise RuntimeError(
            f"the token at {path} can be read by others than its owner: remove it, or set {TOKEN_VARIABLE}"
        )
    return data


def _proof(key, *parts):
    return hmac.new(key, b"|".join(parts), hashlib.sha256).digest()


def introduce(connection: socket.socket) -> None:
    """The connecting side's part of the proof.

    Raises:
        ConnectionError: if the other end does not know the token.
    """
    key, own = token(), secrets.token_bytes(_NONCE)
    connection.sendall(own + _proof(key, b"hello", own))
    try:
        answer = receive_exactly(connection, _NONCE + _PROOF)
    except EOFError:
        raise ConnectionError(
            "the other end closed the connection: it was not given the same token "
            f"(environment variable {TOKEN_VARIABLE})"
        ) from None
    other, proof = answer[:_NONCE], answer[_NONCE:]
    if not hmac.compare_digest(proof, _proof(key, b"server", own, other)):
        raise ConnectionError("the other end does not know the token")
    connection.sendall(_proof(key, b"client", other, own))


def admit(connection: socket.socket) -> bool:
    """The accepting side's part: whether the peer knows the token. Sends nothing to who does not."""
    key = token()
    connection.settimeout(HANDSHAKE_SECONDS)
    try:
        hello = receive_exactly(connection, _NONCE + _PROOF)
        other = hello[:_NONCE]
        if not hmac.compare_digest(hello[_NONCE:], _proof(key, b"hello", other)):
            return False
        own = secrets.token_bytes(_NONCE)
        connection.sendall(own + _proof(key, b"server", other, own))
        proof = receive_exactly(connection, _PROOF)
    except (OSError, EOFError):
        return False
    connection.settimeout(None)
    return hmac.compare_digest(proof, _proof(key, b"client", own, other))


def is_loopback(host: str) -> bool:
    """Whether a name means this machine only."""
    return host in ("localhost", "::1", "") or host.startswith("127.")


def listen(host: str, port: int = 0, backlog: int = 512) -> socket.socket:
    """A listening socket: on the loopback interface unless ``host`` is another address."""
    address = "127.0.0.1" if host in ("localhost", "") else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    listener.listen(backlog)
    return listener


def connect(host: str, port: int, timeout: float | None) -> socket.socket:
    """A connection whose ends both know the token."""
    address = "127.0.0.1" if host in ("localhost", "") else host
    connection = socket.create_connection((address, port), timeout)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(HANDSHAKE_SECONDS)
        introduce(connection)
    except BaseException:
        connection.close()
        raise
    connection.settimeout(None)
    return connection
