"""What a process does, as Linux says."""

from __future__ import annotations

__all__ = ["is_uninterruptible_state", "read_proc_state"]


def read_proc_state(pid: int) -> str | None:
    """The letter of a process' state (``R`` runs, ``S`` sleeps, ``D`` waits for a device); None if there is none.

    >>> import os
    >>> read_proc_state(os.getpid()) in ("R", "S", None)
    True
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            behind = file.read().rpartition(")")[2].split()  # a program's name may have spaces
    except OSError:
        return None
    return behind[0] if behind else None


def is_uninterruptible_state(state: str | None) -> bool:
    """Whether a process in this state takes no signal."""
    return state is not None and state.startswith("D")
