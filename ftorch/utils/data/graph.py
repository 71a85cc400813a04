"""Which datapipes a datapipe reads from (``torch.utils.data.graph``)."""

from __future__ import annotations

import pickle
import types
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np

from ._utils import engine
from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe | MapDataPipe
DataPipeGraph = dict[int, tuple[DataPipe, "DataPipeGraph"]]

_OPAQUE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.ndarray)


def _stub(*_):
    """Stands in pickles for what is not looked into."""


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data):
        return len(data)


class _Walker(pickle.Pickler):
    """Walks through what pickling an object would visit and notes the datapipes on the way.

    What cannot be pickled is a leaf: unlike PyTorch's, graphs of local classes can be looked at.
    """

    def __init__(self, start, only_datapipe, entered):
        super().__init__(_Nowhere())
        self.start, self.only_datapipe, self.entered = start, only_datapipe, entered
        self.found: list[DataPipe] = []

    def reducer_override(self, obj):
        if obj is _stub:
            return NotImplemented
        if isinstance(obj, _OPAQUE) or (engine.loaded() and isinstance(obj, engine.tensor_type())):
            return _stub, ()
        is_pipe = isinstance(obj, DataPipe)
        if is_pipe and obj is not self.start and id(obj) not in self.entered:
            self.found.append(obj)
            self.entered.add(id(obj))
            return _stub, ()
        try:
            reduced = obj.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
        except Exception:  # noqa: BLE001  (the object's own, of any kind)
            return _stub, ()
        if isinstance(reduced, str):
            return _stub, ()
        _, arguments, *rest = reduced
        if is_pipe and self.only_datapipe and rest:
            rest[0] = _containers(rest[0])
        return _stub, arguments, *rest


def _containers(state) -> Any:
    """Of a datapipe's state, the datapipes and collections."""

    def kept(value):
        return isinstance(value, (DataPipe, Collection))

    if isinstance(state, dict):
        return {key: value for key, value in state.items() if kept(value)}
    if isinstance(state, (tuple, list)):
        return [value for value in state if kept(value)]
    return state if kept(state) else None


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """The graph that ends in a datapipe: {id: (datapipe, graph of its sources)}
    (``torch.utils.data.graph.traverse_dps``).

    Sources are found in attributes that are datapipes or collections.

    Raises:
        RuntimeError: for anything but a datapipe.

    >>> import ftorch as torch
    >>> from ftorch.utils.data.graph import traverse_dps
    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(3)).batch(2)
    >>> (_, sources), = traverse_dps(pipe).values()
    >>> [str(source) for source, _ in sources.values()]
    ['IterableWrapperIterDataPipe']
    """
    return _traverse(datapipe, True, set())


def traverse(datapipe: DataPipe, only_datapipe: bool | None = None) -> DataPipeGraph:
    """The older `traverse_dps` (``torch.utils.data.graph.traverse``).

    Args:
        only_datapipe: False looks into all attributes.
    """
    text = (
        "`traverse` function is deprecated and will be removed after 1.13. "
        "Please use `traverse_dps` instead."
    )
    if not only_datapipe:
        text += " And, the behavior will be changed to the equivalent of `only_datapipe=True`."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return _traverse(datapipe, bool(only_datapipe), set())


def _traverse(datapipe, only_datapipe, path) -> DataPipeGraph:
    """`path` holds the ids of the datapipes that led here: one may appear on several paths."""
    if not isinstance(datapipe, DataPipe):
        raise RuntimeError(
            f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found"
        )
    if id(datapipe) in path:
        return {}
    path = path | {id(datapipe)}
    walker = _Walker(datapipe, only_datapipe, set(path))
    walker.dump(datapipe)
    sources: DataPipeGraph = {}
    for source in walker.found:
        sources.update(_traverse(source, only_datapipe, path))
    return {id(datapipe): (datapipe, sources)}
