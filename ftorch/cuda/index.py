"""The index of a GPU, however it is given."""

from __future__ import annotations

from ..eager.core import device as _device


def device_index(device) -> int:
    """The index of a GPU given as None (this thread's), int, text or device.

    Raises:
        AssertionError: without a GPU, whatever was given. ValueError: for other device types. RuntimeError: if
            there is no such GPU.
    """
    if not _device.jax_devices("cuda"):
        raise AssertionError("Torch not compiled with CUDA enabled")
    where = _device.canonical(gpu(device))
    _device.to_jax(where)
    return where.index or 0


def gpu(device) -> _device.device:
    """The GPU that None, int, text or a device names, which need not exist, as a device.

    Raises:
        ValueError: for other device types.
    """
    where = _device.device("cuda", device) if isinstance(device, int) else device
    where = _device.device("cuda" if where is None else where)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    return where
