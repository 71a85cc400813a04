"""Fetchers: from the sampler's keys to a collated batch. Worker processes use them as well."""

from __future__ import annotations

from ..dataset import batch_getter
from . import collate, engine


class _BaseDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn, drop_last) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def __init__(self, dataset, auto_collation, collate_fn, drop_last) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index):
        """The next batch: the keys only say how many samples. Raises StopIteration at the end."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        data, settle = [], engine.settler()
        for _ in possibly_batched_index:
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
            settle()
        if not data or (self.drop_last and len(data) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(data)


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def __init__(self, dataset, auto_collation, collate_fn, drop_last) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self._get_batch = None
        if (
            auto_collation
            and collate_fn is collate.default_collate
            and engine.loaded()
            and collate.tensors_collate_by_default(collate.default_collate_fn_map)
        ):
            self._get_batch = batch_getter(dataset)

    def fetch(self, possibly_batched_index):
        """The sample of a key, or the batch of a list of keys."""
        if self._get_batch is not None and type(possibly_batched_index) is list:
            return self._get_batch(possibly_batched_index)
        dataset = self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[possibly_batched_index])
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(possibly_batched_index))
        return self.collate_fn(engine.one_by_one(dataset.__getitem__, possibly_batched_index))


class _DatasetKind:
    """Whether a dataset is a map or a stream."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        """The fetcher for a kind of dataset."""
        cls = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return cls(dataset, auto_collation, collate_fn, drop_last)
