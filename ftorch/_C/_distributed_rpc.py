"""``torch._C._distributed_rpc``: references and the agent where PyTorch's extension has them."""
# ruff: noqa: F401

from ..distributed.rpc import (
    PyRRef,
    RpcBackendOptions,
    WorkerInfo,
    _get_current_rpc_agent,
    _is_current_rpc_agent_set,
    _set_rpc_timeout,
    get_rpc_timeout,
)
