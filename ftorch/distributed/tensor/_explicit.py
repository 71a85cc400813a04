"""Redistributions that nobody has asked for, refused or reported: `ExplicitRedistributionContext`."""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger(__name__)


class ExplicitRedistributionContext:
    """Within, a call of `DTensor`s that would move one to other placements raises (``torch.distributed.tensor._utils``).
    What `DTensor.redistribute` moves is not meant, nor are the sums of a gradient's terms.

    Args:
        enable: False takes an outer one back.
        strict: whether moves are meant, too, that exchange nothing, such as taking a part of a whole.
        mode: ``"raise"`` or ``"warn"``, which logs.

    Raises:
        RuntimeError: for another mode.

    >>> from ftorch.distributed.tensor._utils import ExplicitRedistributionContext
    >>> with ExplicitRedistributionContext(strict=True) as watched:
    ...     pass
    """

    _local = threading.local()

    def __init__(self, enable: bool = True, strict: bool = False, mode: str = "raise"):
        if mode not in ("raise", "warn"):
            raise RuntimeError(f"Invalid mode {mode}")
        self._enable, self._strict, self._raise_on_redistribution = enable, strict, mode == "raise"
        self._before: list = []

    def __enter__(self):
        self._before.append(getattr(self._local, "active", None))
        self._local.active = self
        return self

    def __exit__(self, *_):
        self._local.active = self._before.pop()


def observe(name: str, now, to, mesh) -> None:
    """Says to the context around, if there is one, that a call moves a tensor between placements.

    Raises:
        RuntimeError: if the context refuses that.
    """
    active = getattr(ExplicitRedistributionContext._local, "active", None)
    if active is None or not active._enable:
        return
    from ._choices import placement_cost

    if list(now) == list(to) or not (active._strict or placement_cost(list(now), list(to), tuple(mesh.shape), 1) > 0):
        return
    message = f"Implicit redistribution occurred for {name} while ExplicitRedistributionContext was active"
    if active._raise_on_redistribution:
        raise RuntimeError(message)
    logger.warning(message)
