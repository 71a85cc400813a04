"""The index of a GPU, however it is given."""

from __future__ import annotations

from ..eager.core import device as _device


def device_index(device) -> int:
    """The index of a GPU given as None (this thread's), int, text or device.

    Raises:
        AssertionError: without a GPU. ValueError: for other device types. RuntimeError: if there is
            no such GPU.
    """
    where = _device.device("cuda", device) if isinstance(device, int) else device
    where = _device.device("cuda" if where is None else where)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    where = _device.canonical(where)
    _device.to_jax(where)
    return where.index or 0
