"""`RemoteModule`: a module that another process has."""

from __future__ import annotations

import ftorch as torch

from ... import rpc
from ...remote_device import _remote_device

__all__ = ["RemoteModule"]


def _made(module_cls, args, kwargs, device):
    module = module_cls(*args, **kwargs)
    if not isinstance(module, torch.nn.Module):
        raise ValueError(
            "Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns an "
            f"instance of {type(module)}."
        )
    return module.to(device)


def _forward(module_rref, args, kwargs):
    return module_rref.local_value()(*args, **kwargs)


def _parameters(module_rref, recurse):
    return [rpc.RRef(p) for p in module_rref.local_value().parameters(recurse)]


class RemoteModule(torch.nn.Module):
    """A module in another process; its forward is a call (``torch.distributed.nn.RemoteModule``).

    Args:
        remote_device: ``"name/device"`` or ``"rank:0/device"``.
        module_cls, args, kwargs: what is made there.

    Raises:
        ValueError: if it is no module.
    """

    def __init__(self, remote_device: str, module_cls, args=None, kwargs=None):
        super().__init__()
        where = _remote_device(remote_device)
        self.on = where.worker_name() if where.worker_name() is not None else where.rank()
        self.device = where.device()
        self.is_device_map_set = False
        self.module_rref = rpc.rpc_sync(self.on, _made_there, (module_cls, args or (), kwargs or {}, self.device))

    @staticmethod
    def init_from_module_rref(remote_device: str, module_rref, _module_interface_cls=None):
        """A `RemoteModule` of a module that is there already."""
        made = RemoteModule.__new__(RemoteModule)
        torch.nn.Module.__init__(made)
        where = _remote_device(remote_device)
        made.on = where.worker_name() if where.worker_name() is not None else where.rank()
        made.device, made.is_device_map_set, made.module_rref = where.device(), False, module_rref
        return made

    def forward(self, *args, **kwargs):
        """The module's result."""
        return rpc.rpc_sync(self.on, _forward, (self.module_rref, args, kwargs))

    def forward_async(self, *args, **kwargs):
        """A future of the module's result."""
        return rpc.rpc_async(self.on, _forward, (self.module_rref, args, kwargs))

    def remote_parameters(self, recurse: bool = True) -> list:
        """References to the module's parameters."""
        return rpc.rpc_sync(self.on, _parameters, (self.module_rref, recurse))

    def get_module_rref(self):
        """The reference to the module."""
        return self.module_rref

    def __getstate__(self):
        return {"on": self.on, "device": str(self.device), "module_rref": self.module_rref}

    def __setstate__(self, state):
        torch.nn.Module.__init__(self)
        self.on, self.module_rref = state["on"], state["module_rref"]
        self.device, self.is_device_map_set = torch.device(state["device"]), False


def _refuses(name):
    def method(self, *args, **kwargs):
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule")

    method.__name__ = name
    return method


for _name in (
    "add_module apply cuda cpu type float double half bfloat16 to register_buffer register_parameter "
    "register_full_backward_hook register_forward_pre_hook register_forward_hook state_dict load_state_dict "
    "parameters named_parameters buffers named_buffers children named_children modules named_modules "
    "requires_grad_ zero_grad share_memory"
).split():
    setattr(RemoteModule, _name, _refuses(_name))


def _made_there(module_cls, args, kwargs, device):
    return rpc.RRef(_made(module_cls, args, kwargs, device))
