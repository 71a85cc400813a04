"""The reductions that masked tensors have."""

from __future__ import annotations

from ._packets import packets

REDUCE_NAMES = "sum mean amin amax argmin argmax prod all norm var std".split()
__getattr__ = packets(globals(), NATIVE_REDUCE_FNS=REDUCE_NAMES)
