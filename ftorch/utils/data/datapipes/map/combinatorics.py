"""`Shuffler`: the samples of a map in random order."""

from __future__ import annotations

from collections.abc import Iterator

from ...sampler import draw_seed
from ..datapipe import MapDataPipe
from ..iter.combinatorics import Shuffling

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(Shuffling):
    """The samples of a map in random order: a stream (method ``shuffle``).

    Args:
        datapipe: the map.
        indices: its keys; by default 0 up to its length.

    >>> import ftorch as torch
    >>> letters = torch.utils.data.datapipes.map.SequenceWrapper("abcd")
    >>> list(letters.shuffle().set_seed(0))
    ['c', 'a', 'b', 'd']
    """

    datapipe: MapDataPipe
    _ftorch_saved = ("datapipe", "indices", "_enabled", "_seed", "_rng_state", "_shuffled_indices")

    def __init__(self, datapipe: MapDataPipe, *, indices: list | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        if indices is None:
            indices = list(range(len(datapipe)))  # type: ignore[arg-type]
        self.indices = indices
        self._start_shuffling()
        self._shuffled_indices: list = self.indices

    def __iter__(self) -> Iterator:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        """Seeds the generator and draws a new order."""
        if self._enabled and self._seed is None:
            self._seed = draw_seed(None)
        self._rng.seed(self._seed)
        self._seed = None
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
