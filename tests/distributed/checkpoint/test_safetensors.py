"""Checkpoints as safetensors files, on other file systems and from copies, against PyTorch's."""

# PyTorch's module does not say what it exports.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import shutil
import tempfile

import pytest
import torch as pt
import torch.distributed.checkpoint as theirs

import ftorch as ft
import ftorch.distributed.checkpoint as mine
from ftorch.distributed.checkpoint import format_utils, staging
from ftorch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter


def state(t):
    return {
        "a": t.arange(12.0).view(3, 4), "b": t.ones(2, 2, dtype=t.bfloat16) / 3, "c": t.arange(5),
        "d": t.tensor(2.5), "e": t.tensor([True, False]),
    }


def empty(t):
    return {k: t.zeros_like(v) for k, v in state(t).items()}


SIDES = {"mine": (ft, mine), "theirs": (pt, theirs)}


@pytest.mark.parametrize("saves, loads", [("mine", "theirs"), ("theirs", "mine"), ("mine", "mine")])
@pytest.mark.parametrize("mapping", [None, {"a": 1, "b": 2, "c": 2, "d": 1, "e": 1}])
def test_files_are_exchanged(tmp_path, saves, loads, mapping):
    (t, saver), (u, loader) = SIDES[saves], SIDES[loads]
    saver.save(state(t), storage_writer=saver.HuggingFaceStorageWriter(str(tmp_path), mapping), no_dist=True)
    assert (tmp_path / "model.safetensors.index.json").exists()
    found = empty(u)
    loader.load(found, storage_reader=loader.HuggingFaceStorageReader(str(tmp_path)), no_dist=True)
    for key, value in state(pt).items():
        pt.testing.assert_close(pt.tensor(found[key].tolist()), pt.tensor(value.tolist()))
        assert str(found[key].dtype).split(".")[-1] == str(value.dtype).split(".")[-1]


def test_safetensors_reads_them(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    mine.save(state(ft), storage_writer=mine.HuggingFaceStorageWriter(str(tmp_path)), no_dist=True)
    found = safetensors.load_file(tmp_path / "model-00001-of-00001.safetensors")
    assert set(found) == set(state(pt))
    for key, value in state(pt).items():
        pt.testing.assert_close(found[key], value)


def _folder(d, rank):
    box = [tempfile.mkdtemp() if rank == 0 else None]
    d.broadcast_object_list(box, 0)
    return box[0]


def divided(t, d, rank):
    """Parts of two processes, made whole; read by other processes with another division."""
    n = __import__(f"{t.__name__}.distributed.tensor", fromlist=["x"])
    dcp = __import__(f"{t.__name__}.distributed.checkpoint", fromlist=["x"])
    mesh, folder = d.init_device_mesh("cpu", (2,)), _folder(d, rank)
    whole = t.arange(20.0).view(5, 4)
    own = {"w": n.distribute_tensor(whole, mesh, [n.Shard(0)]), "v": n.distribute_tensor(whole * 2, mesh, [n.Shard(1)])}
    writer = dcp.HuggingFaceStorageWriter(folder, {"w": 1, "v": 2}, save_distributed=True, enable_consolidation=True)
    dcp.save(own, storage_writer=writer)
    d.barrier()
    out = []
    for place in (folder, f"{folder}/sharded"):
        found = {k: n.distribute_tensor(t.zeros(5, 4), mesh, [n.Shard(1)]) for k in ("w", "v")}
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(place))
        out += [found["w"].full_tensor(), found["v"].full_tensor()]
    d.barrier()
    if rank == 0:
        shutil.rmtree(folder)
    return out


def test_two_processes(two):
    two.run(divided)


