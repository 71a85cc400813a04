"""Plans by default: each part is written once, and whatever is asked for is read
(``torch.distributed.checkpoint.default_planner``)."""

from __future__ import annotations

import dataclasses
import io
import math
from typing import Any

import ftorch as torch

from ._nested_dict import flatten_state_dict, put
from .metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)
from .planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from .planner_helpers import (
    _create_default_metadata_only_plan,
    _create_read_items,
)
from .resharding import _check_shard_metadata_pair_overlap
from .utils import find_state_dict_object

__all__ = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan",
    "create_default_global_save_plan", "create_default_local_load_plan", "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Each part is written once, by one of the ranks that have it.

    Args:
        flatten_state_dict: whether nested values are saved one by one, under dotted names.
        dedup_save_to_lowest_rank: whether the lowest rank writes what several have; else the one that has
            least to write.

    A planner of one's own often changes values only:

    >>> import ftorch as torch, tempfile
    >>> import ftorch.distributed.checkpoint as dcp
    >>> class Halves(dcp.DefaultSavePlanner):
    ...     def transform_object(self, write_item, object):
    ...         object = super().transform_object(write_item, object)
    ...         return object / 2 if isinstance(object, torch.Tensor) else object
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"a": torch.ones(2)}, checkpoint_id=folder, planner=Halves())
    ...     state = {"a": torch.zeros(2)}
    ...     dcp.load(state, checkpoint_id=folder)
    >>> state
    {'a': tensor([0.5000, 0.5000])}
    """

    mappings: dict

    def __init__(self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
                 dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
                 enable_plan_caching: bool = False):
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.dedup_save_to_lowest_rank, self.mappings = dedup_save_to_lowest_rank, {}
        self.state_dict: dict = {}
        self.is_coordinator = False

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator: bool = False) -> None:
        """Takes what is saved."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        """All that this rank has."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=dict(self.mappings))
        self.plan = plan
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """The plans without what several ranks have, and the index.

        Raises:
            ValueError: if parts overlap, or do not make up their tensors.
        """
        plans, metadata = create_default_global_save_plan(
            _without_duplicates(all_plans, self.dedup_save_to_lowest_rank)
        )
        if self.flatten_state_dict:
            merged: dict = {}
            for plan in plans:
                merged |= plan.planner_data or {}
            metadata = dataclasses.replace(metadata, planner_data=merged)
        wrong = _mistakes(metadata)
        if wrong:
            raise ValueError(f"Failed to validate global plan: {'; '.join(wrong)}")
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The plan as it is."""
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        """The value of an item."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value that an index names."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any):
        """What is written of a value: bytes of what is no tensor."""
        if write_item.type is WriteItemType.BYTE_IO:
            buffer = io.BytesIO()
            torch.save(object, buffer)
            object = buffer
        return object


