"""Copies of a module on several devices (``torch.nn.parallel.replicate``)."""

from __future__ import annotations

from collections import OrderedDict

from . import comm

__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """Copies of a module, one for each device, whose parameters are copies of the module's.

    The copies' parameters are tensors that depend on the original's: gradients arrive there.

    Args:
        devices: the devices, or their numbers.
        detach: whether gradients stop.
    """
    copies: dict = {}

    def copied(tensor):
        if tensor is None:
            return [None] * len(devices)
        if id(tensor) not in copies:
            made = comm.broadcast(tensor.detach() if detach else tensor, devices)
            copies[id(tensor)] = made
        return copies[id(tensor)]

    modules = list(network.modules())
    replicas = [{id(m): m._replicate_for_data_parallel() for m in modules} for _ in devices]
    for module in modules:
        for number, replica_of in enumerate(replicas):
            replica = replica_of[id(module)]
            replica._modules = OrderedDict(
                (k, None if m is None else replica_of[id(m)]) for k, m in module._modules.items()
            )
            for name, child in replica._modules.items():
                object.__setattr__(replica, name, child)
            for name, tensor in module._parameters.items():
                replica._former_parameters[name] = copied(tensor)[number]
                object.__setattr__(replica, name, copied(tensor)[number])
            for name, tensor in module._buffers.items():
                replica._buffers[name] = copied(tensor)[number]
    return [replica_of[id(network)] for replica_of in replicas]
