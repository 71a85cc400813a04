"""`IterableWrapper`: where a stream begins."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import TypeVar

from ..datapipe import IterDataPipe
from ..utils.common import length_of

_T = TypeVar("_T")

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe[_T]):
    """The elements of an iterable.

    Args:
        iterable: anything that can be iterated over.
        deepcopy: copy it for every iterator, so that changes to samples do not last.

    >>> import ftorch as torch
    >>> list(torch.utils.data.datapipes.iter.IterableWrapper(range(3)))
    [0, 1, 2]
    """

    def __init__(self, iterable: Iterable[_T], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[_T]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, "
                    "please be aware of in-place modification would affect source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return length_of(self.iterable, self)
