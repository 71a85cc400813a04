"""Whether the tensor engine is loaded in this process.

It always is, except in a worker process that has not needed it yet: there ``ftorch`` is a
placeholder (see `server.py`), which loads the package when anything but ``ftorch.utils.data`` is
asked of it.
"""

from __future__ import annotations

import sys


def loaded() -> bool:
    """Whether tensors can exist in this process."""
    return not hasattr(type(sys.modules["ftorch"]), "load")


def when_loaded(hook):
    """Calls ``hook`` once the engine is loaded: now, or as soon as something needs it."""
    package = sys.modules["ftorch"]
    if hasattr(type(package), "load"):
        package.hooks.append(hook)
    else:
        hook()
    return hook


def tensor_type() -> type:
    """``torch.Tensor``, importable while the package is still being imported."""
    from ftorch.eager.tensor import Tensor

    return Tensor
