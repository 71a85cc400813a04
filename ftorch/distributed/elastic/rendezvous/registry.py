"""The handler that a backend's name means."""

from __future__ import annotations

from . import rendezvous_handler_registry

__all__ = ["get_rendezvous_handler"]


def get_rendezvous_handler(params):
    """The handler of some parameters. Raises ValueError for an unknown backend."""
    return rendezvous_handler_registry.create_handler(params)
