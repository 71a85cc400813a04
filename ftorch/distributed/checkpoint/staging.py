"""Copies from which an asynchronous save writes (``torch.distributed.checkpoint.staging``)."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import ftorch as torch

from ..tensor import DTensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """What makes the copies."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `synchronize_staging` is called when the save has begun."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict):
        """The copy of a state dict, or a future of it."""
        raise NotImplementedError(f"{self.__class__.__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Waits for the copy."""

    def close(self) -> None:
        """Ends what the copies were made with."""


@dataclass
class StagingOptions:
    """How `DefaultStager` copies. Memory is neither pinned nor shared here."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


def _copy(value, into=None):
    """A copy of a state dict's values, into an older copy's tensors where they fit."""
    if isinstance(value, dict):
        old = into if isinstance(into, dict) else {}
        return {k: _copy(v, old.get(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        old = into if isinstance(into, (list, tuple)) and len(into) == len(value) else [None] * len(value)
        return type(value)(_copy(v, o) for v, o in zip(value, old))
    if isinstance(value, DTensor):
        old = into._local_tensor if isinstance(into, DTensor) else None
        local = _copy(value._local_tensor, old)
        return DTensor._made(local, value.device_mesh, value.placements, tuple(value.shape))
    if not isinstance(value, torch.Tensor):
        return value
    with torch.no_grad():
        fits = type(into) is torch.Tensor and into.shape == value.shape and into.dtype == value.dtype
        return into.copy_(value.detach()) if fits else value.detach().cpu().clone()  # pyright: ignore


class DefaultStager(AsyncStager):
    """Copies in a thread, or at once with ``use_async_staging=False``."""

    def __init__(self, config: StagingOptions | None = None):
        self._config = config or StagingOptions()
        self._executor = ThreadPoolExecutor(1) if self._config.use_async_staging else None
        self._staging_future: Future | None = None

    def stage(self, state_dict, **_):
        """The copy, or a future of it."""
        if self._executor is None:
            return _copy(state_dict)
        self._staging_future = self._executor.submit(_copy, state_dict)
        return self._staging_future

    def synchronize_staging(self) -> None:
        """Waits for the copy."""
        if self._staging_future is not None:
            self._staging_future.result()

    def close(self) -> None:
        """Ends the thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)


class BlockingAsyncStager(AsyncStager):
    """Copies at once.

    Args:
        cache_staged_state_dict: whether the next copy is made into the same memory.
    """

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False):
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
        self.state_dict_cache: dict | None = None

    def stage(self, state_dict):
        """The copy."""
        made = _copy(state_dict, self.state_dict_cache if self.cache_staged_state_dict else None)
        if self.cache_staged_state_dict:
            self.state_dict_cache = made
        return made
