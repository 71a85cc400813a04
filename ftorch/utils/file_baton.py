"""A lock between processes that is a file (``torch.utils.file_baton``)."""

from __future__ import annotations

import os
import time
import warnings

__all__ = ["FileBaton"]


class FileBaton:
    """Who creates the file at ``lock_file_path`` holds the baton; others wait until it is gone.

    Args:
        wait_seconds: between two looks.
        warn_after_seconds: of waiting, or never.
    """

    def __init__(self, lock_file_path, wait_seconds=0.1, warn_after_seconds=None):
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd = None

    def try_acquire(self) -> bool:
        """Takes the baton, if nobody has it; says whether."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Returns when the file is gone."""
        began, warned = time.monotonic(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            waited = time.monotonic() - began
            if not warned and self.warn_after_seconds is not None and waited > self.warn_after_seconds:
                warnings.warn(
                    f"Waited on lock file {self.lock_file_path!r} for {waited:.0f} seconds.", stacklevel=2
                )
                warned = True

    def release(self) -> None:
        """Gives the baton back."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
