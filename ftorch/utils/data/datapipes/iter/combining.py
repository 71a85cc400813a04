"""One stream of several: `Concater`, `Multiplexer` and `Zipper`."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import no_length

__all__ = ["ConcaterIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe"]


class _Several(IterDataPipe):
    """Reads from ``datapipes``."""

    datapipes: tuple[IterDataPipe, ...]

    def _lengths(self) -> list[int]:
        if not all(isinstance(pipe, Sized) for pipe in self.datapipes):
            raise no_length(self)
        return [len(pipe) for pipe in self.datapipes]  # type: ignore[arg-type]


@functional_datapipe("concat")
class ConcaterIterDataPipe(_Several):
    """One datapipe after the other (method ``concat``).

    Raises:
        ValueError, TypeError: without datapipes, or for something else.

    >>> import ftorch as torch
    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(2))
    >>> list(numbers.concat(numbers.map(str)))
    [0, 1, '0', '1']
    """

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if len(datapipes) == 0:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(self._lengths())


@functional_datapipe("mux")
class MultiplexerIterDataPipe(_Several):
    """A sample of each datapipe in turn, until the shortest ends (method ``mux``).

    >>> import ftorch as torch
    >>> Source = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(Source([1, 2]).mux(Source("abc")))
    [1, 'a', 2, 'b']
    """

    _ftorch_saved = ("datapipes",)

    def __init__(self, *datapipes) -> None:
        self.datapipes = datapipes
        self._ftorch_start_empty()

    def _ftorch_start_empty(self):
        self.buffer: list = []  # a round, which is yielded when it is complete

    def __iter__(self):
        iterators = [iter(pipe) for pipe in self.datapipes]
        while iterators:
            for iterator in iterators:
                try:
                    self.buffer.append(next(iterator))
                except StopIteration:
                    self.buffer.clear()
                    return
            yield from self.buffer
            self.buffer.clear()

    def __len__(self) -> int:
        return min(self._lengths()) * len(self.datapipes)

    def reset(self) -> None:
        """Forgets a round that was not complete."""
        self._ftorch_start_empty()


@functional_datapipe("zip")
class ZipperIterDataPipe(_Several):
    """Tuples with a sample of each datapipe, until the shortest ends (method ``zip``).

    Raises:
        TypeError: for anything but datapipes.

    >>> import ftorch as torch
    >>> Source = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(Source([1, 2]).zip(Source("abc")))
    [(1, 'a'), (2, 'b')]
    """

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple]:
        yield from zip(*[iter(pipe) for pipe in self.datapipes], strict=False)

    def __len__(self) -> int:
        return min(self._lengths())
