"""A program, its output and its end."""

from __future__ import annotations

import os
import signal
import sys
from subprocess import Popen

from .....numa.binding import _maybe_wrap_command_args_with_numa_binding

__all__ = ["SubprocessHandler"]


class SubprocessHandler:
    """A program that runs in a session of its own.

    Args:
        env: added to the environment of this process.
        stdout, stderr: files for its output; empty for this process' own.
    """

    def __init__(self, entrypoint: str, args: tuple, env: dict[str, str], stdout: str | None, stderr: str | None,
                 local_rank_id: int, numa_options=None):
        self._stdout, self._stderr = (open(path, "w") if path else None for path in (stdout, stderr))
        self.local_rank_id = local_rank_id
        command = _maybe_wrap_command_args_with_numa_binding(
            (entrypoint, *map(str, args)), gpu_index=local_rank_id, numa_options=numa_options
        )
        self.proc = self._popen(command, os.environ | env)
        for file in (self._stdout, self._stderr):  # the program has its own descriptors
            if file is not None:
                file.close()

    def _popen(self, args: tuple, env: dict[str, str]) -> Popen:
        return Popen(args, env=env, stdout=self._stdout, stderr=self._stderr, start_new_session=sys.platform != "win32")

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Sends the signal to the program and all that it started. What is stopped goes on, to act on the signal."""
        if sys.platform == "win32":
            self.proc.send_signal(death_sig or signal.SIGTERM)
        else:
            os.killpg(self.proc.pid, death_sig or signal.SIGTERM)
            os.killpg(self.proc.pid, signal.SIGCONT)
