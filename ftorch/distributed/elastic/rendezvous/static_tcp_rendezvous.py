"""Nodes whose numbers are known."""

from __future__ import annotations

from datetime import timedelta

from ..._store import PrefixStore, TCPStore
from .api import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from .utils import parse_rendezvous_endpoint

__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]


class StaticTCPRendezvous(RendezvousHandler):
    """Nodes meet at node 0, which serves the store."""

    def __init__(self, master_addr: str, master_port: int, rank: int, world_size: int, run_id: str, timeout: int):
        self.master_addr, self.master_port, self.rank = master_addr, master_port, rank
        self.world_size, self.run_id, self.timeout = world_size, run_id, timedelta(seconds=timeout)
        self._store: TCPStore | None = None

    @property
    def use_agent_store(self):
        """True."""
        return True

    def get_backend(self):
        """``static``"""
        return "static"

    def next_rendezvous(self):
        """Waits for all nodes."""
        if self._store is None:
            self._store = TCPStore(self.master_addr, self.master_port, self.world_size, self.rank == 0,
                                   self.timeout, multi_tenant=True)
        where = RendezvousStoreInfo(self.master_addr, self.master_port)
        return RendezvousInfo(PrefixStore(self.run_id, self._store), self.rank, self.world_size, where)

    def is_closed(self):
        """False."""
        return False

    def set_closed(self):
        """Nothing."""

    def num_nodes_waiting(self):
        """0: nobody joins later."""
        return 0

    def get_run_id(self):
        """The job's id."""
        return self.run_id

    def shutdown(self):
        """True."""
        return True


def create_rdzv_handler(params):
    """The handler of parameters with a ``rank`` and an endpoint.

    Raises:
        ValueError: if one is missing.
    """
    if "rank" not in params.config:
        raise ValueError("rank is absent in RendezvousParameters.Try add --node-rank to the cmd request")
    endpoint = params.endpoint.strip()
    if not endpoint:
        raise ValueError(
            "endpoint is absent in RendezvousParametersTry add --master-port and --master-addr to the cmd request"
        )
    host, port = parse_rendezvous_endpoint(endpoint, -1)
    if port == -1:
        raise ValueError(f"Port is absent in endpoint: {endpoint}. Try launching with --master-port")
    timeout = int(params.config.get("timeout", 600))
    return StaticTCPRendezvous(host, port, params.config["rank"], params.max_nodes, params.run_id, timeout)
