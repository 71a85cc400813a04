"""Lists of samples: `Batcher`, `UnBatcher` and `Grouper`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe
from ..utils.common import _check_unpickable_fn, length_of

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


def number_of_batches(batcher) -> int:
    """How many batches the source of a batcher is cut into."""
    length = length_of(batcher.datapipe, batcher)
    return length // batcher.batch_size if batcher.drop_last else -(-length // batcher.batch_size)


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk]):
    """Cuts the stream into batches (method ``batch``).

    Args:
        datapipe: the source.
        batch_size: samples per batch.
        drop_last: leave out a last batch that is not full.
        wrapper_class: what to make of a list of samples.

    Raises:
        AssertionError: for a batch size below 1.

    >>> import ftorch as torch
    >>> list(torch.utils.data.datapipes.iter.IterableWrapper(range(3)).batch(2))
    [[0, 1], [2]]
    """

    datapipe: IterDataPipe
    batch_size: int
    drop_last: bool

    def __init__(
        self,
        datapipe: IterDataPipe,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: type[DataChunk] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[DataChunk]:
        batch: list = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        return number_of_batches(self)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """Takes lists apart (method ``unbatch``).

    Args:
        datapipe: the source.
        unbatch_level: how many levels of lists; -1 for all.

    Raises:
        ValueError: while iterating, for other negative levels.
        IndexError: while iterating, if there are fewer levels.

    >>> import ftorch as torch
    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([[1, [2]], [3]]).unbatch())
    [1, [2], 3]
    """

    def __init__(self, datapipe: IterDataPipe, unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self):
        for element in self.datapipe:
            yield from self._dive(element, unbatch_level=self.unbatch_level)

    def _dive(self, element, unbatch_level):
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        if unbatch_level != 0 and isinstance(element, list):
            for item in element:
                yield from self._dive(item, max(unbatch_level - 1, -1))
        elif unbatch_level <= 0:
            yield element
        else:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[DataChunk]):
    """Batches of samples with the same key (method ``groupby``).

    Args:
        datapipe: the source.
        group_key_fn: from a sample to its key.
        keep_key: yield pairs of key and batch.
        buffer_size: how many samples wait; when it is full, the largest group is yielded.
        group_size: a group is yielded as soon as it has so many.
        guaranteed_group_size: the smallest group that may be yielded when the buffer is full.
        drop_remaining: throw smaller ones away then, instead of failing.

    Raises:
        AssertionError: for sizes that contradict each other.
        RuntimeError: while iterating, if the buffer is full of smaller groups.

    >>> import ftorch as torch
    >>> words = torch.utils.data.datapipes.iter.IterableWrapper(["a", "bc", "d", "ef"])
    >>> list(words.groupby(len, keep_key=True))
    [(1, ['a', 'd']), (2, ['bc', 'ef'])]
    """

    _ftorch_saved = (
        "datapipe", "group_key_fn", "keep_key", "max_buffer_size", "group_size",
        "guaranteed_group_size", "drop_remaining", "wrapper_class",
    )

    def __init__(
        self,
        datapipe: IterDataPipe,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = None
        if group_size is not None and buffer_size is not None:
            if not 0 < group_size <= buffer_size:
                raise AssertionError("group_size must be > 0 and <= buffer_size")
            self.guaranteed_group_size = group_size
        if guaranteed_group_size is not None:
            if group_size is None or not 0 < guaranteed_group_size <= group_size:
                raise AssertionError(
                    "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
                )
            self.guaranteed_group_size = guaranteed_group_size
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk
        self._ftorch_start_empty()

    def _ftorch_start_empty(self):
        self.buffer_elements: defaultdict[Any, list] = defaultdict(list)
        self.curr_buffer_size = 0

    def _remove_biggest_key(self):
        """Takes the largest group out of the buffer; None if it is to be dropped."""
        key = max(self.buffer_elements, key=lambda key: len(self.buffer_elements[key]))
        group = self.buffer_elements[key]
        too_small = (
            self.guaranteed_group_size is not None and len(group) < self.guaranteed_group_size
        )
        if too_small and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        self._remove(key)
        return None if too_small else group

    def _remove(self, key):
        group = self.buffer_elements.pop(key)
        self.curr_buffer_size -= len(group)
        return group

    def __iter__(self):
        def result(key, group):
            chunk: DataChunk = self.wrapper_class(group)
            return (key, chunk) if self.keep_key else chunk

        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            self.buffer_elements[key].append(sample)
            self.curr_buffer_size += 1
            if self.group_size == len(self.buffer_elements[key]):
                yield result(key, self.buffer_elements[key])
                self._remove(key)
            if self.curr_buffer_size == self.max_buffer_size:
                group = self._remove_biggest_key()
                if group is not None:
                    yield result(key, group)  # PyTorch's key, too, is the last sample's
        for key in tuple(self.buffer_elements):
            yield result(key, self._remove(key))

    def reset(self) -> None:
        """Empties the buffer."""
        self._ftorch_start_empty()
