"""`Mapper`: functions of samples."""

from __future__ import annotations

from collections.abc import Callable

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe
from ..utils.common import _check_unpickable_fn

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data):
    """The sample itself."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """Applies a function to each sample (method ``map``).

    >>> import ftorch as torch
    >>> torch.utils.data.datapipes.map.SequenceWrapper(["a", "bc"]).map(len)[1]
    2
    """

    datapipe: MapDataPipe
    fn: Callable

    def __init__(self, datapipe: MapDataPipe, fn: Callable = default_fn) -> None:
        super().__init__()
        self.datapipe = datapipe
        _check_unpickable_fn(fn)
        self.fn = fn

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])
