"""Exceptions of workers, raised again where their work was asked for. This module does not import the tensor engine."""

from __future__ import annotations

import sys
import traceback


class KeyErrorMessage(str):
    """Text that a `KeyError` shows as it is, not as a literal."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception's type and formatted traceback, to be raised again in another process.

    Args:
        where: completes "Caught ValueError ...", as in "in DataLoader worker process 0".
    """

    def __init__(self, exc_info=None, where="in background"):
        exc_info = exc_info or sys.exc_info()
        # Not exc_info itself: its traceback holds frames, and is not picklable.
        self.exc_type = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def reraise(self):
        """Raises an exception of the same type, or a RuntimeError where that needs arguments."""
        msg = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(msg))
        try:
            if getattr(self.exc_type, "message", None):
                exception = self.exc_type(message=msg)  # type: ignore[call-arg]
            else:
                exception = self.exc_type(msg)
        except Exception:  # noqa: BLE001  (the class may want anything)
            raise RuntimeError(msg) from None
        raise exception
