"""Parameters and modules in pieces (``torch.distributed._shard``)."""

from __future__ import annotations

import ftorch as torch

from ...eager.native.contexts import contextmanager
from .. import distributed_c10d as dist
from .sharded_tensor import ShardedTensor
from .sharded_tensor.api import groups
from .sharder import Sharder
from .sharding_plan import ShardingPlan
from .sharding_spec import ChunkShardingSpec, ShardingSpec


def _shard_tensor(tensor, sharding_spec, src_rank=0, process_group=None) -> ShardedTensor:
    """A tensor of the rank ``src_rank`` in pieces.

    Raises:
        ValueError: the tensor is strided, or ranks give other arguments.
    """
    if not tensor.is_contiguous():
        raise ValueError("input tensor is not a contiguous Tensor")
    group = process_group if process_group is not None else dist._get_default_group()
    everybody: list = [None] * group.size()
    dist.all_gather_object(everybody, (src_rank, repr(sharding_spec)), group=group)
    for rank, (theirs, spec) in enumerate(everybody):
        if theirs != src_rank:
            raise ValueError(
                f"src_rank={src_rank} on rank: {group.rank()} does not match with src_rank={theirs} on rank: {rank}"
            )
        if spec != repr(sharding_spec):
            raise ValueError(
                f"sharding_spec={sharding_spec} on rank: {group.rank()} does not match with sharding_spec={spec} on rank: "
                f"{rank}"
            )
    return sharding_spec.shard(tensor, src_rank=src_rank, process_group=process_group)


def shard_parameter(module, param_name: str, sharding_spec, src_rank=0, process_group=None) -> None:
    """Puts a module's parameter in pieces in its place.

    Raises:
        AttributeError: there is no such parameter. ValueError: it is no tensor, or is strided.
    """
    try:
        tensor = getattr(module, param_name)
    except AttributeError:
        raise AttributeError(f"{module._get_name()} has no attribute `{param_name}`") from None
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(
            f"Expected {type(module).__name__}.{param_name} to be a Tensor, but found {type(tensor).__name__}"
        )
    if not tensor.is_contiguous():
        raise ValueError(f"param: {param_name} is not a contiguous Tensor")
    made = _shard_tensor(tensor, sharding_spec, src_rank, process_group)
    setattr(module, param_name, torch.nn.Parameter(made))


@contextmanager
def load_with_process_group(process_group):
    """Within, tensors in pieces that are read belong to a group.

    Raises:
        RuntimeError: it is used inside itself.
    """
    if groups:
        raise RuntimeError(
            'ProcessGroup already set by previous "load_with_process_group" context manager'
        )
    groups.append(process_group)
    try:
        yield process_group
    finally:
        groups.pop()


def _get_current_process_group():
    return groups[-1] if groups else dist._get_default_group()


def _reshard_output(module, resharding_spec):
    """Lets a module's results be cut in another way."""

    def hook(module, inputs, output):
        return output.reshard(resharding_spec) if isinstance(output, ShardedTensor) else output

    module.register_forward_hook(hook)
    return module


def _collect_local_shard(module):
    """Lets a module give the piece of its result that is here."""

    def hook(module, inputs, output):
        if not isinstance(output, ShardedTensor):
            return output
        local, spec = output.local_tensor(), output._sharding_spec
        if (
            isinstance(spec, ChunkShardingSpec) and local.size(spec.dim) == 1
        ):  # as gathered ones look
            local = local.squeeze(spec.dim)
        return local

    module.register_forward_hook(hook)
    return module


def shard_module(module, plan: ShardingPlan, src_rank=0, process_group=None) -> None:
    """Cuts a module as a plan says.

    Raises:
        TypeError: the plan has something else than `ShardingSpec` and `Sharder`.
    """
    for path, how in plan.plan.items():
        owner, _, name = path.rpartition(".")
        if isinstance(how, ShardingSpec):
            shard_parameter(module.get_submodule(owner), name, how, src_rank, process_group)
        elif isinstance(how, Sharder):
            if not path:
                raise KeyError("Module path must not be empty for custom sharder!")
            setattr(module.get_submodule(owner), name, how.shard(module.get_submodule(path)))
        else:
            raise TypeError(f"Only `ShardingSpec` and `Sharder` are supported to shard '{path}'")
    for path, spec in (plan.output_plan or {}).items():
        if not isinstance(spec, ShardingSpec):
            raise TypeError(f"Only `ShardingSpec` is supported as output_plan for '{path}'")
        _reshard_output(module.get_submodule(path), spec)
    for path in plan.return_local_tensor or []:
        _collect_local_shard(module.get_submodule(path))
