"""State dicts of modules in `FullyShardedDataParallel`: whole tensors, parts of each, or the flat parameters' parts.

Hooks around a module's own `state_dict` and `load_state_dict` make its parameters whole, under the names that it has without
wrappers, so that it may lie anywhere in a model.
"""

from __future__ import annotations

import functools
import itertools
import warnings

import ftorch as torch

from .._shard.metadata import ShardMetadata
from .._shard.sharded_tensor import Shard as Piece
from .._shard.sharded_tensor import (
    ShardedTensor,
    ShardedTensorMetadata,
    TensorProperties,
    init_from_local_shards,
)
from ..tensor import DTensor, Replicate, Shard, distribute_tensor
from ._common_utils import FSDP_PREFIX, clean_tensor_name
from ._flat_group import FLAT_PARAM
from .api import FullStateDictConfig, StateDictType


def register(wrapper):
    """Has a wrapper's state dicts made as its settings say."""
    entered: list = []
    wrapper.register_state_dict_pre_hook(functools.partial(_before, entered))
    wrapper._register_state_dict_hook(functools.partial(_after, entered))
    wrapper._register_load_state_dict_pre_hook(functools.partial(_before_load, entered), with_module=True)
    wrapper.register_load_state_dict_post_hook(functools.partial(_after_load, entered))


def _kind(wrapper):
    if wrapper._group.divides:
        if wrapper._device_mesh is not None:
            if wrapper._state_dict_type is StateDictType.LOCAL_STATE_DICT:
                raise RuntimeError(
                    "Found state_dict_type LOCAL_STATE_DICT. DeviceMesh is not compatible with LOCAL_STATE_DICT. "
                    "Please set state_dict_type to SHARDED_STATE_DICT to get DTensor state_dict."
                )
            wrapper._state_dict_config._use_dtensor = True
        return wrapper._state_dict_type, wrapper._state_dict_config
    warnings.warn(
        "When using ``NO_SHARD`` for ``ShardingStrategy``, full_state_dict will be returned.", stacklevel=3
    )
    return StateDictType.FULL_STATE_DICT, FullStateDictConfig()


def _enter(entered, context):
    context.__enter__()
    entered.append(context)


def _leave(entered):
    if entered:
        entered.pop().__exit__(None, None, None)


def _renamed(values, old, new):
    for key in [k for k in values if k.startswith(old)]:
        values[new + key[len(old) :]] = values.pop(key)


def _before(entered, wrapper, prefix, keep_vars):
    kind, config = _kind(wrapper)
    group = wrapper._group
    if kind is StateDictType.LOCAL_STATE_DICT:
        group.reshard()
        return
    shows = not getattr(config, "rank0_only", False) or group.process_group.rank() == 0
    _enter(entered, group.summoned(False, shows or wrapper._use_orig_params))


@torch.no_grad()
def _after(entered, wrapper, values, prefix, metadata):
    kind, config = _kind(wrapper)
    group = wrapper._group
    _renamed(values, prefix + FSDP_PREFIX, prefix)
    if kind is StateDictType.LOCAL_STATE_DICT:
        if group.parameters:
            values[prefix + FLAT_PARAM] = _own_elements(group)
        return values
    elsewhere = getattr(config, "rank0_only", False) and group.process_group.rank() > 0
    whole = kind is StateDictType.FULL_STATE_DICT
    for name in itertools.chain.from_iterable(p.names for p in group.parameters):
        key = prefix + name
        if elsewhere:
            values.pop(key, None)
        elif key in values:
            value = values[key]
            if whole:
                values[key] = value.detach().clone()
            else:
                values[key] = _divided(wrapper, value, config)
            if config.offload_to_cpu and whole:
                values[key] = values[key].cpu()
    if elsewhere:
        values.pop(prefix + FLAT_PARAM, None)
    _leave(entered)
    for name, dtype in wrapper._own_buffers.items():
        key = prefix + clean_tensor_name(name)
        if key not in values:
            continue
        if elsewhere:
            del values[key]
        elif wrapper.mixed_precision.buffer_dtype is not None and values[key].dtype != dtype:
            values[key] = values[key].to(dtype)
    return values


