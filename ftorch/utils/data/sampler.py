"""Samplers: the order in which a dataset is read, and how it is cut into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import ftorch as torch

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)

_DRAWS = 32  # how many indices sampling with replacement draws at a time; part of the stream


class Sampler(Generic[_T_co]):
    """An order of keys, or of lists of keys (``torch.utils.data.Sampler``).

    Subclasses define ``__iter__``, and ``__len__`` where the `DataLoader`'s length is wanted.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... up to the length of ``data_source``."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Random indices below the length of ``data_source`` (``torch.utils.data.RandomSampler``).

    Args:
        replacement: draw every index anew instead of going through permutations.
        num_samples: how many to draw; the length of ``data_source`` by default.
        generator: where to draw from. By default each iteration seeds one of its own from the
            default generator.

    Raises:
        TypeError: if ``replacement`` is no bool.
        ValueError: if ``num_samples`` is no positive int.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> sorted(torch.utils.data.RandomSampler(range(5)))
    [0, 1, 2, 3, 4]
    """

    def __init__(self, data_source: Sized, replacement: bool = False,
                 num_samples: int | None = None, generator: Any = None) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={self.replacement}"
            )
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, "
                f"but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one iteration yields."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = torch.Generator()
            generator.manual_seed(draw_seed(None))
        whole, rest = divmod(self.num_samples, _DRAWS if self.replacement else n)
        if self.replacement:
            for size in itertools.chain(itertools.repeat(_DRAWS, whole), (rest,)):
                yield from torch.randint(
                    high=n, size=(size,), dtype=torch.int64, generator=generator
                ).tolist()
        else:
            for _ in range(whole):
                yield from torch.randperm(n, generator=generator).tolist()
            # PyTorch draws this permutation even where none of it is wanted: with a generator of
            # the user's, what comes after would differ otherwise.
            yield from torch.randperm(n, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A random permutation of ``indices`` (``torch.utils.data.SubsetRandomSampler``)."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in torch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities (``torch.utils.data.WeightedRandomSampler``).

    Args:
        weights: one number for each index; they need not sum to 1.
        num_samples: how many to draw.
        replacement: whether an index may come more than once.

    Raises:
        ValueError: for bad ``num_samples`` or ``replacement``, or if ``weights`` is not 1-d.
    """

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True,
                 generator: Any = None) -> None:
        _check_positive_int("num_samples", num_samples)
        _check_bool("replacement", replacement)
        weights_tensor = torch.as_tensor(weights, dtype=torch.double)
        if len(weights_tensor.shape) != 1:
            raise ValueError(
                "weights should be a 1d sequence but given "
                f"weights have shape {tuple(weights_tensor.shape)}"
            )
        self.weights = weights_tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from torch.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        ).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Cuts another sampler's indices into lists (``torch.utils.data.BatchSampler``).

    Args:
        sampler: any iterable.
        drop_last: leave out a last list shorter than ``batch_size``.

    Raises:
        ValueError: if ``batch_size`` is no positive int or ``drop_last`` no bool.

    >>> import ftorch as torch
    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int,
                 drop_last: bool) -> None:
        _check_positive_int("batch_size", batch_size)
        _check_bool("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def draw_seed(generator) -> int:
    """A non-negative int64 from ``generator``, the default one if None, as PyTorch draws seeds."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def _check_positive_int(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _check_bool(name, value):
    if not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004  (PyTorch's)
            f"{name} should be a boolean value, but got {name}={value}"
        )
