"""``torch.mps.event``: of no device."""

from .._toplevel.absent_device import classes

__all__ = ["Event"]

(Event,) = classes(__name__, ["Event"], "Cannot execute acquireEvent() without MPS backend.").values()
