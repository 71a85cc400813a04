"""What PyTorch says of TorchScript when its functions are called: that it is deprecated, and what to use."""

from __future__ import annotations

import sys
import warnings

BOTH, EXPORT = "`torch.compile` or `torch.export`", "`torch.export`"


def warn_switch(name: str, to: str = BOTH) -> None:
    """Warns of a function that compiles, saves or loads: as of the module that calls this."""
    state = "is deprecated" if sys.version_info < (3, 14) else "is not supported in Python 3.14+ and may break"
    warnings.warn(f"`torch.jit.{name}` {state}. Please switch to {to}.", DeprecationWarning, stacklevel=3)


def warn_use(name: str) -> None:
    """Warns of a function that works on what is compiled."""
    warnings.warn(
        f"`torch.jit.{name}` is deprecated. Please use `torch.compile` instead.", DeprecationWarning, stacklevel=3
    )
