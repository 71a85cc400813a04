"""`Batcher`: lists of samples."""

from __future__ import annotations

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, MapDataPipe
from ..iter.grouping import number_of_batches

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk]):
    """A map from 0, 1, ... to batches (method ``batch``).

    Args:
        datapipe: a map from 0, 1, ... to samples.
        batch_size: samples per batch.
        drop_last: leave out a last batch that is not full.
        wrapper_class: what to make of a list of samples.

    Raises:
        AssertionError: for a batch size below 1.

    >>> import ftorch as torch
    >>> list(torch.utils.data.datapipes.map.SequenceWrapper("abc").batch(2))
    [['a', 'b'], ['c']]
    """

    datapipe: MapDataPipe
    batch_size: int
    drop_last: bool

    def __init__(
        self,
        datapipe: MapDataPipe,
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

    def __getitem__(self, index) -> DataChunk:
        batch: list = []
        try:
            for i in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[i])
        except IndexError as e:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from e
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        return number_of_batches(self)
