"""Flat parameters: what sharded modules may hold in place of their parameters."""

from __future__ import annotations

import ftorch as torch

from ...nn.parameter import Parameter, _ParameterMeta


class _FlatParameterMeta(_ParameterMeta):
    def __instancecheck__(self, instance):
        return isinstance(instance, torch.Tensor) and getattr(instance, "_is_flat_param", False)


class FlatParameter(Parameter, metaclass=_FlatParameterMeta):
    """A parameter of one dimension that holds several.

    `FullyShardedDataParallel` registers one as ``_flat_param`` in a module in place of the parameters that it divides, unless
    ``use_orig_params`` keeps them.

    Args:
        data: its elements; by default none.
        requires_grad: whether gradients are wanted.

    >>> import ftorch as torch
    >>> from ftorch.distributed.fsdp._flat_param import FlatParameter
    >>> flat = FlatParameter(torch.ones(3))
    >>> isinstance(flat, FlatParameter), isinstance(torch.nn.Parameter(torch.ones(3)), FlatParameter)
    (True, False)
    """

    def __new__(cls, data=None, requires_grad=True):
        if cls is not FlatParameter:
            raise AssertionError("subclasses FlatParameter not supported")
        made = Parameter(torch.empty(0) if data is None else data, requires_grad)
        made._is_flat_param = True
        return made
