"""Checkpoints of one process against PyTorch's: items, files, copies, and where numbers of launchers go."""

from __future__ import annotations

import importlib
import io
import os
import types
from typing import get_args, get_origin

import pytest
import torch as pt

import ftorch as ft

BOTH = pytest.mark.parametrize("t", (pt, ft), ids=("torch", "ftorch"))


def _part(t, name):
    return importlib.import_module(f"{t.__name__}.distributed.{name}")


def _item(item):
    return (
        item.type.name, item.dest_index.fqn, tuple(item.dest_offsets), item.storage_index.fqn, tuple(item.storage_offsets),
        tuple(item.lengths),
    )


def test_items():
    def seen(t):
        helpers, metadata = _part(t, "checkpoint.planner_helpers"), _part(t, "checkpoint.metadata")
        default, x = _part(t, "checkpoint.default_planner"), t.ones(4, 5)
        index = default._create_default_local_metadata({"x": x, "n": 3})
        wanted = [metadata.ChunkStorageMetadata(t.Size([1, 2]), t.Size([2, 3]))]
        read = helpers.create_read_items_for_chunk_list("x", index.state_dict_metadata["x"], wanted)
        place = metadata.MetadataIndex("x", [0, 0])
        read += [
            helpers._create_read_item_for_tensor(place, (0, 0), place, (1, 1), (2, 2)),
            helpers._create_read_item_for_byteio(place, 1, place, 2, 3),
        ]
        tensor, other = helpers._create_write_item_for_tensor("x", x), helpers._create_write_item_for_bytesio("n", 3)
        return (
            [_item(i) for i in read], tensor.type.name, tuple(tensor.tensor_data.chunk.sizes), other.type.name,
            tuple(helpers._create_chunk_from_tensor(x).offsets),
            {k: type(v).__name__ for k, v in index.state_dict_metadata.items()},
        )

    assert seen(ft) == seen(pt)


def test_items_in_files():
    planner, storage, metadata = (_part(ft, f"checkpoint.{m}") for m in ("planner", "filesystem", "metadata"))
    stream, index = io.BytesIO(b"..."), metadata.MetadataIndex("x")
    stream.seek(0, 2)
    first = storage._write_item(stream, ft.arange(3.0), planner.WriteItem(index, planner.WriteItemType.TENSOR), "file")
    last = storage._write_item(stream, io.BytesIO(b"four"), planner.WriteItem(index, planner.WriteItemType.BYTE_IO), "file")
    where = first.storage_data
    assert (where.offset, where.relative_path, last.storage_data.offset, last.size_in_bytes) == (3, "file", 3 + where.length, 4)
    read = stream.getvalue()[where.offset : where.offset + where.length]
    assert pt.load(io.BytesIO(read)).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(AssertionError, match="Data must be io.BytesIO for BYTE_IO write items"):
        storage._write_item(stream, ft.ones(1), planner.WriteItem(index, planner.WriteItemType.BYTE_IO), "file")
    with pytest.raises(AssertionError, match="Data must be torch.Tensor for non-BYTE_IO write items"):
        storage._write_item(stream, b"", planner.WriteItem(index, planner.WriteItemType.TENSOR), "file")


@pytest.mark.parametrize("options", ({}, {"single_file_per_rank": False}, {"thread_count": 2}), ids=str)
@pytest.mark.filterwarnings("ignore:.*no_dist.*")
def test_files_of_a_rank(tmp_path, options):
    def names(t, folder):
        dcp = _part(t, "checkpoint")
        state = {"a": t.ones(8), "b": t.zeros(2), "c": 1, "d": t.ones(6)}
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, **options))
        return sorted(os.listdir(folder))

    assert names(ft, tmp_path / "ours") == names(pt, tmp_path / "theirs")
    indices = [_part(t, "checkpoint").FileSystemReader(tmp_path / "ours").read_metadata() for t in (ft, pt)]
    assert [i.version for i in indices] == [_part(pt, "checkpoint.filesystem").CURRENT_DCP_VERSION] * 2
    dcp, loaded = _part(pt, "checkpoint"), {"a": pt.zeros(8), "b": pt.ones(2), "c": 0, "d": pt.zeros(6)}
    dcp.load(loaded, checkpoint_id=tmp_path / "ours")
    assert loaded["a"].sum() == 8 and loaded["d"].sum() == 6 and loaded["c"] == 1


