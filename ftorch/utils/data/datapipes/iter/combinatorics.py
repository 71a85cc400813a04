"""Orders of samples: `Sampler` and `Shuffler`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized

from ...sampler import Sampler, SequentialSampler, draw_seed
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import length_of

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe):
    """What a sampler yields for a datapipe, by default 0 up to its length.

    Args:
        datapipe: a source with a length.
        sampler: the sampler's class.
        sampler_args, sampler_kwargs: its other arguments.

    Raises:
        AssertionError: if the source has no length.
    """

    datapipe: IterDataPipe
    sampler: Sampler

    def __init__(
        self,
        datapipe: IterDataPipe,
        sampler: type[Sampler] = SequentialSampler,
        sampler_args: tuple | None = None,
        sampler_kwargs: dict | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        super().__init__()
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = self.datapipe
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length_of(self.sampler, self)


class Shuffling(IterDataPipe):
    """A switch, a seed and a generator for what shuffles."""

    def _start_shuffling(self):
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle=True):
        """Switches shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int):
        """Sets the seed of the next iterator; others draw theirs from PyTorch's generator."""
        self._seed = seed
        return self

    @property
    def _rng_state(self):
        return self._rng.getstate()

    def __setstate__(self, state) -> None:
        state = dict(zip(self._ftorch_saved or (), state, strict=True))
        self._rng = random.Random()
        self._rng.setstate(state.pop("_rng_state"))
        self.__dict__.update(state)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffling):
    """Yields samples in random order from a buffer (method ``shuffle``).

    Args:
        datapipe: the source.
        buffer_size: how many samples wait; the order is fully random if that is all.
        unbatch_level: how many levels of batches to take apart before.

    Raises:
        AssertionError: for an empty buffer.

    >>> import ftorch as torch
    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> list(numbers.shuffle().set_seed(0))
    [3, 4, 0, 2, 1]
    """

    datapipe: IterDataPipe
    buffer_size: int
    _ftorch_saved = ("datapipe", "buffer_size", "_enabled", "_seed", "_buffer", "_rng_state")

    def __init__(
        self, datapipe: IterDataPipe, *, buffer_size: int = 10000, unbatch_level: int = 0
    ) -> None:
        super().__init__()
        self._buffer: list = []
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = (
            datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        )
        self.buffer_size = buffer_size
        self._start_shuffling()

    def __iter__(self) -> Iterator:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer = self._buffer
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            index = self._rng.randint(0, len(buffer) - 1)
            chosen, buffer[index] = buffer[index], sample
            yield chosen
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length_of(self.datapipe, self)

    def reset(self) -> None:
        """Empties the buffer and seeds the generator."""
        self._buffer = []
        if self._enabled:
            self._rng.seed(draw_seed(None) if self._seed is None else self._seed)
            self._seed = None