def test_other_file_systems():
    pytest.importorskip("fsspec")
    mine.save(state(ft), storage_writer=FsspecWriter("memory://checkpoints/one"), no_dist=True)
    mine.save({"a": ft.ones(3, 4)}, storage_writer=FsspecWriter("memory://checkpoints/one"), no_dist=True)
    found = {"a": ft.zeros(3, 4)}
    mine.load(found, storage_reader=FsspecReader("memory://checkpoints/one"), no_dist=True)
    assert found["a"].tolist() == [[1.0] * 4] * 3


def test_into_an_empty_state_dict(tmp_path):
    theirs.save({"model": {"w": pt.arange(3.0)}, "n": 3}, checkpoint_id=tmp_path, no_dist=True)
    found: dict = {}
    format_utils._load_state_dict(
        found, mine.FileSystemReader(tmp_path), planner=format_utils._EmptyStateDictLoadPlanner(), no_dist=True
    )
    assert found["model"]["w"].tolist() == [0, 1, 2] and found["n"] == 3
    some: dict = {}
    planner = format_utils._EmptyStateDictLoadPlanner(keys={"model"})
    format_utils._load_state_dict(some, mine.FileSystemReader(tmp_path), planner=planner, no_dist=True)
    assert list(some) == ["model"]


@pytest.mark.parametrize("stager", [
    staging.BlockingAsyncStager(), staging.BlockingAsyncStager(cache_staged_state_dict=True), staging.DefaultStager(),
])
def test_copies_are_made_first(tmp_path, stager):
    for step in range(2):
        w = ft.full((3,), float(step))
        future = mine.async_save({"w": w}, checkpoint_id=tmp_path / str(step), async_stager=stager, no_dist=True)
        w.fill_(-1)
        future.result(timeout=60)
        found = {"w": ft.zeros(3)}
        mine.load(found, checkpoint_id=tmp_path / str(step), no_dist=True)
        assert found["w"].tolist() == [step] * 3
    stager.close()


def _quantized_files(folder):
    import json

    import numpy as np
    from safetensors.numpy import save_file

    rng = np.random.RandomState(0)
    parts = {
        "a.weight": rng.randint(-127, 127, (5, 7)).astype(np.int8), "a.weight_scale_inv": rng.rand(2, 2).astype(np.float32),
        "b": rng.rand(3).astype(np.float32), "m_blocks": rng.randint(0, 256, (2, 3, 2, 4)).astype(np.uint8),
        "m_scales": rng.randint(120, 130, (2, 3, 2)).astype(np.uint8),
    }
    name = "model-00001-of-00001.safetensors"
    save_file(parts, folder / name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(parts, name)}))
    return parts


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_quantized_files(tmp_path, dtype):
    parts, found = _quantized_files(tmp_path), []
    for t, dcp in ((pt, theirs), (ft, mine)):
        module = __import__(f"{t.__name__}.distributed.checkpoint.quantized_hf_storage", fromlist=["x"])
        reader = module.QuantizedHuggingFaceStorageReader(tmp_path, target_dtype=getattr(t, dtype), block_size=4)
        state = {"a.weight": t.zeros(5, 7, dtype=getattr(t, dtype)), "b": t.zeros(3)}
        dcp.load(state, storage_reader=reader, no_dist=True)
        found.append({k: v.float().tolist() for k, v in state.items()})
    assert found[0] == found[1]
    groups = {"m_blocks": ft.zeros(2, 3, 16)}  # PyTorch fills no more numbers than there are bytes
    mine.load(groups, storage_reader=reader, no_dist=True)
    low, high = parts["m_blocks"] & 7, parts["m_blocks"] >> 4 & 7
    table, powers = [0, 0.5, 1, 1.5, 2, 3, 4, 6], 2.0 ** (parts["m_scales"].astype(int) - 127)
    for at, numbers, bit in ((0, low, 8), (1, high, 128)):
        for i in range(2 * 3 * 2 * 4):
            sign = -1 if parts["m_blocks"].flat[i] & bit else 1
            assert groups["m_blocks"].flatten()[2 * i + at].item() == sign * table[numbers.flat[i]] * powers.flat[i // 4]
