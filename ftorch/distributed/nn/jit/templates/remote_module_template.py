"""The text of a module that calls another process' module (``torch.distributed.nn.jit.templates.remote_module_template``)."""

from __future__ import annotations

_TEXT = '''from typing import *

import torch
import torch.distributed.rpc as rpc
from torch import Tensor
from torch.futures import Future
from torch.distributed.rpc import RRef

{assign_module_interface_cls}


def forward_async(self, {arg_types}){arrow_and_future_return_type}:
    args = (self.module_rref, self.device, self.is_device_map_set, {args})
    kwargs = {{{kwargs}}}
    return rpc.rpc_async(self.module_rref.owner(), _remote_forward, args, kwargs)


def forward(self, {arg_types}){arrow_and_return_type}:
    args = (self.module_rref, self.device, self.is_device_map_set, {args})
    kwargs = {{{kwargs}}}
    return rpc.rpc_async(self.module_rref.owner(), _remote_forward, args, kwargs).wait()


_generated_methods = [forward_async, forward]


{jit_script_decorator}
def _remote_forward(
    module_rref: RRef[module_interface_cls], device: str, is_device_map_set: bool, {arg_types}){arrow_and_return_type}:
    module = module_rref.local_value()
'''
_CALL = "    return module.forward({args}, {kwargs})\n"
_ON_ITS_DEVICE = '''    if torch.device(device).type == "cpu":
        return module.forward({args}, {kwargs})
    args = [a.to(device) if isinstance(a, Tensor) else a for a in ({args},)]
    kwargs = {{k: v.to(device) if isinstance(v, Tensor) else v for k, v in {{{kwargs}}}.items()}}
    result = module.forward(*args, **kwargs)
    if is_device_map_set:
        return result
    return tuple(r.cpu() if isinstance(r, Tensor) else r for r in result)
'''


def get_remote_module_template(enable_moving_cpu_tensors_to_cuda: bool) -> str:
    """The text, with names in braces that are to be filled in.

    Args:
        enable_moving_cpu_tensors_to_cuda: whether tensors of the CPU are moved to the module's device.

    >>> get_remote_module_template(False).splitlines()[-1]
    '    return module.forward({args}, {kwargs})'
    """
    return _TEXT + (_ON_ITS_DEVICE if enable_moving_cpu_tensors_to_cuda else _CALL)
