"""What a rendezvous is given, what it gives, and its errors."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..utils.distributed import get_free_port

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError",
    "RendezvousHandler", "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo",
    "RendezvousParameters", "RendezvousStateError", "RendezvousStoreInfo", "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]


class RendezvousError(Exception):
    """A rendezvous failed."""


class RendezvousClosedError(RendezvousError):
    """It is closed."""


class RendezvousTimeoutError(RendezvousError):
    """Too few came in time."""


class RendezvousConnectionError(RendezvousError):
    """The place of the meeting cannot be reached."""


class RendezvousStateError(RendezvousError):
    """What is kept there is no rendezvous."""


class RendezvousGracefulExitError(RendezvousError):
    """The node was asked to leave."""


@dataclass
class RendezvousStoreInfo:
    """Where the workers' store will be."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(rank: int, store, local_addr: str | None, server_port: int | None = None) -> RendezvousStoreInfo:
        """Rank 0's address and a free port of it, as it left them in the store."""
        keys = RendezvousStoreInfo.MASTER_ADDR_KEY, RendezvousStoreInfo.MASTER_PORT_KEY
        if rank == 0:
            store.set(keys[0], local_addr or socket.getfqdn())
            store.set(keys[1], str(server_port or get_free_port()))
        return RendezvousStoreInfo(store.get(keys[0]).decode(), int(store.get(keys[1]).decode()))


class RendezvousInfo:
    """What came of a rendezvous."""

    def __init__(self, store, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo):
        self.store, self.rank, self.world_size = store, rank, world_size
        self.bootstrap_store_info = bootstrap_store_info


class RendezvousHandler(ABC):
    """A way to meet."""

    @property
    def use_agent_store(self) -> bool:
        """Whether workers use the launcher's store."""
        return False

    @abstractmethod
    def get_backend(self) -> str:
        """Its name."""
        ...

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Meets the others. Raises RendezvousError if that fails."""
        ...

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether nobody can meet any more."""
        ...

    @abstractmethod
    def set_closed(self) -> None:
        """Closes it."""
        ...

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many would like to take part in the next one."""
        ...

    @abstractmethod
    def get_run_id(self) -> str:
        """The job's id."""
        ...

    @abstractmethod
    def shutdown(self) -> bool:
        """Ends it; whether that went well."""
        ...


_TRUE, _FALSE = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")


class RendezvousParameters:
    """What a handler is made of.

    Raises:
        ValueError: for an empty backend, or numbers of nodes that do not fit.

    >>> RendezvousParameters("c10d", "localhost", "job", 1, 2, wait="yes").get_as_bool("wait")
    True
    """

    def __init__(self, backend: str, endpoint: str, run_id: str, min_nodes: int, max_nodes: int,
                 local_addr: str | None = None, **kwargs):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(
                f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero."
            )
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the "
                f"minimum number of rendezvous nodes ({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr, self.config = min_nodes, max_nodes, local_addr, kwargs

    def get(self, key: str, default: Any = None) -> Any:
        """An option."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """An option as True or False. Raises ValueError for other texts."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, str)) and str(value).lower() in (*_TRUE, *_FALSE):
            return str(value).lower() in _TRUE
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """An option as a number. Raises ValueError for other texts."""
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid integer value."
            ) from None


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Handlers by the names of their backends."""

    def __init__(self):
        self._registry: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Names what makes a backend's handlers. Raises ValueError if it is another one already."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        current = self._registry.setdefault(backend, creator)
        if current != creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already "
                f"registered with '{current}'."
            )

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """The handler of a backend. Raises ValueError for an unknown one."""
        if params.backend not in self._registry:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`?"
            )
        handler = self._registry[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{handler.get_backend()}' does not match the requested backend "
                f"'{params.backend}'."
            )
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
