"""Functions of plain tensors called with `DTensor`s."""

from __future__ import annotations

import functools

import ftorch as torch

from ....utils._pytree import tree_flatten, tree_unflatten
from .._api import DTensor

__all__ = ["local_map"]


def local_map(func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *,
              redistribute_inputs: bool = False):
    """A function whose `DTensor` arguments are given as local parts, and whose results are parts of `DTensor`s.

    Args:
        out_placements: those of the result, or a tuple with those of each (None: not a tensor).
        in_placements: those that each argument must have.
        in_grad_placements: how the parts of the arguments' gradients lie.
        redistribute_inputs: whether arguments with other placements are moved.

    Raises:
        ValueError: for arguments with other placements. AssertionError: for other numbers of arguments.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor import Replicate, Shard, distribute_tensor
    >>> from ftorch.distributed.tensor.experimental import local_map
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
    >>> local_map(lambda t: t * 2, out_placements=[Shard(0)])(x).full_tensor()
    tensor([2., 2., 2., 2.])
    >>> dist.destroy_process_group()
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        leaves, spec = tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(leaves):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(leaves)}!"
            )
        mesh = device_mesh
        seen = False
        for i, x in enumerate(leaves):
            wanted = None if in_placements is None else in_placements[i]
            if not isinstance(x, DTensor):
                if wanted is not None and not isinstance(x, torch.Tensor):
                    raise AssertionError(f"Non-Tensor input {x} expects None placements but received {wanted}!")
                continue
            mesh, seen = mesh or x.device_mesh, True
            leaves[i] = _local(x, i, in_placements, in_grad_placements, redistribute_inputs)
        result = func(*tree_unflatten(leaves, spec), **kwargs)
        return _wrapped(result, mesh, out_placements) if seen else result

    return mapped


def _local(x, i, in_placements, in_grad_placements, redistribute):
    if in_placements is not None:
        wanted = in_placements[i]
        if wanted is None:
            raise AssertionError(f"DTensor input {x} expects placements but received {wanted}!")
        wanted = tuple(wanted)
        if tuple(x.placements) != wanted:
            if not redistribute:
                raise ValueError(
                    f"arg {x} in local_map has a mismatched placements: arg placements is {x.placements} but "
                    f"the input placements is {wanted}! If redistribute_inputs is wanted, set "
                    "redistribute_inputs=True to local_map."
                )
            x = x.redistribute(placements=wanted)
    if in_grad_placements is None:
        return x.to_local()
    wanted = in_grad_placements[i]
    if wanted is None:
        raise AssertionError(f"DTensor input {x} expects in grad placements but received {wanted}!")
    return x.to_local(grad_placements=tuple(wanted))


def _wrapped(result, mesh, out_placements):
    outputs, spec = tree_flatten(result)
    given = out_placements if isinstance(out_placements, tuple) else (out_placements,)
    if len(outputs) != len(given):
        raise AssertionError(
            "local_map requires one PlacementType be provided for each output value, received "
            f"{len(given)} out_placements but {len(outputs)} is expected!"
        )
    for i, (x, placed) in enumerate(zip(outputs, given)):
        if isinstance(x, torch.Tensor):
            if isinstance(x, DTensor):
                raise AssertionError(f"torch.Tensor output expected but received {type(x)}: {x}")
            outputs[i] = DTensor.from_local(x, mesh, placed, run_check=False)
        elif placed is not None:
            raise AssertionError(f"Non-tensor output {x} expects None placements but received {placed}!")
    return tree_unflatten(outputs, spec)
