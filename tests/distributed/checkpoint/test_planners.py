"""Planners and storages of one's own, against PyTorch's."""

from __future__ import annotations

import importlib
import io

import pytest
import torch as pt

import ftorch as ft

from .test_checkpoint import _folder


def _part(t, name):
    return importlib.import_module(f"{t.__name__}.distributed.{name}")


def planners(t, d, rank):
    """Names and values changed on the way, names that are missing, and what the index says."""
    dcp, n = _part(t, "checkpoint"), _part(t, "tensor")

    class Renamed(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            super().set_up_planner({f"old.{k}": v for k, v in state_dict.items()}, storage_meta, is_coordinator)

        def transform_object(self, write_item, object):
            object = super().transform_object(write_item, object)
            return object * 2 if isinstance(object, t.Tensor) else object

    class Added(dcp.DefaultLoadPlanner):
        def commit_tensor(self, read_item, tensor):
            tensor += 1

    mesh, folder = d.init_device_mesh("cpu", (2,)), _folder(d, rank)
    x = n.distribute_tensor(t.arange(10.0).view(5, 2), mesh, [n.Shard(0)])
    index = dcp.save({"x": x, "y": t.ones(3), "z": 7}, checkpoint_id=folder, planner=Renamed())
    d.barrier()
    loaded = {"old.x": n.distribute_tensor(t.zeros(5, 2), mesh, [n.Shard(1)]), "old.y": t.zeros(3), "old.z": 0}
    dcp.load(loaded, checkpoint_id=folder, planner=Added())
    some = {"old.y": t.zeros(3), "other": t.zeros(1)}
    dcp.load(some, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    missing = []
    try:
        dcp.load({"other": t.zeros(1)}, checkpoint_id=folder)
    except BaseException as error:
        missing = [str(e) for e in error.failures.values()]
    described = index.state_dict_metadata if rank == 0 else {}
    chunks = [[list(c.offsets), list(c.sizes)] for c in described["old.x"].chunks] if described else []
    d.barrier()
    if rank == 0:
        __import__("shutil").rmtree(folder)
    values = loaded["old.x"].full_tensor(), loaded["old.y"], loaded["old.z"]
    return values, some, missing, sorted(described), chunks


def test_planners(two):
    two.run(planners)


def _stored(t):
    """What a storage in memory is asked, in order, and what comes back from it."""
    storage, planner = _part(t, "checkpoint.storage"), _part(t, "checkpoint.planner")
    futures, dcp = importlib.import_module(f"{t.__name__}.futures"), _part(t, "checkpoint")
    kept, asked = {}, []

    def done(value=None):
        future = futures.Future()
        future.set_result(value)
        return future

    class Named:
        @classmethod
        def validate_checkpoint_id(cls, checkpoint_id):
            return True

    class Writer(Named, storage.StorageWriter):
        def reset(self, checkpoint_id=None):
            asked.append(f"reset {checkpoint_id}")

        def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
            asked.append(f"set up {is_coordinator}")

        def prepare_local_plan(self, plan):
            asked.append(sorted((i.index.fqn, i.type.name) for i in plan.items))
            return plan

        def prepare_global_plan(self, plans):
            asked.append(f"{len(plans)} plans")
            return plans

        def write_data(self, plan, planner):
            results = []
            for item in plan.items:
                value = planner.resolve_data(item)
                kept[item.index] = value.getvalue() if isinstance(value, io.BytesIO) else value.detach().clone()
                asked.append((item.index.fqn, item.tensor_storage_size()))
                results.append(storage.WriteResult(item.index, 1, item.index.fqn))
            return done(results)

        def finish(self, metadata, results):
            asked.append([len(row) for row in results])
            kept["index"] = metadata

    class Reader(Named, storage.StorageReader):
        def reset(self, checkpoint_id=None):
            asked.append(f"reset {checkpoint_id}")

        def read_metadata(self, *args, **kwargs):
            return kept["index"]

        def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
            asked.append(f"set up {is_coordinator}")

        def prepare_local_plan(self, plan):
            return plan

        def prepare_global_plan(self, plans):
            return plans

        def read_data(self, plan, own):
            for item in plan.items:
                if item.type is planner.LoadItemType.BYTE_IO:
                    own.load_bytes(item, io.BytesIO(kept[item.storage_index]))
                else:
                    target = own.resolve_tensor(item).detach()
                    asked.append((tuple(item.lengths), tuple(target.shape)))
                    target.copy_(kept[item.storage_index])
                    own.commit_tensor(item, target)
            return done()

    state = {"m": {"w": t.arange(6.0).view(2, 3), "s": t.tensor(2.0)}, "n": [1, 2]}
    dcp.save(state, checkpoint_id="here", storage_writer=Writer(), no_dist=True)
    found = {"m": {"w": t.zeros(2, 3), "s": t.zeros(())}, "n": []}
    dcp.load(found, checkpoint_id="there", storage_reader=Reader(), no_dist=True)
    return asked, found["m"]["w"].tolist(), found["m"]["s"].item(), found["n"]


@pytest.mark.filterwarnings("ignore")
def test_storages():
    assert _stored(ft) == _stored(pt)


def test_an_invalid_plan():
    from ftorch.distributed.checkpoint import DefaultSavePlanner
    from ftorch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        MetadataIndex,
        TensorProperties,
    )
    from ftorch.distributed.checkpoint.planner import (
        SavePlan,
        TensorWriteData,
        WriteItem,
        WriteItemType,
    )

    def item(offset, length):
        chunk = ChunkStorageMetadata(ft.Size([offset]), ft.Size([length]))
        data = TensorWriteData(chunk, TensorProperties(ft.float32), ft.Size([4]))
        return WriteItem(MetadataIndex("w", (offset,)), WriteItemType.SHARD, tensor_data=data)

    for parts, said in (
        ([(0, 2)], "invalid fill tensor-volume: 4 chunks-volume: 2"),
        ([(0, 3), (2, 2)], "overlapping chunks"),
        ([(0, 2), (3, 2)], "out of bounds"),
    ):
        with pytest.raises(ValueError, match=said):
            DefaultSavePlanner().create_global_plan([SavePlan([item(*p) for p in parts])])


def test_nested_states_and_flat_ones():
    """Names and paths of values in nested states, and the way back, as PyTorch's."""
    import torch as pt
    from torch.distributed.checkpoint import _nested_dict as theirs

    import ftorch as ft
    from ftorch.distributed.checkpoint import _nested_dict as mine

    def state(t):
        return {
            "model": {"w": t.ones(2), 3: t.zeros(1)}, "steps": [1, 2], "mixed": [1, {"a": t.ones(1)}, [t.ones(2), 5]],
            "empty": {}, "none": None, "groups": [{"lr": 0.1, "params": [0, 1]}], "deep": {"a": {"b": {"c": (1, 2)}}},
        }

    def plain(value):
        return [(k, v if not hasattr(v, "tolist") else v.tolist()) for k, v in value.items()]

    flat, paths = mine.flatten_state_dict(state(ft))
    other, their_paths = theirs.flatten_state_dict(state(pt))
    assert plain(flat) == plain(other) and paths == their_paths
    back, their_back = mine.unflatten_state_dict(flat, paths), theirs.unflatten_state_dict(other, their_paths)
    assert str(back) == str(their_back)
    with pytest.raises(ValueError, match="duplicated flatten key a.b"):
        mine.flatten_state_dict({"a": {"b": 1}, "a.b": 2})
