"""The handler that a backend's name means."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points

from .api import RendezvousHandler, RendezvousParameters, rendezvous_handler_registry
from .dynamic_rendezvous import create_handler

__all__ = ["get_rendezvous_handler"]

logger = logging.getLogger(__name__)


def _create_static_handler(params: RendezvousParameters) -> RendezvousHandler:
    from .static_tcp_rendezvous import create_rdzv_handler

    return create_rdzv_handler(params)


def _create_c10d_handler(params: RendezvousParameters) -> RendezvousHandler:
    from .c10d_rendezvous_backend import create_backend

    backend, store = create_backend(params)
    return create_handler(store, backend, params)


def _create_etcd_handler(params: RendezvousParameters) -> RendezvousHandler:
    from .etcd_rendezvous import create_rdzv_handler

    return create_rdzv_handler(params)


def _create_etcd_v2_handler(params: RendezvousParameters) -> RendezvousHandler:
    from .etcd_rendezvous_backend import create_backend

    backend, store = create_backend(params)
    return create_handler(store, backend, params)


def _register_default_handlers() -> None:
    rendezvous_handler_registry.register("etcd", _create_etcd_handler)
    rendezvous_handler_registry.register("etcd-v2", _create_etcd_v2_handler)
    rendezvous_handler_registry.register("c10d", _create_c10d_handler)
    rendezvous_handler_registry.register("static", _create_static_handler)


def _register_out_of_tree_handlers() -> None:
    for found in entry_points(group="torchrun.handlers"):
        try:
            rendezvous_handler_registry.register(found.name, found.load()())
        except Exception:
            logger.warning("Exception while registering out of tree plugin %s: ", found.name, exc_info=True)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler of some parameters. Raises ValueError for an unknown backend."""
    return rendezvous_handler_registry.create_handler(params)
