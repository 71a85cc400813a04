"""The engine of quantized kernels (``torch.backends.quantized``): kept; XLA computes with integers itself."""

from __future__ import annotations

from . import make_flags as _make_flags

supported_engines = ["qnnpack", "onednn", "x86", "fbgemm"]

_make_flags(__name__, values={"engine": supported_engines}, freezes=False, engine="x86")
