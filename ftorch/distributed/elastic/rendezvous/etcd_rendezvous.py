"""The rendezvous of the older name ``etcd``: that of ``etcd-v2``."""

from __future__ import annotations

from .api import RendezvousHandler, RendezvousParameters
from .dynamic_rendezvous import DynamicRendezvousHandler, create_handler
from .etcd_rendezvous_backend import create_backend

__all__ = ["EtcdRendezvousHandler", "create_rdzv_handler"]


class EtcdRendezvousHandler(DynamicRendezvousHandler):
    """A handler whose record an etcd server keeps."""

    def get_backend(self) -> str:
        """``etcd``"""
        return "etcd"


def create_rdzv_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler of parameters.

    Raises:
        ModuleNotFoundError: without the package python-etcd.
    """
    backend, store = create_backend(params)
    handler = create_handler(store, backend, params)
    handler.__class__ = EtcdRendezvousHandler
    return handler
