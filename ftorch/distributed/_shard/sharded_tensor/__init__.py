"""Tensors of which processes have pieces: how they are made, and what is known of calls on them."""

from __future__ import annotations

import functools

import ftorch as torch

from ..metadata import ShardMetadata
from ._ops import register_sharded_ops
from .api import _CUSTOM_SHARDED_OPS, _SHARDED_OPS, ShardedTensor, ShardedTensorBase
from .metadata import ShardedTensorMetadata, TensorProperties
from .shard import Shard

__all__ = [
    "Shard",
    "ShardMetadata",
    "ShardedTensor",
    "ShardedTensorBase",
    "ShardedTensorMetadata",
    "TensorProperties",
    "custom_sharded_op_impl",
    "empty",
    "full",
    "init_from_local_shards",
    "ones",
    "pre_load_state_dict_hook",
    "rand",
    "randn",
    "state_dict_hook",
    "zeros",
]


def empty(sharding_spec, *size, **options) -> ShardedTensor:
    """A tensor in pieces whose elements nobody has set; see `ShardedTensor`."""
    return ShardedTensor(sharding_spec, *size, **options)


def _filled(name, draw):
    def make(sharding_spec, *size, **options):
        made = ShardedTensor(sharding_spec, *size, **options)
        with torch.no_grad():
            for shard in made.local_shards():
                draw(shard.tensor)
        return made

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`ftorch.{name}` in pieces, each process' its own; see `ShardedTensor`."
    return make


ones, zeros = _filled("ones", lambda t: t.fill_(1)), _filled("zeros", lambda t: t.zero_())
rand = _filled("rand", lambda t: t.uniform_(0, 1))
randn = _filled("randn", lambda t: t.normal_(0, 1))


def full(sharding_spec, size, fill_value, **options) -> ShardedTensor:
    """`ftorch.full` in pieces; see `ShardedTensor`."""
    return _filled("full", lambda t: t.fill_(fill_value))(sharding_spec, *size, **options)


def init_from_local_shards(
    local_shards: list, *global_size, process_group=None, init_rrefs=False
) -> ShardedTensor:
    """The tensor of which each process gives its pieces.

    Raises:
        ValueError: they overlap, leave something out, or are not of one kind.
    """
    return ShardedTensor._init_from_local_shards(
        local_shards, *global_size, process_group=process_group, init_rrefs=init_rrefs
    )


def state_dict_hook(module, destination, prefix, local_metadata):
    """Puts a module's tensors in pieces, which are no parameters, into its state dict."""
    for path, sub in module.named_modules():
        for name, value in sub.__dict__.items():
            if isinstance(value, ShardedTensor):
                destination[f"{prefix}{path + '.' if path else ''}{name}"] = value


def pre_load_state_dict_hook(
    module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
):
    """Takes them out of a state dict."""
    for path, sub in module.named_modules():
        for name, value in list(sub.__dict__.items()):
            key = f"{prefix}{path + '.' if path else ''}{name}"
            if isinstance(value, ShardedTensor) and isinstance(state_dict.get(key), ShardedTensor):
                setattr(sub, name, state_dict[key])


def _registering(table, func):
    def register(op):
        @functools.wraps(op)
        def run(types, args, kwargs, process_group):
            return op(types, args, kwargs, process_group)

        table[func] = run
        return op

    return register


def custom_sharded_op_impl(func):
    """A decorator: ``f(types, args, kwargs, process_group)`` is what a function does to tensors in pieces."""
    return _registering(_CUSTOM_SHARDED_OPS, func)


def _sharded_op_impl(func):
    return _registering(_SHARDED_OPS, func)


register_sharded_ops(_sharded_op_impl)
