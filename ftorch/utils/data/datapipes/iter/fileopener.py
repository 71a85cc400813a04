"""`FileOpener`: streams of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import IOBase

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import get_file_binaries_from_pathnames, no_length

__all__ = ["FileOpenerIterDataPipe"]


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[tuple[str, IOBase]]):
    """Pairs of path and open file (method ``open_files``). A file closes itself when it is
    forgotten.

    Args:
        datapipe: the paths.
        mode: ``b`` for bytes, ``t`` for text; or ``r``, ``rb``, ``rt``.
        encoding: of text.
        length: what ``len`` says; -1 for none.

    Raises:
        ValueError: for another mode, or an encoding of bytes.
    """

    def __init__(
        self,
        datapipe: Iterable[str],
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.mode = mode
        self.encoding = encoding
        if self.mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, IOBase]]:
        yield from get_file_binaries_from_pathnames(  # type: ignore[misc]
            self.datapipe, self.mode, self.encoding
        )

    def __len__(self) -> int:
        if self.length == -1:
            raise no_length(self)
        return self.length
