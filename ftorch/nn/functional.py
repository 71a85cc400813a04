"""``torch.nn.functional``: the functions of modules.

They are declared with their kernels in ``ftorch/eager/ops`` and ``ftorch/eager/composites`` and
found here on first use.
"""

from __future__ import annotations

from ..eager.api import nn as _nn


def __getattr__(name):
    value = getattr(_nn.functional, name, None)
    if value is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *dir(_nn.functional)})
