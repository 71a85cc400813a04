"""`ShardedTensor`: a tensor of which processes have pieces (``torch.distributed._shard.sharded_tensor``)."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ftorch as torch

from ....utils import _pytree as pytree
from ... import distributed_c10d as dist
from .._tensor_metadata import ShardedTensorMetadata, TensorProperties
from .._utils import narrow_tensor
from ..sharding_spec import ChunkShardingSpec, ShardingSpec
from ..sharding_spec._internals import (
    check_tensor,
    make_shards,
    validate_non_overlapping_shards_metadata,
)
from ..sharding_spec.api import (
    _dispatch_custom_op,
    _has_custom_op,
    _infer_sharding_spec_from_shards_metadata,
)
from .shard import Shard
from .utils import (
    _flatten_tensor_size,
    _parse_and_validate_remote_device,
    _validate_output_tensor_for_gather,
    build_global_metadata,
    build_metadata_from_local_shards,
)

_SHARDED_OPS: dict[Callable, Callable] = {}
_CUSTOM_SHARDED_OPS: dict[Callable, Callable] = {}
groups: list = []  # the innermost one is that of a tensor which is read (`load_with_process_group`)


class ShardedTensorBase(torch.Tensor):
    """A tensor that knows its pieces, but no group."""

    _sharding_spec: ShardingSpec
    _metadata: ShardedTensorMetadata
    _local_shards: list[Shard]

    def __new__(cls, sharding_spec, *size, **kwargs):
        if not isinstance(sharding_spec, ShardingSpec):
            raise ValueError(f"Expecting ShardingSpec but got: {type(sharding_spec)}")
        sizes, dtype = _flatten_tensor_size(size), kwargs.get("dtype") or torch.get_default_dtype()
        layout, pinned = kwargs.get("layout", torch.strided), kwargs.get("pin_memory", False)
        requires_grad = kwargs.get("requires_grad", False)
        properties = TensorProperties(dtype, layout, requires_grad, pin_memory=pinned)
        metadata = sharding_spec.build_metadata(sizes, properties)
        made = torch.Tensor._make_wrapper_subclass(
            cls, sizes, dtype=dtype, layout=layout, requires_grad=requires_grad
        )
        made._sharding_spec, made._metadata, made._local_shards = sharding_spec, metadata, []
        return made

    def metadata(self) -> ShardedTensorMetadata:
        """All pieces, the whole's sizes and properties."""
        return self._metadata

    def local_shards(self) -> list[Shard]:
        """The pieces that the calling process has."""
        return self._local_shards

    @classmethod
    def _init_from_local_shards_and_global_metadata(
        cls, local_shards, sharded_tensor_metadata, sharding_spec=None
    ):
        made = _of_metadata(ShardedTensor, local_shards, sharded_tensor_metadata, sharding_spec)
        made._local_shards = local_shards
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(
            f"A {cls.__name__} object is being used from c++ while calling {func.__module__}.{func.__name__} but the "
            "there is no custom __torch_dispatch__ implementation for it."
        )


def _of_metadata(cls, local_shards, metadata, spec):
    pieces, properties = metadata.shards_metadata, metadata.tensor_properties
    if len(pieces) == 0:
        raise ValueError("shards_metadata must not be empty!")
    if properties.layout != torch.strided:
        raise ValueError("Only torch.strided layout is currently supported")
    validate_non_overlapping_shards_metadata(pieces)
    check_tensor(pieces, list(metadata.size))
    made = ShardedTensorBase.__new__(
        cls,
        spec or _infer_sharding_spec_from_shards_metadata(pieces),
        metadata.size,
        dtype=properties.dtype,
        layout=properties.layout,
        pin_memory=properties.pin_memory,
        requires_grad=properties.requires_grad,
    )
    made._metadata = metadata
    return made