class DefaultLoadPlanner(LoadPlanner):
    """All that is asked for is loaded, in place.

    Args:
        flatten_state_dict: whether nested values were saved one by one.
        allow_partial_load: whether names may be missing in the checkpoint.
    """

    original_state_dict: dict
    mappings: dict

    def __init__(self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
                 allow_partial_load: bool = False):
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator: bool = False) -> None:
        """Takes what is loaded into."""
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """What fills the values of this rank."""
        if self.metadata is None:
            raise AssertionError("metadata is None")
        if self.flatten_state_dict:
            others = self.metadata.state_dict_metadata.keys() - self.state_dict.keys()
            earlier, mappings = flatten_state_dict(self.original_state_dict, before_2_4=True)
            if others & earlier.keys():  # a checkpoint of PyTorch 2.3 or before
                self.state_dict, self.mappings = earlier, mappings
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Puts a value that is no tensor into the state dict."""
        name, loaded = read_item.dest_index.fqn, torch.load(value, weights_only=False)
        if self.flatten_state_dict:
            put(self.original_state_dict, self.mappings[name], loaded)
            self.state_dict[name] = loaded
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem):
        """The box of this rank's tensor that an item fills."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor) -> None:
        """Nothing: the tensor is the state dict's own."""

    def lookup_tensor(self, index: MetadataIndex):
        """The tensor that an index names."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor):
        """The box of a tensor that an item fills."""
        for dim, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths)):
            tensor = tensor.narrow(dim, start, length)
        return tensor


def _create_default_local_metadata(state_dict: dict) -> Metadata:
    """The index of a checkpoint that one process makes of a state dict."""
    return create_default_global_save_plan([_create_default_metadata_only_plan(state_dict)])[1]


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads into an empty state dict all that a checkpoint has.

    Args:
        keys: only what is under these names, in the state dict or in the checkpoint, or within what is.
    """

    def __init__(self, keys=None, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys = keys

    def _should_include_key(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key)
        if path is None:
            return any(key.startswith(f"{k}.") for k in self.keys)
        names = [".".join(map(str, path[: i + 1])) for i in range(len(path))]
        return any(name in self.keys for name in names)

    def set_up_planner(self, state_dict, metadata=None, is_coordinator: bool = False) -> None:
        """Makes an empty value for each of the checkpoint's."""
        if state_dict:
            raise AssertionError("state_dict must be empty")
        if metadata is None:
            raise AssertionError("metadata is None")
        for name, described in metadata.state_dict_metadata.items():
            if self._should_include_key(name, metadata):
                value = None
                if isinstance(described, TensorStorageMetadata):
                    value = torch.empty(tuple(described.size), dtype=described.properties.dtype)
                put(state_dict, (metadata.planner_data or {}).get(name, (name,)), value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def create_default_local_load_plan(state_dict: dict, metadata: Metadata, strict: bool = True) -> LoadPlan:
    """What fills the values of a state dict.

    Raises:
        RuntimeError: if a name is missing and ``strict``.
        ValueError: if a shape differs.
    """
    items = []
    for name, value in state_dict.items():
        described = metadata.state_dict_metadata.get(name)
        if described is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        is_tensor = isinstance(described, TensorStorageMetadata)
        if is_tensor and hasattr(value, "size") and tuple(described.size) != tuple(value.size()):
            raise ValueError(
                f"Size mismatch between saved {described.size} and current: {value.size()} for {name}"
            )
        items += _create_read_items(name, described, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are."""
    return all_plans


def create_default_local_save_plan(state_dict: dict, is_coordinator: bool) -> SavePlan:
    """All that this rank has."""
    return _create_default_metadata_only_plan(state_dict)


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The plans, whose indices say which of a tensor's parts they are, and the index of all of them."""
    described: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name = item.index.fqn
            if item.tensor_data is None:
                described[name] = BytesStorageMetadata()
                items.append(item)
                continue
            found = described.setdefault(
                name, TensorStorageMetadata(item.tensor_data.properties, item.tensor_data.size, [])
            )
            index = item.index
            if rewrite_index_hints:
                index = dataclasses.replace(index, index=len(found.chunks))
            items.append(dataclasses.replace(item, index=index))
            found.chunks.append(item.tensor_data.chunk)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(described, version="1.0.0")


def _bytes_of(item):
    if item.tensor_data is None:
        return 1
    return math.prod(item.tensor_data.chunk.sizes) * item.tensor_data.properties.dtype.itemsize


def _without_duplicates(plans, to_lowest):
    """What several ranks have is written by the one that has least to write, or by the lowest."""
    holders: dict[MetadataIndex, list[int]] = {}
    items: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            holders.setdefault(item.index, []).append(rank)
            items.setdefault(item.index, item)
    load, writer = [0] * len(plans), {}
    for index, ranks in holders.items():
        alike = items[index].tensor_data is None  # objects may differ between ranks: rank 0's count
        writer[index] = ranks[0] if to_lowest or alike else min(ranks, key=lambda r: load[r])
        load[writer[index]] += _bytes_of(items[index])
    return [
        dataclasses.replace(plan, items=[i for i in plan.items if writer[i.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _mistakes(metadata):
    """What is wrong with an index: parts that overlap, reach out, or leave elements open."""
    wrong = []
    for name, described in metadata.state_dict_metadata.items():
        if isinstance(described, BytesStorageMetadata):
            continue
        count = 0
        for i, chunk in enumerate(described.chunks):
            count += math.prod(chunk.sizes)
            ends = [o + n for o, n in zip(chunk.offsets, chunk.sizes)]
            if any(o < 0 for o in chunk.offsets) or any(e > s for e, s in zip(ends, described.size)):
                wrong.append(f"key:{name} has out of bounds chunk: tensor-size:{described.size} chunk: {chunk}")
            # Parts that make up the whole without overlapping have its number of elements; only else it is asked which.
            if count > math.prod(described.size):
                for other in described.chunks[:i]:
                    if _check_shard_metadata_pair_overlap(chunk, other):
                        wrong.append(f"key:{name} has overlapping chunks: {chunk} {other}")
        if count != math.prod(described.size):
            wrong.append(f"key:{name} invalid fill tensor-volume: {math.prod(described.size)} chunks-volume: {count}")
    return wrong
