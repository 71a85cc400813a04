"""The index of a GPU as libraries ask for it (``torch.cuda._utils``); kernels compiled by NVRTC are not XLA's."""

from __future__ import annotations

from .._utils import _get_device_index as _any_device_index
from ..eager.core import device as _device

__all__: list[str] = []


def _get_device_index(device, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a GPU that is given as a number, a text, a device or a context of one; -1 for a CPU that is allowed.

    Args:
        optional: whether None and a device without a number are the current one.

    Raises:
        ValueError: for other devices, and where the number is missing.
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = _device.device(device)
    if isinstance(device, _device.device):
        if allow_cpu and device.type not in ("cuda", "cpu"):
            raise ValueError(f"Expected a cuda or cpu device, but got: {device}")
        if not allow_cpu and device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
    elif hasattr(device, "idx"):  # of `torch.cuda.device`
        return device.idx
    return _any_device_index(device, optional, allow_cpu=True)
