"""``torch.cuda.amp.grad_scaler``."""

from . import GradScaler

__all__ = ["GradScaler"]
