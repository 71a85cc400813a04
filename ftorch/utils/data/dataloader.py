"""`DataLoader`: batches of a dataset, fetched in this process or by workers."""

from __future__ import annotations

import itertools
import multiprocessing.context
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

import ftorch as torch

from ..._worker_errors import ExceptionWrapper as ExceptionWrapper
from . import _utils
from ._utils import datapipes as _datapipes
from ._utils.collate import default_collate, default_convert
from ._utils.fetch import _DatasetKind
from ._utils.processes import WorkerDied, WorkerPool
from ._utils.worker import Job, _IterableDatasetStopIteration, _ResumeIteration, get_worker_info
from .datapipes.datapipe import IterDataPipe
from .dataset import Dataset, IterableDataset
from .graph_settings import apply_sharding, apply_shuffle_settings
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_T = TypeVar("_T")
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[_T]], Any]


def _sharding_worker_init_fn(worker_init_fn, world_size, rank_id, worker_id) -> None:
    """What a worker does first for a pipe of data: takes its own part of the processes' and workers' shards."""
    info = get_worker_info()
    assert info is not None
    apply_sharding(info.dataset, world_size * info.num_workers, worker_id * world_size + rank_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _InfiniteConstantSampler(Sampler):
    """The sampler of a stream: as many None as are wanted."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches (``torch.utils.data.DataLoader``).

    Workers are processes of their own that never touch an accelerator. They need no main guard:
    what ``__main__`` (a script or a notebook) defines travels to them by value.

    Args:
        dataset: a map-style `Dataset` (anything with ``__getitem__`` and ``__len__``) or an
            `IterableDataset`.
        batch_size: samples per batch; None yields the samples themselves.
        shuffle: read in a new random order in every epoch.
        sampler: the order of the keys instead.
        batch_sampler: an iterable of lists of keys, instead of ``batch_size``, ``shuffle``,
            ``sampler`` and ``drop_last``.
        num_workers: how many worker processes fetch; 0 fetches in this process.
        collate_fn: from a list of samples to a batch. `default_collate` by default; without
            batches `default_convert`.
        pin_memory: return batches in page-locked memory, where there is an accelerator.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a batch from the workers; 0 waits for ever.
        worker_init_fn: called with the worker's id in each worker, before it fetches.
        multiprocessing_context: a start method of `multiprocessing`, or a context; the process's own by default.
            By "fork" workers are forked from this process and compute without accelerators; by the others from a
            process of ftorch's own, to which the dataset is pickled.
        generator: where the shuffling and the workers' seed are drawn from.
        prefetch_factor: batches that each worker is ahead; 2 by default.
        persistent_workers: keep the workers from one epoch to the next.
        in_order: with False, return batches as they come.

    Raises:
        ValueError, TypeError: for arguments that are out of range or exclude each other.

    >>> import ftorch as torch
    >>> dataset = torch.utils.data.TensorDataset(torch.arange(5))
    >>> [batch.tolist() for (batch,) in torch.utils.data.DataLoader(dataset, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    __initialized = False
    _ftorch_fixed: ClassVar = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset",
              "persistent_workers"}

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable | None = None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; "
                "use num_workers=0 to disable multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, "
                "otherwise set prefetch_factor to None."
            )
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        elif prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

        self.dataset = _datapipes.wrap(dataset)
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order

        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            if isinstance(dataset, IterDataPipe):
                # If a shuffler has to be added, PyTorch warns of it, but reads without it.
                apply_shuffle_settings(dataset, shuffle)
                shuffle = None
            for name, value, unset in (
                ("shuffle", shuffle, shuffle in (False, None)),
                ("sampler", sampler, sampler is None),
                ("batch_sampler", batch_sampler, batch_sampler is None),
            ):
                if not unset:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, "
                        f"but got {name}={value}"
                    )
        else:
            shuffle = bool(shuffle)
            self._dataset_kind = _DatasetKind.Map
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive "
                    "with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching "
                "and is mutually exclusive with drop_last"
            )

        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator: _BaseDataLoaderIter | None = None
        self.check_worker_number_rationality()

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    @property
    def multiprocessing_context(self):
        """The context given, None by default."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context) -> None:
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{methods!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self.__multiprocessing_context = context

    def __setattr__(self, attr, val) -> None:
        if self.__initialized and attr in self._ftorch_fixed:
            raise ValueError(
                f"{attr} attribute should not be set after {self.__class__.__name__} is initialized"
            )
        super().__setattr__(attr, val)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warns if there are more workers than CPUs that this process may use."""
        if not self.num_workers:
            return
        cpuset_checked = hasattr(os, "sched_getaffinity")
        cpus = len(os.sched_getaffinity(0)) if cpuset_checked else os.cpu_count()
        if cpus is None:
            suggestion = (
                "DataLoader is not able to compute a suggested max number of worker in current "
                "system."
            )
        elif self.num_workers > cpus:
            note = "" if cpuset_checked else " (`cpuset` is not taken into account)"
            suggestion = (
                f"Our suggested max number of worker in current system is {cpus}{note}, which is "
                "smaller than what this DataLoader is going to create."
            )
        else:
            return
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. "
            f"{suggestion} Please be aware that excessive worker creation might get DataLoader "
            "running slow or even freeze, lower the worker number to avoid potential "
            "slowness/freeze if necessary.",
            stacklevel=3,
        )


class _BaseDataLoaderIter:
    def __init__(self, loader: DataLoader) -> None:
        self._dataset = loader.dataset
        self._shared_seed = _datapipes.shared_seed(self._dataset, loader.generator)
        self._pipe_seeds = _datapipes.seed_epoch(self._dataset, self._shared_seed)
        self._pg = None
        self._world_size, self._rank = _datapipes.place()
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory and _accelerator_for_pinning(loader.pin_memory_device)
        accelerator = torch.accelerator.current_accelerator() if self._pin_memory else None
        self._pin_memory_device = None if accelerator is None else accelerator.type
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        # Before the sampler draws a seed of its own, which it does when it is first asked.
        self._base_seed = draw_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        self._profile_name = f"enumerate(DataLoader)#{self.__class__.__name__}.__next__"

    def __iter__(self):
        return self

    def _reset(self, loader, first_iter=False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._shared_seed = _datapipes.shared_seed(self._dataset, loader.generator)
        self._pipe_seeds = _datapipes.seed_epoch(self._dataset, self._shared_seed)

    def _next_index(self):
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        expected = self._IterableDataset_len_called
        if (
            self._dataset_kind == _DatasetKind.Iterable
            and expected is not None
            and self._num_yielded > expected
        ):
            self._warn_of_length(expected)
        return data

    def _warn_of_length(self, expected):
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {expected}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError("{} cannot be pickled", self.__class__.__name__)


def _accelerator_for_pinning(pin_memory_device):
    if pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{pin_memory_device}'.",
            stacklevel=4,
        )
    available = torch.accelerator.is_available()
    if not available:
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, "
            "then device pinned memory won't be used.",
            stacklevel=4,
        )
    return available


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        _datapipes.shard_for_process(self._dataset)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn,
            self._drop_last,
        )

    def _next_data(self):
        data = self._dataset_fetcher.fetch(next(self._sampler_iter))
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Hands keys to workers in turn and returns their batches in the order of the keys.

    `_tasks` maps the number of a task to its worker and, once it has arrived, its result.
    """

    def __init__(self, loader) -> None:
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        if self._prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        self._shutdown = False
        self._worker_init_fn = _datapipes.sharding_init_fn(self._dataset, loader.worker_init_fn)
        job = Job(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn,
            self._drop_last, self._base_seed, self._worker_init_fn, self._num_workers,
        )
        try:
            self._pool = WorkerPool(job, self._prefetch_factor, loader.multiprocessing_context)
        except Exception as e:
            e.add_note(
                "DataLoader could not start its workers: the dataset, collate_fn and "
                "worker_init_fn are pickled to get there."
            )
            self._shutdown = True
            raise
        self._workers = self._pool.workers
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False) -> None:
        super()._reset(loader, first_iter)
        self._send_idx = 0  # the number of the next task to be sent
        self._rcvd_idx = 0  # the number of the next task to be returned
        self._tasks: dict[int, tuple] = {}
        self._workers_status = [True] * self._num_workers
        self._workers_num_tasks = [0] * self._num_workers
        self._worker_cycle = itertools.cycle(range(self._num_workers))
        if not first_iter:
            for worker_id in range(self._num_workers):
                self._pool.send(worker_id, _ResumeIteration(self._pipe_seeds))
            waiting = self._num_workers
            while waiting:  # what comes in between belongs to an epoch that was given up
                waiting -= isinstance(self._get_data()[1], _ResumeIteration)
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _get_data(self):
        try:
            message = self._pool.receive(self._timeout or None)
        except WorkerDied as e:
            self._workers_status[e.worker_id] = False
            raise RuntimeError(str(e)) from None
        if message is None:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        return message

    def _next_data(self):
        while True:
            # Skip the tasks of workers whose streams have ended.
            while self._rcvd_idx < self._send_idx:
                task = self._tasks.get(self._rcvd_idx)
                if task and (len(task) == 2 or self._workers_status[task[0]]):
                    break
                self._tasks.pop(self._rcvd_idx, None)
                self._rcvd_idx += 1
            else:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration

            if len(self._tasks[self._rcvd_idx]) == 2:
                worker_id, data = self._tasks.pop(self._rcvd_idx)
                self._rcvd_idx += 1
                return self._process_data(data, worker_id)

            worker_id, number, data = self._get_data()
            if isinstance(data, _IterableDatasetStopIteration):
                self._workers_status[worker_id] = False
                if not self._persistent_workers:
                    self._pool.retire(worker_id)
                self._try_put_index()
            elif number == self._rcvd_idx or not self._in_order:
                del self._tasks[number]
                self._rcvd_idx += number == self._rcvd_idx
                return self._process_data(data, worker_id)
            else:
                self._tasks[number] = (worker_id, data)

    def _try_put_index(self) -> None:
        try:
            index = self._next_index()
        except StopIteration:
            return
        limit = self._prefetch_factor * self._num_workers // max(1, sum(self._workers_status))
        for worker_id in itertools.islice(self._worker_cycle, self._num_workers):
            if self._workers_status[worker_id] and (
                self._in_order or self._workers_num_tasks[worker_id] < limit
            ):
                break
        else:
            return
        try:
            self._pool.send(worker_id, (self._send_idx, index))
        except WorkerDied as e:
            self._workers_status[e.worker_id] = False
            raise RuntimeError(str(e)) from None
        self._tasks[self._send_idx] = (worker_id,)
        self._workers_num_tasks[worker_id] += 1
        self._send_idx += 1

    def _process_data(self, data, worker_id):
        self._workers_num_tasks[worker_id] -= 1
        self._try_put_index()
        if isinstance(data, _utils.ExceptionWrapper):
            data.reraise()
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data

    def _shutdown_workers(self) -> None:
        if not self._shutdown:
            self._shutdown = True
            self._pool.shut_down()

    def __del__(self) -> None:
        # A half-made iterator has no `_shutdown` yet.
        if not getattr(self, "_shutdown", True):
            self._shutdown_workers()
