"""A device of a process (``torch.distributed.remote_device``)."""

from __future__ import annotations

import ftorch as torch


class _remote_device:  # noqa: N801
    """A device of a worker: ``"trainer0/cpu"``, ``"rank:1/cuda:0"``, ``"cpu"`` or a device.

    Raises:
        ValueError: for other texts. TypeError: for what is neither text nor a device.

    >>> from ftorch.distributed.remote_device import _remote_device
    >>> device = _remote_device("rank:1/cpu")
    >>> device.rank(), device.device(), device.worker_name()
    (1, device(type='cpu'), None)
    """

    def __init__(self, remote_device):
        refused = ValueError(
            f"Could not parse remote_device: {remote_device}. The valid format is "
            "'<workername>/<device>' or 'rank:<rank>/<device>' or '<device>'"
        )
        self._worker_name: str | None = None
        self._rank: int | None = None
        if isinstance(remote_device, torch.device):
            self._device = remote_device
            return
        if not isinstance(remote_device, str):
            raise TypeError(f"Invalid type for remote_device: {type(remote_device)}")
        fields = remote_device.split("/")
        if len(fields) > 2:
            raise refused
        if len(fields) == 1:
            try:
                self._device = torch.device(fields[0])
                return
            except Exception:
                fields.append("cpu")
        worker, device = fields
        if not worker:
            raise refused
        self._device = torch.device(device)
        kind, _, number = worker.partition(":")
        if ":" not in worker:
            self._worker_name = worker
        elif kind == "rank" and number.isdigit():
            self._rank = int(number)
        else:
            raise refused

    def worker_name(self) -> str | None:
        """The worker's name, or None."""
        return self._worker_name

    def rank(self) -> int | None:
        """The worker's rank, or None."""
        return self._rank

    def device(self):
        """The device."""
        return self._device

    def __repr__(self):
        if self._worker_name is not None:
            return f"{self._worker_name}/{self._device}"
        return str(self._device) if self._rank is None else f"rank:{self._rank}/{self._device}"

    def _key(self):
        return self._worker_name, self._rank, self._device

    def __eq__(self, other):
        return isinstance(other, _remote_device) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())
