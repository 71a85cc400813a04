"""``torch.xpu.streams``: of no device."""

from .._toplevel.absent_device import classes

__all__ = ["Event", "Stream"]

Event, Stream = classes(__name__, __all__).values()