def _divided(wrapper, value, config):
    """A whole tensor's part, as what the settings say."""
    value = value.detach()
    if getattr(config, "_use_dtensor", False):
        mesh = wrapper._device_mesh
        return distribute_tensor(
            value, mesh, [Replicate()] * (mesh.ndim - 1) + [Shard(0)], src_data_rank=None
        ) if not isinstance(value, DTensor) else value
    return chunked(value, wrapper.process_group)


def chunked(value, group):
    """A tensor divided along its first dimension over a group: a `ShardedTensor`, without an exchange."""
    from .. import distributed_c10d as dist

    rank, parts = group.rank(), value.chunk(group.size(), 0)
    rows = [0, *itertools.accumulate(p.shape[0] for p in parts)]
    offsets = [[row, *[0] * (value.dim() - 1)] for row in rows[:-1]]
    places = [f"rank:{dist.get_global_rank(group, r)}/{_device(value, r)}" for r in range(len(parts))]
    own = [Piece.from_tensor_and_offsets(parts[rank].clone(), offsets[rank], dist.get_rank())] if rank < len(parts) else []
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        own,
        sharded_tensor_metadata=ShardedTensorMetadata(
            shards_metadata=[ShardMetadata(o, [*p.shape], place) for o, p, place in zip(offsets, parts, places)],
            size=value.shape,
            tensor_properties=TensorProperties(dtype=value.dtype, layout=value.layout, requires_grad=False),
        ),
        process_group=group,
    )


def _device(value, rank):
    return "cpu" if value.device.type == "cpu" else f"{value.device.type}:{rank % max(torch.accelerator.device_count(), 1)}"


def _own_elements(group):
    """The flat parameter, as a `ShardedTensor` of one dimension."""
    begin = group.part * group.rank
    count = max(min(group.part, group.total - begin), 0)
    own = [Piece.from_tensor_and_offsets(group.shard()[:count], [begin], group.process_group.rank())] if count else []
    return init_from_local_shards(own, group.total, process_group=group.process_group)


def whole_of(value, group=None):
    """The whole tensor of one that is divided."""
    if isinstance(value, DTensor):
        return value.full_tensor()
    if not isinstance(value, ShardedTensor):
        return value
    from .. import distributed_c10d as dist

    pg, shards = value._process_group, value.local_shards()
    size = value.size()
    rows = -(-size[0] // pg.size())
    width = size[1:].numel()
    like = shards[0].tensor if shards else torch.empty(0, dtype=value.dtype)
    part = like.new_zeros(rows * width)
    for shard in shards:
        part[: shard.tensor.numel()] = shard.tensor.reshape(-1)
    out = like.new_empty(rows * width * pg.size())
    dist.all_gather_single(out, part, group=pg)
    return out[: size.numel()].view(size)


def _before_load(entered, wrapper, values, prefix, *args):
    kind, _ = _kind(wrapper)
    group = wrapper._group
    if kind is StateDictType.LOCAL_STATE_DICT:
        if group.parameters:
            _load_own(group, values, prefix)
        _renamed(values, prefix, prefix + FSDP_PREFIX)
        return
    if kind is StateDictType.SHARDED_STATE_DICT:
        for name in itertools.chain.from_iterable(p.names for p in group.parameters):
            if prefix + name in values:
                values[prefix + name] = whole_of(values[prefix + name])
    _enter(entered, group.summoned(True))
    _renamed(values, prefix, prefix + FSDP_PREFIX)


def _load_own(group, values, prefix):
    key = prefix + FLAT_PARAM
    if key not in values:
        raise AssertionError("No `FlatParameter` in `state_dict` for this FSDP instance but it has parameters")
    value = values.pop(key)
    if not isinstance(value, ShardedTensor):
        raise AssertionError("Tensors in local_state_dict should be ShardedTensor.")
    with torch.no_grad():
        part = group.shard().clone()
        for shard in value.local_shards():
            part[: shard.tensor.numel()] = shard.tensor
    values[key] = part


def _after_load(entered, wrapper, incompatible):
    _leave(entered)
    for names in incompatible:
        names[:] = [clean_tensor_name(n) for n in names]
