"""`RoutedDecoder`: objects from files' bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import _deprecation_warning, length_of
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Pairs of path and decoded object (method ``routed_decode``). PyTorch has deprecated it.

    Args:
        datapipe: pairs of path and binary stream or bytes.
        handlers: functions of (key, bytes) that return None to decline, the first one that does
            not counts; for text, numbers, JSON, pickles, tensors and pictures by default.
        key_fn: from a path to the handlers' key, by default its extension.
    """

    def __init__(
        self,
        datapipe: Iterable[tuple[str, BufferedIOBase]],
        *handlers: Callable,
        key_fn: Callable = extension_extract_fn,
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        if not handlers:
            handlers = (basichandlers, imagehandler("torch"))
        self.decoder = Decoder(*handlers, key_fn=key_fn)
        _deprecation_warning(
            type(self).__name__,
            deprecation_version="1.12",
            removal_version="1.13",
            old_functional_name="routed_decode",
        )

    def add_handler(self, *handler: Callable) -> None:
        """Puts handlers before the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for data in self.datapipe:
            yield data[0], self.decoder(data)[data[0]]

    def __len__(self) -> int:
        return length_of(self.datapipe, self)
