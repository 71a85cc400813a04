"""Messages between the main process and a worker: pickles over a Unix socket.

What a message weighs more than a few kilobytes travels in an anonymous file in memory, whose
descriptor goes over the socket: arrays are written once and mapped by the receiver. Such a file
has no name, so nothing is left behind by a process that is killed. A socket thus never holds more
than small messages, which keeps both ends from waiting for each other.

A worker writes its files again (`Files`) when the main process has let go of what was in them
(`Mappings`): getting new memory from the system takes three times as long as writing to it.
"""

from __future__ import annotations

import collections
import io
import mmap
import operator
import os
import pickle
import resource
import socket
import struct
import sys
import tempfile
import types
import weakref
from collections.abc import Iterator

import cloudpickle
import numpy as np

from . import engine

_HEADER = struct.Struct("<QQq")  # how many parts, bytes of all with padding, number of the file
_NO_NUMBER = -1  # of a file that is used once
_SIZE = struct.Struct("<Q")
_DESCRIPTOR = struct.Struct("i")
_INLINE = 4096  # bytes that are sent over the socket itself
_ALIGNMENT = 64  # of every part: what XLA wants, to use an array where it is


inherited = [False]
"""Whether this process was forked from the one that it sends to, whose ``__main__`` has the same classes and functions."""


class _Pickler(cloudpickle.Pickler):
    """Pickles functions and classes of ``__main__`` by value, unless the receiver has the same, and arrays out of band."""

    def __init__(self, file, buffers):
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.storages: dict = {}

    def reducer_override(self, obj):
        if isinstance(obj, np.ndarray):
            # NumPy copies arrays of foreign dtypes (bfloat16) into the pickle.
            if type(obj) is np.ndarray and obj.dtype.kind == "V" and obj.dtype.isbuiltin == 2:
                raw = np.ascontiguousarray(obj).reshape(-1).view(np.uint8)
                return _view_array, (raw, obj.dtype, obj.shape)
            return NotImplemented
        if engine.loaded() and isinstance(obj, engine.tensor_type()):
            from .tensors import reduce_for_transport

            return reduce_for_transport(obj, self.storages)
        if inherited[0] and isinstance(obj, type | types.FunctionType) and _is_in_main(obj):
            return NotImplemented
        return super().reducer_override(obj)


def _is_in_main(obj):
    """Whether ``__main__`` has an object under its own name."""
    try:
        return (
            obj.__module__ == "__main__"
            and operator.attrgetter(obj.__qualname__)(sys.modules["__main__"]) is obj
        )
    except AttributeError:
        return False


def _view_array(raw, dtype, shape):
    return raw.view(dtype).reshape(shape)


class Files:
    """A sender's files that are written again: a descriptor and a size by number.

    Attributes:
        free: the numbers of those that the receiver has given back.
    """

    def __init__(self):
        self.free: list[int] = []
        self._files: dict[int, tuple[int, int]] = {}
        self._made = 0

    def take(self, size: int) -> tuple[int, int, bool]:
        """(number, descriptor, whether the receiver can have mapped it) of a file to be written."""
        if self.free:
            number = self.free.pop()
            file, before = self._files[number]
        else:
            number, file, before = self._made, _anonymous_file(), 0
            self._made += 1
        self._files[number] = file, max(size, before)
        return number, file, size <= before

    def give_back(self, numbers) -> None:
        """Takes what `Mappings.given_back` says."""
        for number in numbers:
            if number >= 0:
                self.free.append(number)
            else:
                os.close(self._files.pop(~number)[0])


class Mappings:
    """A receiver's mappings of one sender's `Files`.

    Args:
        most: how many files are kept to be written again.
    """

    def __init__(self, most: int):
        self.most = most
        self._mappings: dict[int, mmap.mmap] = {}
        self._unused: collections.deque[int] = collections.deque()

    def memory(self, number: int, size: int, file: int | None) -> np.ndarray:
        """The memory of a message; its file is given back when nothing uses that any more.

        Args:
            file: the descriptor of a file that was not mapped yet, or has grown.
        """
        if file is not None:
            buffer = _take_file(file, size, private=False)
            if not isinstance(buffer, mmap.mmap):  # a copy
                self._mappings.pop(number, None)
                self._unused.append(~number)
                return np.frombuffer(buffer, np.uint8)
            self._mappings[number] = buffer
        memory = np.frombuffer(self._mappings[number], np.uint8, size)
        weakref.finalize(memory, self._unused.append, number).atexit = False
        return memory

    def given_back(self) -> list[int]:
        """The numbers of the files that the sender may write again; ``~number`` of those to be closed."""
        numbers = []
        while self._unused:
            number = self._unused.popleft()
            if number >= 0 and len(self._mappings) > self.most:
                del self._mappings[number]
                number = ~number
            numbers.append(number)
        return numbers


