"""`StreamReader`: what is in streams."""

from __future__ import annotations

from collections.abc import Iterator
from io import IOBase

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[tuple[str, bytes]]):
    """Reads streams to their end and closes them (method ``read_from_stream``).

    Args:
        datapipe: pairs of path and stream.
        chunk: how many bytes or characters to yield at once; None for all.

    >>> import io
    >>> import ftorch as torch
    >>> source = torch.utils.data.datapipes.iter.IterableWrapper([("a", io.BytesIO(b"xyz"))])
    >>> list(source.read_from_stream(chunk=2))
    [('a', b'xy'), ('a', b'z')]
    """

    def __init__(
        self, datapipe: IterDataPipe[tuple[str, IOBase]], chunk: int | None = None
    ) -> None:
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for path, stream in self.datapipe:
            while data := stream.read(self.chunk):  # type: ignore[attr-defined]
                yield path, data
            stream.close()
