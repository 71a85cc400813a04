"""Remote procedure calls (``torch.distributed.rpc``)."""
# ruff: noqa: F401

import importlib

from . import api, backend_registry, functions
from ._agent import WorkerInfo
from ._rref import RRef
from .api import (
    _get_current_rpc_agent,
    _is_current_rpc_agent_set,
    _set_rpc_timeout,
    get_worker_info,
    init_rpc,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from .api import _get_rpc_timeout as get_rpc_timeout
from .backend_registry import BackendType
from .options import RpcBackendOptions, TensorPipeRpcBackendOptions

PyRRef = RRef
__all__ = [
    "BackendType", "RRef", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo", "functions",
    "get_rpc_timeout", "get_worker_info", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync",
    "shutdown",
]


def is_available() -> bool:
    """True."""
    return True


def __getattr__(name):  # profilers are loaded by who takes a profile
    if name == "server_process_global_profiler":
        return importlib.import_module(f".{name}", __name__)
    if name == "_server_process_global_profile":
        from .server_process_global_profiler import _server_process_global_profile

        return _server_process_global_profile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