class Message:
    """A pickled object, ready to be sent, to several receivers if wanted.

    Args:
        files: where to take the file from, if it is to be used again.

    Attributes:
        data: the bytes that go over the socket.
        file: the descriptor of the file with the rest, if the receiver needs it, or None. It is closed
            with the message, unless it is one of ``files``.
    """

    def __init__(self, obj, files: Files | None = None):
        pickled, buffers = io.BytesIO(), []
        _Pickler(pickled, buffers).dump(obj)
        parts = [pickled.getbuffer(), *(buffer.raw() for buffer in buffers)]
        sizes = [part.nbytes for part in parts]
        total = sum(_padded(size) for size in sizes)
        self.file, self.is_kept, number, rest = None, files is not None, _NO_NUMBER, b""
        if total <= _INLINE:
            rest = b"".join(_with_padding(parts))
        else:
            if files is None:
                file, is_mapped = _anonymous_file(), False
            else:
                number, file, is_mapped = files.take(total)
            os.lseek(file, 0, os.SEEK_SET)
            with open(file, "wb", closefd=False) as writer:
                writer.writelines(_with_padding(parts))
            self.file = None if is_mapped else file
        head = _HEADER.pack(len(parts), total, number)
        self.data = head + struct.pack(f"<{len(sizes)}Q", *sizes) + rest
        self.pickle = pickled

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.file is not None and not self.is_kept:
            os.close(self.file)

    def send_some(self, sock: socket.socket, start: int = 0, flags: int = 0) -> int:
        """Sends ``data[start:]`` as far as the socket takes it; returns where it stopped."""
        attached = []
        if start == 0 and self.file is not None:
            attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(self.file))]
        return start + sock.sendmsg([memoryview(self.data)[start:]], attached, flags)


def send(sock: socket.socket, obj) -> None:
    """Sends an object, waiting until the socket has taken it."""
    with Message(obj) as message:
        send_message(sock, message)


def send_message(sock: socket.socket, message: Message) -> None:
    """Sends a message, waiting until the socket has taken it."""
    sent = 0
    while sent < len(message.data):
        sent = message.send_some(sock, sent)


def receive(sock: socket.socket, private: bool = False, mappings: Mappings | None = None):
    """Waits for an object.

    Args:
        private: map a message that others receive too: writing to its arrays copies them.
        mappings: of the sender's files.

    Raises:
        EOFError: if the other end is gone.
    """
    data, attached, _, _ = sock.recvmsg(
        _HEADER.size, socket.CMSG_LEN(_DESCRIPTOR.size), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    )
    count, total, number = _HEADER.unpack(data + _read(sock, _HEADER.size - len(data)))
    sizes = struct.unpack(f"<{count}Q", _read(sock, count * _SIZE.size))
    file = _DESCRIPTOR.unpack(attached[0][2])[0] if attached else None
    if mappings is not None and number != _NO_NUMBER:
        buffer = mappings.memory(number, total, file)
    elif file is not None:
        buffer = _take_file(file, total, private)
    else:
        buffer = _read(sock, total)
    parts = list(_split(memoryview(buffer), sizes))
    return pickle.loads(parts[0], buffers=parts[1:])


def _read(sock, size):
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        n = sock.recv_into(view)
        if n == 0:
            raise EOFError
        view = view[n:]
    return buffer


def _padded(size):
    return size + -size % _ALIGNMENT


def _with_padding(parts) -> Iterator:
    for part in parts:
        yield part
        yield bytes(-part.nbytes % _ALIGNMENT)


def _split(view, sizes):
    start = 0
    for size in sizes:
        yield view[start : start + size]
        start += _padded(size)


def _anonymous_file():
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ftorch")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _take_file(file, size, private):
    try:
        # A mapping keeps a duplicate of the descriptor, numbered from the lowest that is free: a
        # high number says that many batches are alive. Then copy, before descriptors run out.
        duplicate = os.dup(file)
        os.close(duplicate)
        if duplicate < resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2:
            return mmap.mmap(file, size, mmap.MAP_PRIVATE if private else mmap.MAP_SHARED)
        buffer, done = bytearray(size), 0
        while done < size:
            done += os.preadv(file, [memoryview(buffer)[done:]], done)
        return buffer
    finally:
        os.close(file)
