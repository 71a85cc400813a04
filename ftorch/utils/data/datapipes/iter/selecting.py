"""`Filter`: some of the samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, _check_unpickable_fn, validate_input_col
from .callable import columns

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The samples for which a function returns True (method ``filter``); streams in the others
    are closed. Of a pandas data frame, the rows that a column of bools chooses.

    Args:
        datapipe: the source.
        filter_fn: the function.
        input_col: which part of a sample it is applied to; of several, each is an argument.

    Raises:
        ValueError: while iterating, if the function returns something else.

    >>> import ftorch as torch
    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper([-1, 2, -3])
    >>> list(numbers.filter((0).__lt__))
    [2]
    """

    datapipe: IterDataPipe
    filter_fn: Callable

    def __init__(self, datapipe: IterDataPipe, filter_fn: Callable, input_col=None) -> None:
        super().__init__()
        self.datapipe = datapipe
        _check_unpickable_fn(filter_fn)
        self.filter_fn = filter_fn
        self.input_col = input_col
        validate_input_col(filter_fn, input_col)

    def __iter__(self) -> Iterator:
        for data in self.datapipe:
            kept, filtered = self._returnIfTrue(data)
            if kept:
                yield filtered
            else:
                StreamWrapper.close_streams(data)

    def _returnIfTrue(self, data):
        condition = columns(self.filter_fn, data, self.input_col)
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(condition, pandas.Series):
            rows = data[condition.to_numpy(dtype=bool)]
            return len(rows) > 0, rows
        if not isinstance(condition, bool):
            raise ValueError(  # noqa: TRY004  (PyTorch's)
                "Boolean output is required for `filter_fn` of FilterIterDataPipe, got",
                type(condition),
            )
        return condition, data
