"""Names of backends, which of them are used for which devices, and how much is checked."""

from __future__ import annotations

import enum
import os
from collections import namedtuple
from collections.abc import Callable
from typing import Any


class Backend(str):
    """The name of a backend, in lower case (``torch.distributed.Backend``).

    Raises:
        ValueError: for a name that is not a string.
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = (
        "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake",
    )
    backend_list = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"]
    default_device_backend_map = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl", "mps": "gloo"}
    backend_capability: dict[str, list[str]] = {
        "gloo": ["cpu", "cuda"], "nccl": ["cuda"], "ucc": ["cpu", "cuda"], "mpi": ["cpu", "cuda"],
        "xccl": ["xpu"], "fake": ["cpu", "cuda", "hpu", "xpu"],
    }
    _BackendPlugin = namedtuple("_BackendPlugin", ["creator_fn", "extended_api"])
    _plugins: dict[str, Any] = {}

    def __new__(cls, name: str):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        value = getattr(cls, name.upper(), Backend.UNDEFINED)
        return str.__new__(cls, name.lower() if value == Backend.UNDEFINED else value)

    @classmethod
    def register_backend(cls, name: str, func: Callable, extended_api: bool = False, devices=None):
        """Lets `init_process_group` make groups of one's own: ``func(store, rank, size, timeout)``."""
        if name != "fake" and hasattr(cls, name.upper()) and name.upper() in cls._plugins:
            raise RuntimeError(f"{name.upper()} c10d backend already exist")
        setattr(cls, name.upper(), name.lower())
        if name.lower() not in cls.backend_list:
            cls.backend_list.append(name.lower())
        devices = [devices] if isinstance(devices, str) else list(devices or ["cpu", "cuda"])
        for device in devices:
            if device not in cls.default_device_backend_map:
                cls.default_device_backend_map[device] = name.lower()
        cls.backend_capability[name.lower()] = devices
        cls._plugins[name.upper()] = cls._BackendPlugin(func, extended_api)


class BackendConfig:
    """Which backend each kind of device has: ``"gloo"`` or ``"cpu:gloo,cuda:nccl"``."""

    def __init__(self, backend: str):
        self.device_backend_map: dict[str, Backend] = {}
        backend = str(backend)
        if backend == Backend.UNDEFINED:
            for device, name in Backend.default_device_backend_map.items():
                if device in ("cpu", "cuda"):
                    self.device_backend_map[device] = Backend(name)
        elif ":" in backend.lower():
            for pair in backend.lower().split(","):
                parts = pair.split(":")
                if len(parts) != 2:
                    raise ValueError(
                        f"Invalid device:backend pairing: {pair}. "
                        'device:backend pairing must be of the form "device:backend".'
                    )
                if parts[0] in self.device_backend_map:
                    raise ValueError(
                        f"Duplicate device type {parts[0]} in backend string: {parts[1]}. "
                        f"The custom backend string argument is invalid: {backend}."
                    )
                self.device_backend_map[parts[0]] = Backend(parts[1])
        else:
            for device in Backend.backend_capability.get(backend, ["cpu", "cuda"]):
                if device in ("cpu", "cuda"):
                    self.device_backend_map[device] = Backend(backend)

    def __repr__(self):
        return ",".join(f"{d}:{b}" for d, b in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, Backend]:
        """The backends by kinds of devices."""
        return self.device_backend_map


class DebugLevel(enum.Enum):
    """``TORCH_DISTRIBUTED_DEBUG``."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_debug = [DebugLevel.OFF]


def get_debug_level() -> DebugLevel:
    """How much is checked. Calls that do not belong together are always found here."""
    return _debug[0]


def set_debug_level(level: DebugLevel) -> None:
    """Sets `get_debug_level`."""
    _debug[0] = level


def set_debug_level_from_env() -> None:
    """Reads ``TORCH_DISTRIBUTED_DEBUG``.

    Raises:
        ValueError: for another value than OFF, INFO, DETAIL.
    """
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise ValueError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    _debug[0] = DebugLevel[name]
