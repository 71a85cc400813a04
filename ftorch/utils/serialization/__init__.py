"""Settings of ``torch.save`` and ``torch.load`` (``torch.utils.serialization``)."""

from . import config

__all__ = ["config"]
