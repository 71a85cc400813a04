"""Functions of samples: `Mapper` and `Collator`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..._utils.collate import default_collate
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import _check_unpickable_fn, length_of, validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


def columns(function, data, input_col):
    """The function of a sample, or of the parts that ``input_col`` names."""
    if input_col is None:
        return function(data)
    if isinstance(input_col, (list, tuple)):
        return function(*(data[col] for col in input_col))
    return function(data[input_col])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """Applies a function to each sample (method ``map``).

    Args:
        datapipe: the source.
        fn: the function.
        input_col: which part of a sample it is applied to; of several, each is an argument.
        output_col: where the result goes instead: -1 appends it. By default it replaces the
            first of ``input_col``, and the others are removed.

    Raises:
        ValueError: if ``output_col`` is given without ``input_col``, or the function does not
            take as many arguments as there are columns.

    >>> import ftorch as torch
    >>> pairs = torch.utils.data.datapipes.iter.IterableWrapper([(1, 2), (3, 4)])
    >>> list(pairs.map(max, input_col=[0, 1], output_col=-1))
    [(1, 2, 2), (3, 4, 4)]
    """

    datapipe: IterDataPipe
    fn: Callable

    def __init__(
        self, datapipe: IterDataPipe, fn: Callable, input_col=None, output_col=None
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        _check_unpickable_fn(fn)
        self.fn = fn
        self.input_col = input_col
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.output_col = output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, data):
        source, target = self.input_col, self.output_col
        result = columns(self.fn, data, source)
        if source is None:
            return result
        parts = list(data) if isinstance(data, tuple) else data
        if target is None:
            first, *others = source if isinstance(source, (list, tuple)) else (source,)
            parts[first] = result
            for col in sorted(others, reverse=True):
                del parts[col]
        elif target == -1:
            parts.append(result)
        else:
            parts[target] = result
        return tuple(parts) if isinstance(data, tuple) else parts

    def __iter__(self) -> Iterator:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return length_of(self.datapipe, self)


def _collate_helper(conversion, item):
    """A named tuple of a data frame's columns, each converted by its function."""
    if len(item.items) > 1:
        raise RuntimeError("Only supports one DataFrame per batch")
    frame = item[0]
    names = list(frame.columns)
    if any(name not in names for name in conversion):
        raise RuntimeError("Conversion keys mismatch")
    values = []
    for name in names:
        if name not in conversion:
            raise RuntimeError(
                "unable to import default collation function from the TorchArrow: "
                f"give a conversion for the column {name!r}"
            )
        if not callable(conversion[name]):
            raise RuntimeError("Collate (DF)DataPipe requires callable as dict values")
        values.append(conversion[name](frame[name]))
    return namedtuple("CollateResult", [str(name) for name in names])(*values)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Makes tensors of each batch (method ``collate``).

    Args:
        datapipe: the source, usually of batches.
        conversion: the function, `default_collate` by default; or for pandas data frames a dict
            of functions by column.
        collate_fn: the function, with precedence.

    >>> import ftorch as torch
    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(4))
    >>> list(numbers.batch(2).collate())
    [tensor([0, 1]), tensor([2, 3])]
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        conversion: Callable[..., Any] | dict[Any, Any] | None = default_collate,
        collate_fn: Callable | None = None,
    ) -> None:
        if collate_fn is None:
            is_function = callable(conversion)
            collate_fn = conversion if is_function else partial(_collate_helper, conversion)
        super().__init__(datapipe, fn=collate_fn)