class ShardedTensor(ShardedTensorBase):
    """A tensor of which each process has pieces. All processes make it, with the same arguments; there are few calls on it:
    what it is for is to say which process has what (see `DTensor` for one that computes).

    Args:
        sharding_spec: how it is cut.
        size: the whole's.
        process_group: whose processes have it (all).

    >>> import ftorch as torch
    >>> dist = torch.distributed
    >>> from ftorch.distributed._shard import sharded_tensor, sharding_spec
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = sharded_tensor.ones(sharding_spec.ChunkShardingSpec(0, ["rank:0/cpu"]), 4, 2)
    >>> x.size(), x.local_tensor().sum()
    (torch.Size([4, 2]), tensor(8.))
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        sharding_spec,
        *size,
        dtype=None,
        layout=torch.strided,
        requires_grad=False,
        pin_memory=False,
        memory_format=torch.contiguous_format,
        process_group=None,
        init_rrefs=False,
    ):
        if layout != torch.strided:
            raise ValueError("Only torch.strided layout is currently supported")
        if memory_format != torch.contiguous_format:
            raise ValueError("Only torch.contiguous_format memory_format is currently supported")
        self._begin(process_group, init_rrefs)
        self._metadata.tensor_properties.memory_format = memory_format
        for piece in self._metadata.shards_metadata:
            rank, device = _parse_and_validate_remote_device(self._process_group, piece.placement)
            if rank == dist.get_rank():
                local = torch.empty(
                    piece.shard_sizes, dtype=self._metadata.tensor_properties.dtype, device=device
                )
                self._local_shards.append(Shard(local.requires_grad_(requires_grad), piece))

    def _begin(self, process_group, init_rrefs=False):
        self._init_rrefs, self._remote_shards = init_rrefs, {}
        self._process_group = (
            process_group if process_group is not None else dist._get_default_group()
        )
        if init_rrefs:
            from ... import rpc

            if not rpc._is_current_rpc_agent_set():
                raise RuntimeError(
                    "RPC Framework needs to be initialized using torch.distributed.rpc.init_rpc if init_rrefs is set "
                    "to True"
                )

    # --- made of what processes have ---

    @classmethod
    def _init_from_local_shards(
        cls, local_shards, *global_size, process_group=None, init_rrefs=False
    ):
        group = process_group if process_group is not None else dist._get_default_group()
        again, rank = any(n is None for n in global_size), dist.get_rank()
        size = _flatten_tensor_size(tuple(0 if n is None else n for n in global_size))
        own = (
            build_metadata_from_local_shards(local_shards, size, rank, group)
            if local_shards
            else None
        )
        everybody: list[Any] = [own]
        if group.size() > 1:
            everybody = [None] * group.size()
            dist.all_gather_object(everybody, own, group=group)
        metadata = build_global_metadata(everybody, recalc_metadata=again)
        if again:
            (local_shards[0].metadata,) = [
                m for m in metadata.shards_metadata if m.placement.rank() == rank
            ]
        made = _of_metadata(cls, local_shards, metadata, None)
        made._begin(group, init_rrefs)
        made._local_shards = local_shards
        return made

    @classmethod
    def _init_from_local_tensor(
        cls, local_tensor, sharding_spec, *global_size, process_group=None, init_rrefs=False
    ):
        if not local_tensor.is_contiguous():
            raise ValueError("local_tensor is not a contiguous Tensor.")
        group = process_group if process_group is not None else dist._get_default_group()
        size = _flatten_tensor_size(global_size)
        metadata = sharding_spec.build_metadata(
            size, TensorProperties.create_from_tensor(local_tensor)
        )
        own = [
            Shard(local_tensor, piece)
            for piece in metadata.shards_metadata
            if _parse_and_validate_remote_device(group, piece.placement)[0] == dist.get_rank()
        ]
        return cls._init_from_local_shards_and_global_metadata(
            own, metadata, process_group=group, init_rrefs=init_rrefs, sharding_spec=sharding_spec
        )

    @classmethod
    def _init_from_local_shards_and_global_metadata(  # type: ignore[override]
        cls,
        local_shards,
        sharded_tensor_metadata,
        process_group=None,
        init_rrefs=False,
        sharding_spec=None,
    ):
        group = process_group if process_group is not None else dist._get_default_group()
        rank, properties = dist.get_rank(), sharded_tensor_metadata.tensor_properties
        wanted = [
            m
            for m in sharded_tensor_metadata.shards_metadata
            if _parse_and_validate_remote_device(group, m.placement)[0] == rank
        ]
        if len(local_shards) != len(wanted):
            raise RuntimeError(
                f"Number of local shards ({len(local_shards)}) does not match number of local shards metadata in "
                f"sharded_tensor_metadata ({len(wanted)}) on rank ({rank}) "
            )
        made = _of_metadata(cls, local_shards, sharded_tensor_metadata, sharding_spec)
        for shard in local_shards:
            for name in ("layout", "dtype", "requires_grad"):
                expected, actual = getattr(properties, name), getattr(shard.tensor, name)
                if expected != actual:
                    raise ValueError(
                        f"Local shards' tensor {name} property is incompatible with tensor property on rank {rank}: "
                        f"tensor property {name}={expected}, local shard tensor {name}={actual}."
                    )
            if not shard.tensor.is_contiguous():
                raise ValueError(
                    "Only torch.contiguous_format memory_format is currently supported"
                )
        made._begin(group, init_rrefs)
        made._local_shards = local_shards
        return made

    # --- what is done with it ---

    def gather(self, dst: int = 0, out=None, enforce_dtype: bool = False, dtype=None) -> None:  # type: ignore[override]
        """Puts the whole into a tensor of the group's rank ``dst``; all processes call it.

        Raises:
            ValueError: ``out`` is missing there, has other sizes, or is given elsewhere.
        """
        if enforce_dtype:
            warnings.warn(
                "`enforce_dtype` is deprecated. Please use `dtype` instead.",
                FutureWarning,
                stacklevel=2,
            )
        group, pieces = self._process_group, self._metadata.shards_metadata
        rank = group.rank()
        _validate_output_tensor_for_gather(rank, dst, self._metadata.size, out)
        sizes, begins = [0] * group.size(), []
        for piece in pieces:  # where each lies among those of its rank
            owner = dist.get_group_rank(group, piece.placement.rank())
            begins.append((owner, sizes[owner]))
            sizes[owner] += math.prod(piece.shard_sizes)
        if enforce_dtype:
            dtype = out.dtype if out is not None else self.dtype
        with torch.no_grad():
            data = torch.zeros(max(sizes), dtype=dtype or self.dtype)
            own = torch.cat(
                [
                    torch.zeros(0, dtype=self.dtype),
                    *[s.tensor.detach().flatten().cpu() for s in self._local_shards],
                ]
            )
            data[: own.numel()].copy_(own)
            found = [torch.empty_like(data) for _ in sizes] if rank == dst else None
            dist.gather(data, found, group=group, group_dst=dst)
            if found is not None:
                for piece, (owner, at) in zip(pieces, begins):
                    part = found[owner][at : at + math.prod(piece.shard_sizes)].view(
                        piece.shard_sizes
                    )
                    narrow_tensor(out, piece).copy_(part)

    def _moved(self, process_group, **to):
        device = to.get("device")
        shards, metadata = [], copy.deepcopy(self._metadata)
        metadata.tensor_properties.dtype = to.get("dtype", self.dtype)
        for piece in metadata.shards_metadata:
            if device is not None and piece.placement is not None:
                piece.placement._device = device
        for shard in self._local_shards:
            own = copy.deepcopy(shard.metadata)
            if device is not None and own.placement is not None:
                own.placement._device = device
            shards.append(Shard(shard.tensor.to(**to), own))
        return ShardedTensor._init_from_local_shards_and_global_metadata(
            shards,
            metadata,
            process_group=process_group or self._process_group,
            init_rrefs=self._init_rrefs,
        )

    def cpu(self, memory_format=torch.preserve_format, process_group=None):  # type: ignore[override]
        """The same on CPUs; itself if it is there."""
        if memory_format not in (torch.preserve_format, torch.contiguous_format):
            raise RuntimeError(
                "Only `torch.contiguous_format` or `torch.preserve_format` is supported!"
            )
        if all(m.placement.device().type == "cpu" for m in self._metadata.shards_metadata):
            return self
        return self._moved(process_group, device=torch.device("cpu"))

    def to(self, *args, **kwargs):  # type: ignore[override]
        """The same with another dtype, or on another kind of device."""
        group, wanted = kwargs.pop("process_group", None), {}
        for value in (*args, *[kwargs[k] for k in ("device", "dtype") if k in kwargs]):
            if isinstance(value, torch.dtype):
                wanted["dtype"] = value
            elif isinstance(value, torch.Tensor):
                wanted |= {"dtype": value.dtype, "device": value.device}
            elif isinstance(value, (str, int, torch.device)):
                wanted["device"] = torch.device(value)
            else:
                raise RuntimeError(f"ShardedTensor.to() have wrong arguments: {args}")
        now = self._local_shards[0].tensor.device if self._local_shards else torch.device("cpu")
        changes = wanted.get("dtype", self.dtype) != self.dtype or wanted.get("device", now) != now
        if not changes and not kwargs.get("copy", False):
            return self
        return self._moved(group, **wanted, copy=kwargs.get("copy", False))

    def sharding_spec(self) -> ShardingSpec:
        """How it is cut."""
        return self._sharding_spec

    def reshard(self, resharding_spec):
        """Cuts it in another way, in place.

        Raises:
            NotImplementedError: it is, or shall be, not cut into chunks.
        """
        if not isinstance(resharding_spec, ChunkShardingSpec) or not isinstance(
            self._sharding_spec, ChunkShardingSpec
        ):
            raise NotImplementedError("Only ChunkShardingSpec supported for reshard.")
        if len(self._local_shards) != 1:
            raise NotImplementedError(
                f"Only single local shard supported for reshard. Number of shards: {len(self._local_shards)}"
            )
        own, group, metadata = self.local_tensor(), self._process_group, self._metadata
        ranks = dist.get_process_group_ranks(group)
        before = {m.placement.rank(): m for m in metadata.shards_metadata}
        after = resharding_spec.build_metadata(
            metadata.size, metadata.tensor_properties
        ).shards_metadata
        wanted = {m.placement.rank(): m for m in after}
        mine, me = before[dist.get_rank()], wanted[dist.get_rank()]
        given = [own[_shared(mine, wanted[r], mine)].detach().contiguous().flatten() for r in ranks]
        got = [own.new_empty(_numel(_shared(before[r], me, me))) for r in ranks]
        dist.all_to_all(got, given, group=group)
        made = own.new_empty(me.shard_sizes)
        for r, part in zip(ranks, got):
            at = _shared(before[r], me, me)
            made[at] = part.view([s.stop - s.start for s in at])
        self._local_shards = [Shard(made.requires_grad_(own.requires_grad), me)]
        self._metadata.shards_metadata, self._sharding_spec = after, resharding_spec
        return self

    def local_tensor(self):
        """The one piece that the calling process has.

        Raises:
            NotImplementedError: it has none or several.
        """
        if len(self._local_shards) != 1:
            raise NotImplementedError(
                f"Only single local shard is supported. Number of shards: {len(self._local_shards)}"
            )
        return self._local_shards[0].tensor

    def is_pinned(self) -> bool:  # type: ignore[override]
        """Whether its pieces are in pinned memory."""
        return self._metadata.tensor_properties.pin_memory

    def remote_shards(self) -> dict:
        """{rank: references to its pieces}; raises RuntimeError unless it was made with ``init_rrefs=True``."""
        if not self._init_rrefs:
            raise RuntimeError(
                "ShardedTensor created with init_rrefs=False, no RRefs to remote shards available"
            )
        return self._remote_shards

    def _register_remote_shards(self, remote_shards, rpc_rank: int):
        self._remote_shards[rpc_rank] = remote_shards

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__") or name in _PLAIN:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        st = next(x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, ShardedTensor))
        known = _CUSTOM_SHARDED_OPS.get(func)
        if known is None and _has_custom_op(st._sharding_spec, func):
            known = functools.partial(_dispatch_custom_op, st._sharding_spec, func)
        known = known or _SHARDED_OPS.get(func)
        if known is None:
            raise RuntimeError(
                f"torch function '{name}', with args: {args} and kwargs: {kwargs} not supported for ShardedTensor!"
            )
        return known(types, args, kwargs, st._process_group)

    def __hash__(self):
        return id(self)

    def __repr__(self):  # type: ignore[override]
        return f"ShardedTensor({self._metadata})"

    # --- files ---

    @dataclass
    class ProcessGroupState:
        """Whose pieces a pickle has."""

        local_rank: int
        global_rank: int
        local_world_size: int
        global_world_size: int

        @classmethod
        def of(cls, group):
            """That of the calling process."""
            return cls(
                dist.get_rank(group),
                dist.get_rank(),
                dist.get_world_size(group),
                dist.get_world_size(),
            )

    def __reduce_ex__(self, protocol):
        state = ShardedTensor.ProcessGroupState.of(self._process_group)
        return _read, (
            self._local_shards,
            self._metadata,
            state,
            self._sharding_spec,
            self._init_rrefs,
        )

    def __create_write_items__(self, fqn, object):
        from ...checkpoint.metadata import ChunkStorageMetadata
        from ...checkpoint.planner import WriteItemType
        from ...checkpoint.planner_helpers import _create_write_item

        return [
            _create_write_item(
                fqn,
                self,
                ChunkStorageMetadata(torch.Size(m.shard_offsets), torch.Size(m.shard_sizes)),
                WriteItemType.SHARD,
            )
            for m in (shard.metadata for shard in self._local_shards)
        ]

    def __create_chunk_list__(self):
        from ...checkpoint.metadata import ChunkStorageMetadata

        pieces = [shard.metadata for shard in self._local_shards]
        return [
            ChunkStorageMetadata(torch.Size(m.shard_offsets), torch.Size(m.shard_sizes))
            for m in pieces
        ]

    def __get_tensor_shard__(self, index):
        for shard in self._local_shards:
            if torch.Size(shard.metadata.shard_offsets) == index.offset:
                return shard.tensor
        raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")


# What a wrapper answers itself.
_PLAIN = frozenset(
    "size dim stride numel ndimension is_floating_point is_complex element_size requires_grad_".split()
)


def _read(local_shards, metadata, state, spec, init_rrefs):
    """The tensor of a pickle.

    Raises:
        RuntimeError: there is no group, or the calling process has another place in it than who wrote the pickle.
    """
    if not dist.is_initialized():
        raise RuntimeError(
            'Need to initialize default process group using "init_process_group" before loading ShardedTensor'
        )
    group = groups[-1] if groups else dist._get_default_group()
    now = ShardedTensor.ProcessGroupState.of(group)
    for name, text in (
        ("local_rank", "Local rank"),
        ("global_rank", "Global rank"),
        ("local_world_size", "Local world size"),
        ("global_world_size", "Global world size"),
    ):
        if getattr(state, name) != getattr(now, name):
            raise RuntimeError(
                f"{text} at save time was {getattr(state, name)}, but at load time was {getattr(now, name)}"
            )
    made = _of_metadata(ShardedTensor, local_shards, metadata, spec)
    made._begin(group, init_rrefs)
    made._local_shards = local_shards
    return made


def _shared(a, b, inside):
    """The box that two have in common, as slices of one of them."""
    found = []
    for ao, an, bo, bn, at in zip(
        a.shard_offsets, a.shard_sizes, b.shard_offsets, b.shard_sizes, inside.shard_offsets
    ):
        begin, end = max(ao, bo), min(ao + an, bo + bn)
        found.append(slice(begin - at, max(begin, end) - at))
    return tuple(found)


def _numel(box):
    return math.prod(s.stop - s.start for s in box)


def _chunked(spec, tensor, src_rank, process_group):
    """See `ChunkShardingSpec.shard`."""
    group = process_group if process_group is not None else dist._get_default_group()
    metadata = spec.build_metadata(tensor.size(), TensorProperties.create_from_tensor(tensor))
    source = src_rank if process_group is None else dist.get_global_rank(group, src_rank)
    ranks = dist.get_process_group_ranks(group)
    pieces = {
        _parse_and_validate_remote_device(group, m.placement)[0]: m
        for m in metadata.shards_metadata
    }
    for rank in pieces:
        dist.get_group_rank(group, rank)
    widest = list(metadata.shards_metadata[0].shard_sizes)
    given = None
    if dist.get_rank() == source:  # all of one size
        given = []
        for rank in ranks:
            part = tensor.new_zeros(widest)
            if rank in pieces:
                narrow = narrow_tensor(tensor.detach(), pieces[rank])
                part[tuple(slice(0, n) for n in narrow.shape)] = narrow
            given.append(part)
    local = tensor.detach().new_empty(widest)
    dist.scatter(local, given, src=source, group=group)
    shards = []
    if dist.get_rank() in pieces:
        own = pieces[dist.get_rank()]
        part = local[tuple(slice(0, n) for n in own.shard_sizes)].contiguous()
        shards = [Shard(part.requires_grad_(tensor.requires_grad), own)]
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        shards, metadata, process_group=group, sharding_spec=spec
    )


make_shards[0] = _chunked
