"""``torch.nn.attention.experimental``: attention over pages."""

from __future__ import annotations
