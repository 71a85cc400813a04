"""Calls that tensors in pieces know: each is made on the pieces."""

from __future__ import annotations

import copy

import ftorch as torch

from ..api import ShardedTensor
from ..shard import Shard


def _alike(st, shards, **properties):
    metadata = copy.deepcopy(st.metadata())
    for name, value in properties.items():
        setattr(metadata.tensor_properties, name, value)
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        shards,
        metadata,
        process_group=st._process_group,
        init_rrefs=st._init_rrefs,
        sharding_spec=st._sharding_spec,
    )


def _on_shards(function, requires_grad=None):
    def op(types, args, kwargs, process_group):
        st = args[0]
        shards = [
            Shard(function(s.tensor, *args[1:], **(kwargs or {})), copy.deepcopy(s.metadata))
            for s in st.local_shards()
        ]
        needs = st.requires_grad if requires_grad is None else requires_grad
        return _alike(st, shards, requires_grad=needs)

    return op


def _in_place(name):
    def op(types, args, kwargs, process_group):
        with torch.no_grad():
            for shard in args[0].local_shards():
                getattr(shard.tensor, name)(*args[1:], **(kwargs or {}))
        return args[0]

    return op


def _initialized(function):
    def op(types, args, kwargs, process_group):
        given = dict(kwargs or {})
        st = args[0] if args else given.pop("tensor")
        for shard in st.local_shards():
            function(shard.tensor, *args[1:], **given)
        return st

    return op


def _compared(compare):
    def op(types, args, kwargs, process_group):
        a, b = args[:2]
        if not isinstance(a, ShardedTensor) or not isinstance(b, ShardedTensor):
            raise TypeError("Both inputs have to be ShardedTensors")  # of one there is no piece
        same = (
            a.size() == b.size()
            and len(a.local_shards()) == len(b.local_shards())
            and all(
                compare(x.tensor, y.tensor, *args[2:], **(kwargs or {}))
                for x, y in zip(a.local_shards(), b.local_shards())
            )
        )
        found = torch.tensor(int(same))
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MIN, group=process_group)
        return bool(found.item())

    return op


def _copied(types, args, kwargs, process_group):
    return _on_shards(lambda t: t.clone())(types, args[:1], {}, process_group)


def _wanting_gradients(types, args, kwargs, process_group):
    st, wanted = args[0], args[1] if len(args) > 1 else (kwargs or {}).get("requires_grad", True)
    for shard in st.local_shards():
        shard.tensor.requires_grad_(wanted)
    st.metadata().tensor_properties.requires_grad = wanted
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.requires_grad_(st, wanted)


def register_sharded_ops(register):
    """Says what is known; ``register(function)`` is a decorator."""
    init = torch.nn.init
    register(torch.clone)(_on_shards(torch.clone))
    register(torch.Tensor.clone)(_on_shards(torch.clone))
    register(torch.Tensor.detach)(_on_shards(lambda t: t.detach(), requires_grad=False))
    register(torch.Tensor.__deepcopy__)(_copied)
    register(torch.Tensor.requires_grad_)(_wanting_gradients)
    for name in ("fill_", "zero_", "copy_"):
        register(getattr(torch.Tensor, name))(_in_place(name))
    for name in ("uniform_", "normal_", "kaiming_uniform_", "constant_"):
        register(getattr(init, name))(_initialized(getattr(init, name)))
    for name in ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"):
        register(getattr(torch, name))(_on_shards(getattr(torch, name), requires_grad=False))
    register(torch.equal)(_compared(torch.equal))
    register(torch.allclose)(_compared(torch.allclose))
