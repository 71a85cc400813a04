"""What runs in a worker process."""

from __future__ import annotations

import os
import random
import socket
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import ftorch as torch
from ftorch._utils import ExceptionWrapper

from ..graph_settings import set_seeds
from . import collate, engine, imports, transport
from .fetch import _DatasetKind


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What `get_worker_info` tells.

    Attributes:
        id: 0 up to ``num_workers`` - 1.
        num_workers: how many workers the `DataLoader` has.
        seed: what the worker's random generators were seeded with.
        dataset: this worker's copy of the dataset.
        rng, worker_method: PyTorch's fields for workers that are threads.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The `WorkerInfo` of this worker process, or None elsewhere.

    >>> import ftorch as torch
    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return _worker_info


@dataclass(frozen=True)
class Job:
    """What all workers of an iterator have in common."""

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    init_fn: Any
    num_workers: int


@dataclass(frozen=True)
class Surroundings:
    """What a worker takes over from the main process before it unpickles its job."""

    worker_id: int
    environment: dict[str, str]
    directory: str
    path: list[str]
    _ftorch_arguments: list[str]

    @classmethod
    def of_this_process(cls, worker_id):
        return cls(worker_id, dict(os.environ), os.getcwd(), list(sys.path), list(sys.argv))

    def take_over(self, keep):
        """Applies them, except for the environment variables in ``keep``."""
        kept = {name: os.environ[name] for name in keep if name in os.environ}
        os.environ.clear()
        os.environ.update(self.environment | kept)
        os.chdir(self.directory)
        sys.path[:] = self.path
        sys.argv[:] = self._ftorch_arguments


class ManagerWatchdog:
    """Tells a worker whether the process that started it is alive.

    >>> from ftorch.utils.data._utils.worker import ManagerWatchdog
    >>> ManagerWatchdog().is_alive()
    True
    """

    def __init__(self) -> None:
        self.manager_pid = os.getppid()
        self.manager_dead = False

    def is_alive(self) -> bool:
        """Whether it is the parent still."""
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """Instead of a batch: this worker's copy of the stream has ended."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """A request to start over with a new epoch, and the answer to it.

    Attributes:
        pipe_seeds: the new seeds of a datapipe.
    """

    pipe_seeds: list[int] | None = None


# Set when the server is started: a worker computes on one CPU thread, as PyTorch's do.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def serve(sock: socket.socket, worker_id: int | None = None, job: Job | None = None) -> None:
    """Fetches batches until the main process is gone.

    Args:
        worker_id, job: of a worker that was forked from the main process. Others get them over the socket.
    """
    try:
        if worker_id is None:
            surroundings = transport.receive(sock)
            surroundings.take_over(ENVIRONMENT)
            worker_id = surroundings.worker_id
        transport.inherited[0] = job is not None
        worker, files = None, transport.Files()
        try:
            worker = _Worker(worker_id, transport.receive(sock, private=True) if job is None else job)
        except Exception:  # noqa: BLE001
            failure = _failure(worker_id)
        while True:
            task, unused = transport.receive(sock)
            files.give_back(unused)
            if worker is not None:
                key, result = worker.answer(task)
            else:
                key, result = task if isinstance(task, _ResumeIteration) else task[0], failure
            # Those from the server tell it what others are going to need.
            _reply(sock, worker_id, key, result, files, imports.new() if job is None else [])
            del task, result  # they may be large
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass


class _Worker:
    def __init__(self, worker_id, job: Job):
        self.id, self.job = worker_id, job
        seed = job.base_seed + worker_id
        engine.when_loaded(lambda: torch.set_num_threads(1))
        _seed_generators(seed, job.base_seed, worker_id)
        global _worker_info
        _worker_info = WorkerInfo(worker_id, job.num_workers, seed, job.dataset)
        self.collate_fn = _array_collation(job.collate_fn)
        self.ended = False
        self.failure = None
        try:
            if job.init_fn is not None:
                job.init_fn(worker_id)
            self.start_epoch()
        except Exception:  # noqa: BLE001
            self.failure = _failure(worker_id)

    def start_epoch(self):
        job = self.job
        self.fetcher = _DatasetKind.create_fetcher(
            job.dataset_kind, job.dataset, job.auto_collation, self.collate_fn, job.drop_last
        )
        self.ended = False

    def answer(self, task):
        """The key of a task and its result, or what stands for it."""
        if isinstance(task, _ResumeIteration):
            try:
                if task.pipe_seeds is not None:
                    set_seeds(self.job.dataset, task.pipe_seeds)
                self.start_epoch()
            except Exception:  # noqa: BLE001
                self.failure = _failure(self.id)
            return task, None
        key, index = task
        if self.failure is not None:
            failure, self.failure = self.failure, None
            return key, failure
        try:
            if self.ended:
                raise StopIteration
            return key, self.fetcher.fetch(index)
        except StopIteration:
            if self.job.dataset_kind != _DatasetKind.Iterable:
                return key, _failure(self.id)
            self.ended = True
            return key, _IterableDatasetStopIteration(self.id)
        except Exception:  # noqa: BLE001
            return key, _failure(self.id)


def _reply(sock, worker_id, key, result, files, imported):
    """Sends a result, or why it cannot be sent."""
    try:
        message = transport.Message((worker_id, key, result, imported), files)
    except Exception:  # noqa: BLE001
        message = transport.Message((worker_id, key, _failure(worker_id), imported))
    with message:
        transport.send_message(sock, message)


def _failure(worker_id):
    wrapper = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
    try:
        transport.Message(wrapper).__exit__()
    except Exception:  # noqa: BLE001  (the exception's class cannot be sent)
        wrapper.exc_type = RuntimeError
    return wrapper


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """NumPy's seeds of a worker: four words, by NumPy's own seed sequence."""
    low, high = base_seed & 0xFFFFFFFF, base_seed >> 32
    return np.random.SeedSequence([worker_id, low, high, 0]).generate_state(4).tolist()


def _seed_generators(seed, base_seed, worker_id):
    random.seed(seed)
    np.random.seed(_generate_state(base_seed, worker_id))
    engine.when_loaded(lambda: torch.manual_seed(seed))


def _array_collation(collate_fn):
    """The default functions without tensors, while there are none: only the user's code may look
    at what they make before it arrives in the main process."""
    if engine.loaded():
        return collate_fn
    if collate_fn is collate.default_collate:
        return collate.collate_to_arrays
    return collate.convert_to_arrays if collate_fn is collate.default_convert else collate_fn
