"""``torch.cuda.gds``: files read by a GPU itself, which XLA does not do."""

from __future__ import annotations

import os

__all__ = ["GdsFile", "gds_deregister_buffer", "gds_register_buffer"]

_WHY = "GPUDirect Storage is not there: XLA owns the device's memory. Read the file with torch.load(mmap=True)."


def gds_register_buffer(s) -> None:
    """Raises RuntimeError: XLA owns the device's memory."""
    raise RuntimeError(_WHY)


def gds_deregister_buffer(s) -> None:
    """Raises RuntimeError: XLA owns the device's memory."""
    raise RuntimeError(_WHY)


class GdsFile:
    """A file that a GPU would read. Raises OSError as ``open`` does, RuntimeError where the file is there."""

    def __init__(self, filename: str, flags: int):
        os.close(os.open(filename, flags))
        raise RuntimeError(_WHY)
