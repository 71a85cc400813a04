"""`SequenceWrapper`: a map of a sequence or dict."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..datapipe import MapDataPipe

_T = TypeVar("_T")

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe[_T]):
    """The elements of a sequence or values of a dict.

    Args:
        sequence: a sequence or dict.
        deepcopy: copy it at once, so that changes to samples do not reach it.

    >>> import ftorch as torch
    >>> torch.utils.data.datapipes.map.SequenceWrapper({"a": 1})["a"]
    1
    """

    sequence: Sequence[_T] | Mapping[Any, _T]

    def __init__(self, sequence: Sequence[_T] | Mapping[Any, _T], deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "The input sequence can not be deepcopied, "
                    "please be aware of in-place modification would affect source data",
                    stacklevel=2,
                )

    def __getitem__(self, index: int) -> _T:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
