"""Options of the agent (``torch.distributed.rpc.options``)."""

from __future__ import annotations

import ftorch as torch

from . import constants

__all__ = ["TensorPipeRpcBackendOptions"]


class RpcBackendOptions:
    """Timeout and rendezvous of an agent."""

    def __init__(self, rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
                 init_method: str = constants.DEFAULT_INIT_METHOD):
        self.rpc_timeout, self.init_method = rpc_timeout, init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Options under the name of PyTorch's agent.

    Args:
        num_worker_threads: accepted: each call runs in a thread of its own, so nested calls cannot lock.
        rpc_timeout: seconds that a call may take; 0: any time.
        init_method: where the processes meet: ``env://``, ``tcp://host:port``, ``file://path``.
        device_maps, devices: accepted: tensors travel through the CPU and arrive where they were sent from.

    >>> TensorPipeRpcBackendOptions(rpc_timeout=5).rpc_timeout
    5
    """

    def __init__(self, *, num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
                 rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
                 init_method: str = constants.DEFAULT_INIT_METHOD, device_maps=None, devices=None,
                 _transports=None, _channels=None):
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads = num_worker_threads
        self.device_maps: dict = dict(device_maps or {})
        self.devices = [torch.device(d) for d in devices or []]

    def set_device_map(self, to: str, device_map: dict) -> None:
        """Adds to ``device_maps``."""
        self.device_maps.setdefault(to, {}).update(
            {torch.device(a): torch.device(b) for a, b in device_map.items()}
        )

    def set_devices(self, devices) -> None:
        """Sets ``devices``."""
        self.devices = [torch.device(d) for d in devices]
