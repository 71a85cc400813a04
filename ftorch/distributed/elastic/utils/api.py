"""Environment, ports and placeholders."""

from __future__ import annotations

import os
import socket
from string import Template

from ... import _wire

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name: str) -> str:
    """A variable of the environment. Raises ValueError if it is not set."""
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port() -> socket.socket:
    """A socket that listens at a free port of this machine."""
    return _wire.listen("localhost", 0, 0)


class macros:  # noqa: N801
    """Placeholders in workers' arguments.

    >>> macros.substitute(["--rank", macros.local_rank], "3")
    ['--rank', '3']
    """

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list, local_rank: str) -> list:
        """The arguments with the placeholders replaced."""
        return [Template(a).safe_substitute(local_rank=local_rank) if isinstance(a, str) else a for a in args]