@BOTH
def test_writers_make_the_copies(t, tmp_path):
    dcp = _part(t, "checkpoint")

    class Tracking(dcp.FileSystemWriter):
        _synchronize_after_execute = True
        waited = 0

        def synchronize_staging(self):
            self.waited += 1

    writer = Tracking(tmp_path, per_thread_copy_ahead=1024, cache_staged_state_dict=t is ft)
    assert isinstance(writer, _part(t, "checkpoint.staging").AsyncStager) and writer.per_thread_copy_ahead == 1024
    first = writer.stage({"x": t.ones(2)})["x"]
    again = writer.stage({"x": t.zeros(2)})["x"]
    assert (first.data_ptr() == again.data_ptr()) == (t is ft)  # PyTorch's pins that memory, which takes an accelerator
    assert writer.per_thread_copy_ahead == 0
    if t is ft:
        dcp.async_save({"x": t.ones(2)}, storage_writer=writer).result()
        assert writer.waited == 1


@BOTH
def test_names_of_what_is_loaded_into_nothing(t):
    default, metadata = _part(t, "checkpoint.default_planner"), _part(t, "checkpoint.metadata")
    index = default._create_default_local_metadata({"0": t.ones(3, 4), "1": t.ones(1)})
    index.planner_data = {"0": ("model", "layer", "weight"), "1": ("model", "bias")}
    for keys in ({"model.layer.weight"}, {"model.layer"}, {"0"}):
        state = {}
        default._EmptyStateDictLoadPlanner(keys=keys).set_up_planner(state, index)
        assert list(state["model"]) == ["layer"] and state["model"]["layer"]["weight"].shape == (3, 4)
    assert metadata is not None


@BOTH
def test_a_reader_of_whole_files_takes_tensors_only(t, tmp_path):
    formats, helpers = _part(t, "checkpoint.format_utils"), _part(t, "checkpoint.planner_helpers")
    planner, metadata = _part(t, "checkpoint.planner"), _part(t, "checkpoint.metadata")
    t.save({"payload": ["step", 1]}, tmp_path / "x.pt")
    reader, place = formats.BroadcastingTorchSaveReader(tmp_path / "x.pt"), metadata.MetadataIndex("payload")
    reader.is_coordinator = True
    plan = planner.LoadPlan([helpers._create_read_item_for_byteio(place, 0, place, 0, 0)])
    with pytest.raises(RuntimeError, match="only supports loading Tensors"):
        reader.read_data(plan, types.SimpleNamespace(flatten_state_dict=True, state_dict={}))


@BOTH
def test_where_numbers_of_launchers_go(t):
    metrics, seen = _part(t, "elastic.metrics.api"), []
    before, groups = metrics._default_metrics_handler, dict(metrics._metrics_map)

    class Kept(metrics.MetricHandler):
        def emit(self, metric_data):
            seen.append((metric_data.group_name, metric_data.name, metric_data.value))

    try:
        metrics.configure(Kept(), group="own")
        metrics.put_metric("a", 1)
        metrics.put_metric("b", 2, "own")
        assert isinstance(metrics._metrics_map["own"], Kept) and metrics._default_metrics_handler is before
        metrics.configure(Kept())
        metrics.put_metric("c", 3)
    finally:
        metrics._default_metrics_handler = before
        metrics._metrics_map.clear()
        metrics._metrics_map.update(groups)
    assert seen == [("own", "b", 2), ("torchelastic", "c", 3)]


def test_values_of_events():
    ours, theirs = (_part(t, "elastic.events").EventMetadataValue for t in (ft, pt))
    assert get_origin(ours) is get_origin(theirs) and get_args(ours) == get_args(theirs)
    assert _part(ft, "elastic.events")._get_or_create_logger("null").name == (
        _part(pt, "elastic.events")._get_or_create_logger("null").name
    )
