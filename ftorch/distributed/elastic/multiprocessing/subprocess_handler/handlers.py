"""How a worker that is a program is started."""

from __future__ import annotations

from .subprocess_handler import SubprocessHandler

__all__ = ["get_subprocess_handler"]


def get_subprocess_handler(entrypoint: str, args: tuple, env: dict[str, str], stdout: str | None, stderr: str | None,
                           local_rank_id: int, numa_options=None) -> SubprocessHandler:
    """Starts a program."""
    return SubprocessHandler(entrypoint, args, env, stdout, stderr, local_rank_id, numa_options)
