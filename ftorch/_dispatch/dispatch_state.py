"""The thread's stack of dispatch modes, and the contexts within which nobody is asked."""

from __future__ import annotations

import threading
from typing import Any

from ..eager.native.contexts import repeatable


class _State(threading.local):
    """The thread's stack of modes, and whether any of this is switched off."""

    def __init__(self):
        self.stack: list = []
        self.off = False
        self.declared = False
        self.functional: Any = None  # by what functionalization is enabled


state = _State()


class _Off:
    """Within, an attribute of the state is set."""

    name = "off"

    def __enter__(self):
        self._outer = getattr(state, self.name)
        setattr(state, self.name, True)
        return self

    @repeatable
    def __exit__(self, *_):
        setattr(state, self.name, self._outer)


class DisableTorchDispatch(_Off):
    """Within, neither modes nor subclasses see calls."""


class DeclaredKernels(_Off):
    """Within, declared ops run the engine's kernels."""

    name = "declared"
