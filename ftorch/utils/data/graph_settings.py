"""Shuffling, seeds and sharding of all datapipes of a graph
(``torch.utils.data.graph_settings``)."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable

from .datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from .graph import DataPipe, DataPipeGraph, traverse_dps
from .sampler import draw_seed

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[DataPipe]:
    """The datapipes of a graph, each once, the last one first."""
    return list(_pipes(graph, set()))


def _pipes(graph, seen) -> Iterable[DataPipe]:
    for key, (datapipe, sources) in graph.items():
        if key not in seen:
            seen.add(key)
            yield datapipe
            yield from _pipes(sources, seen)


def _having(datapipe, *methods) -> list:
    """The datapipes of a graph that have all these methods."""
    return [
        pipe
        for pipe in get_all_graph_pipes(traverse_dps(datapipe))
        if all(inspect.ismethod(getattr(pipe, method, None)) for method in methods)
    ]


def apply_sharding(
    datapipe: DataPipe,
    num_of_instances: int,
    instance_id: int,
    sharding_group=SHARDING_PRIORITIES.DEFAULT,
) -> DataPipe:
    """Has every datapipe with an ``apply_sharding`` method, such as `sharding_filter`, keep one
    share of its samples (``torch.utils.data.graph_settings.apply_sharding``).

    Raises:
        RuntimeError: if a branch would be sharded twice.

    >>> import ftorch as torch
    >>> from ftorch.utils.data.graph_settings import apply_sharding
    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).sharding_filter()
    >>> list(apply_sharding(pipe, 2, 1))
    [1, 3]
    """

    def apply(graph, applied_to):
        for pipe, sources in graph.values():
            shards = isinstance(pipe, _ShardingIterDataPipe) or inspect.ismethod(
                getattr(pipe, "apply_sharding", None)
            )
            if not shards:
                apply(sources, applied_to)
                continue
            if applied_to is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data "
                    f"loss. Sharding already applied to {applied_to} while trying to apply to "
                    f"{pipe}"
                )
            group = {}
            if len(inspect.signature(pipe.apply_sharding).parameters) >= 3:
                group = {"sharding_group": sharding_group}
            pipe.apply_sharding(num_of_instances, instance_id, **group)
            apply(sources, pipe)

    apply(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: DataPipe, shuffle: bool | None = None) -> DataPipe:
    """Switches all shufflers of a graph on or off; None leaves them
    (``torch.utils.data.graph_settings.apply_shuffle_settings``).

    If there is none to switch on, one is added at the end, with a warning.
    """
    if shuffle is None:
        return datapipe
    shufflers = _having(datapipe, "set_shuffle", "set_seed")
    if not shufflers and shuffle:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at "
            "the end. Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: DataPipe, rng) -> DataPipe:
    """The older name of `apply_random_seed`."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. "
        "Please use `apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: DataPipe, rng) -> DataPipe:
    """Sets the seeds of all datapipes with a ``set_seed`` method from a generator
    (``torch.utils.data.graph_settings.apply_random_seed``).

    >>> import ftorch as torch
    >>> from ftorch.utils.data.graph_settings import apply_random_seed
    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).shuffle()
    >>> rng = torch.Generator().manual_seed(0)
    >>> list(apply_random_seed(pipe, rng)) == list(apply_random_seed(pipe, rng.manual_seed(0)))
    True
    """
    seed_pipes(datapipe, rng)
    return datapipe


def seed_pipes(datapipe: DataPipe, rng) -> list[int]:
    """Like `apply_random_seed`; returns the seeds, for `set_seeds` on a copy of the graph."""
    seeds = []
    for pipe in _having(datapipe, "set_seed"):
        seeds.append(draw_seed(rng))
        pipe.set_seed(seeds[-1])
    return seeds


def set_seeds(datapipe: DataPipe, seeds: list[int]) -> None:
    """Gives the random datapipes of a graph the seeds that `seed_pipes` gave its original."""
    for pipe, seed in zip(_having(datapipe, "set_seed"), seeds, strict=True):
        pipe.set_seed(seed)
