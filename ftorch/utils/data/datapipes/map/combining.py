"""One map of several: `Concater` and `Zipper`."""

from __future__ import annotations

from collections.abc import Sized

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


class _Several(MapDataPipe):
    """Reads from ``datapipes``."""

    datapipes: tuple[MapDataPipe, ...]

    def __init__(self, *datapipes: MapDataPipe) -> None:
        if len(datapipes) == 0:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        for kind, name in ((MapDataPipe, "MapDataPipe"), (Sized, "Sized")):
            if not all(isinstance(pipe, kind) for pipe in datapipes):
                raise TypeError(f"Expected all inputs to be `{name}`")
        self.datapipes = datapipes

    def _lengths(self):
        return [len(pipe) for pipe in self.datapipes]  # type: ignore[arg-type]


@functional_datapipe("concat")
class ConcaterMapDataPipe(_Several):
    """One map after the other, with keys that go on (method ``concat``).

    Raises:
        ValueError, TypeError: without datapipes, or for something else.

    >>> import ftorch as torch
    >>> Source = torch.utils.data.datapipes.map.SequenceWrapper
    >>> list(Source("ab").concat(Source("c")))
    ['a', 'b', 'c']
    """

    def __getitem__(self, index):
        offset = 0
        for pipe, length in zip(self.datapipes, self._lengths(), strict=True):
            if index - offset < length:
                return pipe[index - offset]
            offset += length
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(self._lengths())


@functional_datapipe("zip")
class ZipperMapDataPipe(_Several):
    """Tuples with the samples of each map for a key (method ``zip``).

    Raises:
        ValueError, TypeError: without datapipes, or for something else.

    >>> import ftorch as torch
    >>> Source = torch.utils.data.datapipes.map.SequenceWrapper
    >>> Source("ab").zip(Source("cde"))[1]
    ('b', 'd')
    """

    def __getitem__(self, index):
        samples = []
        for pipe in self.datapipes:
            try:
                samples.append(pipe[index])
            except IndexError as e:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {pipe}."
                ) from e
        return tuple(samples)

    def __len__(self) -> int:
        return min(self._lengths())
