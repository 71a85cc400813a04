"""Queues between processes (``torch.multiprocessing.queue``): tensors travel by the reductions of ForkingPickler."""

from __future__ import annotations

import io
import multiprocessing.queues
import pickle
from multiprocessing.reduction import ForkingPickler

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]


class ConnectionWrapper:
    """A connection whose objects are pickled by `ForkingPickler`."""

    def __init__(self, conn):
        self.conn = conn

    def send(self, obj):
        """Sends an object."""
        buffer = io.BytesIO()
        ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(obj)
        self.send_bytes(buffer.getvalue())

    def recv(self):
        """Receives an object."""
        return pickle.loads(self.recv_bytes())

    def __getattr__(self, name):
        if "conn" in self.__dict__:
            return getattr(self.conn, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute 'conn'")


Queue = multiprocessing.queues.Queue  # pickles with ForkingPickler already
SimpleQueue = multiprocessing.queues.SimpleQueue
