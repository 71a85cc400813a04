"""Datasets: samples found by key or streamed, and ways to combine and split them.

Nothing here imports the tensor engine: a worker process whose dataset only yields NumPy arrays
starts without it (see `ftorch.utils.data._utils.server`).
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import ftorch as torch

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


def __getattr__(name):
    """What PyTorch's module imports; workers whose items are arrays of NumPy's do not load the engine for it."""
    if name in ("Generator", "randperm"):
        return getattr(torch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A map from keys to samples (``torch.utils.data.Dataset``).

    Subclasses define ``__getitem__``, usually ``__len__``, and may define ``__getitems__``, which
    takes the list of a batch's keys and returns the list of its samples.

    >>> import ftorch as torch
    >>> class Squares(torch.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index * index
    >>> list(torch.utils.data.DataLoader(Squares(), batch_size=4))
    [tensor([0, 1, 4, 9])]
    """

    def __getitem__(self, index) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """A stream of samples (``torch.utils.data.IterableDataset``); subclasses define ``__iter__``.

    With worker processes every worker iterates over a copy of its own: `get_worker_info` tells a
    copy which share of the stream to yield.
    """

    def __add__(self, other: Dataset[_T_co]):
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """The rows of one or more tensors (``torch.utils.data.TensorDataset``).

    Raises:
        AssertionError: if the tensors differ in the size of dimension 0.

    >>> import ftorch as torch
    >>> torch.utils.data.TensorDataset(torch.arange(3), torch.arange(3) * 10)[1]
    (tensor(1), tensor(10))
    """

    def __init__(self, *tensors) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Datasets of one length side by side (``torch.utils.data.StackDataset``).

    Samples are tuples of the positional datasets' samples, or dicts of the keyword datasets'.

    Raises:
        ValueError: if both kinds or none are given, or if lengths differ.
    """

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        members = self._ftorch_members()
        self._length = len(members[0])
        if any(self._length != len(dataset) for dataset in members):
            raise ValueError("Size mismatch between datasets")

    def _ftorch_members(self):
        return tuple(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _ftorch_join(self, parts):
        return (
            dict(zip(self.datasets, parts, strict=True))
            if isinstance(self.datasets, dict)
            else tuple(parts)
        )

    def __getitem__(self, index):
        return self._ftorch_join([dataset[index] for dataset in self._ftorch_members()])

    def __getitems__(self, indices: list):
        columns = []
        for dataset in self._ftorch_members():
            items = _get_items(dataset, indices)
            if len(items) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch."
                    f" Expected {len(indices)}, got {len(items)}"
                )
            columns.append(items)
        return [self._ftorch_join(parts) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after the other (``torch.utils.data.ConcatDataset``).

    Raises:
        AssertionError: if there are none, or one of them is an `IterableDataset`.
    """

    @staticmethod
    def cumsum(sequence):
        """The running total of the lengths."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        member = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[member - 1] if member else 0
        return self.datasets[member][idx - start]

    @property
    def cummulative_sizes(self):
        """The misspelt former name of ``cumulative_sizes``."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Streams one after the other (``torch.utils.data.ChainDataset``).

    Raises:
        AssertionError: on iteration, if a member is not an `IterableDataset`.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def _ftorch_checked(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(  # noqa: TRY004  (PyTorch's)
                    "ChainDataset only supports IterableDataset"
                )
            yield dataset

    def __iter__(self):
        for dataset in self._ftorch_checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._ftorch_checked())  # type: ignore[arg-type]


class Subset(Dataset[_T_co]):
    """The samples of a dataset at some keys (``torch.utils.data.Subset``).

    Raises:
        NotImplementedError: in a subclass that overrides ``__getitem__`` but not ``__getitems__``.
    """

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        if _overridden(self, Subset, "__getitem__") and not _overridden(
            self, Subset, "__getitems__"
        ):
            raise NotImplementedError(
                f"{type(self).__name__} overrides __getitem__ but not __getitems__. "
                "When subclassing Subset and overriding __getitem__, you must also override "
                "__getitems__ to ensure DataLoader works correctly with your custom logic. "
                "A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        return _get_items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset, lengths: Sequence[int | float], generator: Any = None
) -> list[Subset]:
    """Splits a dataset into random parts (``torch.utils.data.random_split``).

    Args:
        lengths: how many samples each part gets, or fractions that sum to 1; what rounding leaves
            over goes to the parts in turn.
        generator: draws the permutation; the default generator by default.

    Raises:
        ValueError: if the lengths do not sum to the dataset's, or for a fraction outside [0, 1].

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> [len(part) for part in torch.utils.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _split_sizes(len(dataset), lengths)  # type: ignore[arg-type]
    if sum(lengths) != len(dataset):  # type: ignore[arg-type]
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = torch.randperm(sum(lengths), generator=generator).tolist()  # type: ignore[arg-type]
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[e - n : e]) for e, n in zip(ends, lengths, strict=True)]  # type: ignore[misc]


def _split_sizes(total, fractions):
    sizes = []
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes.append(math.floor(total * fraction))
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return sizes


# --- whole batches ---------------------------------------------------------------------


def _get_items(dataset, indices):
    """The samples of a batch, by ``__getitems__`` where the dataset has it."""
    get_items = getattr(dataset, "__getitems__", None)
    if callable(get_items):
        return get_items(indices)
    from ._utils import engine  # it imports this module

    return engine.one_by_one(dataset.__getitem__, indices)


def _overridden(dataset, cls, *names):
    return any(getattr(type(dataset), name, None) is not getattr(cls, name, None) for name in names)


def batch_getter(dataset) -> Callable | None:
    """A function from a batch's keys to what `default_collate` would make of the samples, or None.

    Rows of a tensor are gathered by one index operation instead of being taken one by one and
    stacked again. Only datasets whose samples are the documented ones qualify: a subclass with its
    own ``__getitem__`` does not.
    """
    kind = next((c for c in (TensorDataset, Subset, StackDataset) if isinstance(dataset, c)), None)
    if kind is None or _overridden(dataset, kind, "__getitem__", "__getitems__"):
        return None
    if isinstance(dataset, TensorDataset):
        from ._utils.tensors import gather_rows

        return lambda indices: [gather_rows(tensor, indices) for tensor in dataset.tensors]
    if isinstance(dataset, Subset):
        inner = batch_getter(dataset.dataset)
        return inner and (lambda indices: inner([dataset.indices[i] for i in indices]))
    getters = [batch_getter(member) for member in dataset._ftorch_members()]
    if not all(getters):
        return None
    if isinstance(dataset.datasets, dict):
        keys = tuple(dataset.datasets)
        return lambda indices: dict(zip(keys, (get(indices) for get in getters), strict=True))
    return lambda indices: [get(indices) for get in getters]
