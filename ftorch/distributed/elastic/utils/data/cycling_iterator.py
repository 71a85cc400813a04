"""Several epochs as one iterator."""

from __future__ import annotations

__all__ = ["CyclingIterator"]


class CyclingIterator:
    """``generator_fn(epoch)`` for the epochs from ``start_epoch`` to ``n - 1``, one after the other.

    >>> list(CyclingIterator(2, lambda epoch: iter([epoch, epoch])))
    [0, 0, 1, 1]
    """

    def __init__(self, n: int, generator_fn, start_epoch: int = 0):
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = generator_fn(self._epoch)

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
                self._epoch += 1
                self._iter = self._generator_fn(self._epoch)
