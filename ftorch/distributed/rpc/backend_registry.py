"""Which agents there are (``torch.distributed.rpc.backend_registry``)."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from . import constants
from .options import TensorPipeRpcBackendOptions

__all__ = [
    "BackendType", "BackendValue", "backend_registered", "construct_rpc_backend_options", "init_backend",
    "register_backend",
]


class BackendValue(NamedTuple):
    """How a backend's options and its agent are made."""

    construct_rpc_backend_options_handler: Any
    init_backend_handler: Any


def _options(rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC, init_method=constants.DEFAULT_INIT_METHOD, **kwargs):
    return TensorPipeRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method, **kwargs)


def _init(store, name, rank, world_size, rpc_backend_options):
    from .api import _start

    return _start(store, name, rank, world_size, rpc_backend_options)


BackendType: Any = enum.Enum("BackendType", {"TENSORPIPE": BackendValue(_options, _init)})


def _repr(self):
    return f"BackendType.{self.name}"


BackendType.__repr__ = _repr


def backend_registered(backend_name: str) -> bool:
    """Whether there is a backend of a name."""
    return backend_name in BackendType.__members__


def register_backend(backend_name: str, construct_rpc_backend_options_handler, init_backend_handler):
    """Adds a backend; its member of `BackendType`.

    Raises:
        RuntimeError: if there is one of the name.
    """
    global BackendType
    if backend_registered(backend_name):
        raise RuntimeError(f"RPC backend {backend_name}: already registered")
    members = {m.name: m.value for m in BackendType}
    members[backend_name] = BackendValue(construct_rpc_backend_options_handler, init_backend_handler)
    BackendType = enum.Enum("BackendType", members)
    BackendType.__repr__ = _repr  # type: ignore[method-assign]
    return BackendType[backend_name]


def construct_rpc_backend_options(backend, rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC,
                                  init_method=constants.DEFAULT_INIT_METHOD, **kwargs):
    """The options of a backend."""
    return backend.value.construct_rpc_backend_options_handler(rpc_timeout, init_method, **kwargs)


def init_backend(backend, *args, **kwargs):
    """Starts a backend's agent."""
    return backend.value.init_backend_handler(*args, **kwargs)
