"""Changes of exported programs (``torch.export.passes``)."""

from __future__ import annotations

from .._subclasses.fake_tensor import FakeTensor, fake_like
from ..eager.core.device import device as make_device
from ..eager.tensor import TensorBase
from ..nn import Parameter
from ..utils import _pytree as pytree
from .exported_program import ExportedProgram


def move_to_device_pass(ep: ExportedProgram, location) -> ExportedProgram:
    """Moves a program's tensors, and what it makes, to another device.

    Args:
        location: the device, or {device: device} of those that change.

    >>> import ftorch as torch
    >>> program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    >>> moved = torch.export.passes.move_to_device_pass(program, "meta")
    >>> {t.device.type for t in moved.state_dict.values()}
    {'meta'}
    """

    def where(device):
        if isinstance(location, dict):
            return make_device(location.get(str(device), device))
        return make_device(location)

    def moved(t):
        data = t.detach().to(where(t.device))
        return Parameter(data, t.requires_grad) if isinstance(t, Parameter) else data

    for tensors in (ep.state_dict, ep.constants):
        for name, value in tensors.items():
            if isinstance(value, TensorBase):
                tensors[name] = moved(value)

    def of_value(value):
        if not isinstance(value, FakeTensor):
            return value
        made = fake_like(value, value.__dict__.get("_symbolic_shape"))
        made._ftorch_requires_grad = value._ftorch_requires_grad
        made.fake_device = where(value.fake_device)
        return made

    for module in ep.graph_module.modules():
        for node in module.graph.nodes if hasattr(module, "graph") else ():
            if node.kwargs.get("device") is not None:
                node.kwargs = {**node.kwargs, "device": where(node.kwargs["device"])}
            if "val" in node.meta:
                node.meta["val"] = pytree.tree_map(of_value, node.meta["val"])
        if hasattr(module, "graph"):
            module.recompile()
    ep.validate()
    return ep


__all__ = ["move_to_device_pass"]
