"""Pools of processes (``torch.multiprocessing.pool``)."""

from __future__ import annotations

import gc
import multiprocessing.pool
import multiprocessing.util

from .queue import SimpleQueue

__all__ = ["Pool", "clean_worker"]


def clean_worker(*args, **kwargs):
    """A worker that frees its memory at its end."""
    multiprocessing.pool.worker(*args, **kwargs)  # type: ignore[attr-defined]
    gc.collect()


class Pool(multiprocessing.pool.Pool):
    """``multiprocessing.Pool`` whose new processes are started from scratch: JAX's threads cannot be forked."""

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        context = context or multiprocessing.get_context("spawn")
        super().__init__(processes, initializer, initargs, maxtasksperchild, context)

    def _setup_queues(self):
        self._inqueue = SimpleQueue(ctx=self._ctx)  # type: ignore[attr-defined]
        self._outqueue = SimpleQueue(ctx=self._ctx)  # type: ignore[attr-defined]
        self._quick_put = self._inqueue._writer.send  # type: ignore[attr-defined]
        self._quick_get = self._outqueue._reader.recv  # type: ignore[attr-defined]
