"""Checkpoints: files exchanged with PyTorch both ways, other divisions on load, saves that are killed."""

# PyTorch's module does not say what it exports.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import os
import pickle
import shutil
import tempfile

import pytest
import torch as pt
import torch.distributed.checkpoint as theirs

import ftorch as ft
import ftorch.distributed.checkpoint as mine


def state(t):
    return {
        "a": t.arange(6.0).view(2, 3), "n": {"b": t.ones(2, dtype=t.bfloat16), "l": [1, t.zeros(1)]},
        "s": "text", "i": 5, "scalar": t.tensor(3.0), "none": None, "plain": [1, 2],
        "groups": [{"lr": 0.1, "params": [0, 1]}, {"lr": 0.2, "betas": (0.9, 0.99), "more": {"deep": [3]}}],
        "lists": [[1, 2], [{"x": 1}]], "settings": {"a": 1, "b": {"c": "d"}}, "nothing": {}, "pair": (1, {"k": 2}),
    }


def empty(t):
    return {
        "a": t.zeros(2, 3), "n": {"b": t.zeros(2, dtype=t.bfloat16), "l": [0, t.ones(1)]},
        "s": "", "i": 0, "scalar": t.tensor(0.0), "none": 1, "plain": [],
        "groups": [{"lr": 0.0, "params": []}, {"lr": 0.0, "betas": (), "more": {"deep": [0]}}],
        "lists": [[0], [{"x": 0}]], "settings": {"a": 0, "b": {"c": ""}}, "nothing": {}, "pair": (),
    }


@pytest.mark.parametrize("saves, loads", [("mine", "theirs"), ("theirs", "mine"), ("mine", "mine")])
def test_files_are_exchanged(tmp_path, saves, loads):
    known = {"mine": (mine, ft), "theirs": (theirs, pt)}
    (saver, t), (loader, u) = known[saves], known[loads]
    saver.save(state(t), checkpoint_id=str(tmp_path), no_dist=True)
    loaded = empty(u)
    loader.load(loaded, checkpoint_id=str(tmp_path), no_dist=True)
    assert str(loaded) == str(state(u))


def test_files_have_the_same_names(tmp_path):
    named = []
    for i, (library, t) in enumerate(((theirs, pt), (mine, ft))):
        folder = str(tmp_path / str(i))
        library.save(state(t), checkpoint_id=folder, no_dist=True)
        index = library.FileSystemReader(folder).read_metadata()
        named.append((list(index.state_dict_metadata), index.planner_data))
    assert named[0] == named[1]


def test_states_of_optimizers(tmp_path):
    """Their keys are numbers, which are text in files."""
    def made(t):
        t.manual_seed(0)
        model = t.nn.Linear(2, 2)
        optimizer = t.optim.Adam(model.parameters(), lr=0.25)
        model(t.ones(1, 2)).sum().backward()
        optimizer.step()
        return optimizer

    theirs.save({"o": made(pt).state_dict()}, checkpoint_id=str(tmp_path), no_dist=True)
    optimizer = made(ft)
    given = optimizer.state_dict()
    given["param_groups"][0]["lr"] = 1.0
    for held in given["state"].values():
        held["exp_avg"].zero_()
    mine.load({"o": given}, checkpoint_id=str(tmp_path), no_dist=True)
    wanted = made(pt).state_dict()
    assert given["param_groups"][0]["lr"] == 0.25
    assert list(given["state"]) == [0, 1]
    for i, held in wanted["state"].items():
        assert given["state"][i]["exp_avg"].tolist() == held["exp_avg"].tolist()


def test_checkpoints_of_pytorch_2_3(tmp_path, monkeypatch):
    """Mappings without tensors were one value then."""
    from torch.distributed.checkpoint import _version

    monkeypatch.setattr(_version, "_derived_version", "2_3")
    theirs.save({k: v for k, v in state(pt).items() if k != "nothing"}, checkpoint_id=str(tmp_path), no_dist=True)
    monkeypatch.undo()
    assert "groups" in theirs.FileSystemReader(str(tmp_path)).read_metadata().state_dict_metadata
    loaded = empty(ft)
    del loaded["nothing"]
    mine.load(loaded, checkpoint_id=str(tmp_path), no_dist=True)
    assert str(sorted(loaded.items())) == str(sorted((k, v) for k, v in state(ft).items() if k != "nothing"))


@pytest.mark.parametrize("library", [theirs, mine])
def test_somewhere(library):
    for call in (library.save, library.load):
        with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
            call({"a": 1})


def test_errors(tmp_path):
    mine.save({"a": ft.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(mine.CheckpointException, match="Missing key in checkpoint state_dict: b"):
        mine.load({"b": ft.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(mine.CheckpointException, match="Size mismatch"):
        mine.load({"a": ft.ones(3)}, checkpoint_id=tmp_path)


def test_an_index_runs_nothing(tmp_path):
    (tmp_path / ".metadata").write_bytes(pickle.dumps(os.getcwd))
    with pytest.raises(mine.CheckpointException, match="no part of one"):
        mine.load({"a": ft.ones(2)}, checkpoint_id=tmp_path)


def test_a_killed_save_leaves_the_last_one(tmp_path, monkeypatch):
    mine.save({"a": ft.ones(2)}, checkpoint_id=tmp_path)

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(mine.FileSystemWriter, "finish", killed)
    with pytest.raises(KeyboardInterrupt):
        mine.save({"a": ft.zeros(2)}, checkpoint_id=tmp_path)
    monkeypatch.undo()
    loaded = {"a": ft.empty(2)}
    mine.load(loaded, checkpoint_id=tmp_path)
    assert loaded["a"].tolist() == [1.0, 1.0]
    mine.save({"a": ft.zeros(2)}, checkpoint_id=tmp_path)
    mine.load(loaded, checkpoint_id=tmp_path)
    assert loaded["a"].tolist() == [0.0, 0.0]
    assert len(list(tmp_path.glob("*.distcp"))) == 1


def _folder(d, name):
    """The same new folder on all ranks."""
    box = [tempfile.mkdtemp() if d.get_rank() == 0 else None]
    d.broadcast_object_list(box, 0)
    return os.path.join(box[0], name)


def divided(t, d, rank):
    """Saved along one dimension, loaded along another, and whole."""
    n = __import__(f"{t.__name__}.distributed.tensor", fromlist=["x"])
    dcp = __import__(f"{t.__name__}.distributed.checkpoint", fromlist=["x"])
    mesh = d.init_device_mesh("cpu", (2,))
    x = t.arange(15.0).view(5, 3)
    folder = _folder(d, "checkpoint")
    dcp.save({"x": n.distribute_tensor(x, mesh, [n.Shard(0)]), "y": t.ones(2)}, checkpoint_id=folder)
    out = []
    for p in (n.Shard(1), n.Shard(0), n.Replicate()):
        loaded = {"x": n.zeros(5, 3, device_mesh=mesh, placements=[p]), "y": t.zeros(2)}
        dcp.load(loaded, checkpoint_id=folder)
        out += [loaded["x"].to_local(), loaded["y"]]
    whole = {"x": t.zeros(5, 3)}
    dcp.load(whole, checkpoint_id=folder)
    d.barrier()
    if rank == 0:
        other = (theirs, pt) if t is ft else (mine, ft)  # the other library reads what two ranks wrote
        foreign = {"x": other[1].zeros(5, 3)}
        other[0].load(foreign, checkpoint_id=folder, no_dist=True)
        assert foreign["x"].tolist() == x.tolist()
        shutil.rmtree(os.path.dirname(folder))
    return out, whole["x"]


def from_one_file(t, d, rank):
    """A file of one process, read by one rank for all."""
    n = __import__(f"{t.__name__}.distributed.tensor", fromlist=["x"])
    dcp = __import__(f"{t.__name__}.distributed.checkpoint", fromlist=["x"])
    f = __import__(f"{t.__name__}.distributed.checkpoint.format_utils", fromlist=["x"])
    file = _folder(d, "state.pt")
    if rank == 0:
        t.save({"x": t.arange(10.0).view(5, 2), "n": {"y": t.ones(3)}}, file)
    d.barrier()

    def load(state):
        dcp.load(state, storage_reader=f.BroadcastingTorchSaveReader(), planner=f.DynamicMetaLoadPlanner(), checkpoint_id=file)
        return state

    loaded = load({"x": t.zeros(5, 2), "n": {"y": t.zeros(3)}})
    out = [loaded["x"], loaded["n"]["y"]]
    if t is ft:  # PyTorch waits until its timeout
        mesh = d.init_device_mesh("cpu", (2,))
        for p in (n.Shard(0), n.Shard(1), n.Replicate()):
            found = load({"x": n.zeros(5, 2, device_mesh=mesh, placements=[p])})["x"]
            assert found.full_tensor().tolist() == loaded["x"].tolist()
    with pytest.raises(dcp.CheckpointException, match="Non-tensor value identified at x"):
        load({"x": 1})
    d.barrier()
    if rank == 0:
        shutil.rmtree(os.path.dirname(file))
    return out


def trained(t, d, rank):
    """A divided model and its optimizer go on from a checkpoint."""
    f = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"])
    dcp = __import__(f"{t.__name__}.distributed.checkpoint", fromlist=["x"])
    sd = __import__(f"{t.__name__}.distributed.checkpoint.state_dict", fromlist=["x"])

    def new(seed):
        t.manual_seed(seed)
        model = t.nn.Sequential(t.nn.Linear(4, 5), t.nn.Tanh(), t.nn.Linear(5, 2))
        f.fully_shard(model)
        return model, t.optim.Adam(model.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(t.ones(2, 4) * (rank + 1)).square().sum().backward()
        optimizer.step()

    folder = _folder(d, "checkpoint")
    model, optimizer = new(0)
    step(model, optimizer)
    own = sd.get_state_dict(model, optimizer)
    dcp.save({"model": own[0], "optimizer": own[1]}, checkpoint_id=folder)
    step(model, optimizer)
    again, other = new(1)
    step(again, other)
    loaded = dict(zip(("model", "optimizer"), sd.get_state_dict(again, other)))
    dcp.load(loaded, checkpoint_id=folder)
    sd.set_state_dict(again, other, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    step(again, other)
    full = sd.get_model_state_dict(again, options=sd.StateDictOptions(full_state_dict=True))
    d.barrier()
    if rank == 0:
        shutil.rmtree(os.path.dirname(folder))
    return [p.full_tensor().detach() for p in model.parameters()], list(full.values()), list(full)


@pytest.mark.parametrize("program", [divided, from_one_file, trained])
def test_two_processes(two, program):
    two.run(program)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop"])
@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("with_gradients", [False, True])
def test_states_of_optimizers_that_made_no_step(name, steps, with_gradients):
    """They are made, so that a checkpoint has somewhere to go; not where gradients wait."""
    found = []
    for t in (pt, ft):
        helpers = __import__(f"{t.__name__}.distributed.checkpoint.state_dict", fromlist=["x"])
        t.manual_seed(0)
        model = t.nn.Linear(2, 3)
        model.bias.requires_grad_(False)
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(t.optim, name)(model.parameters(), lr=t.tensor(0.1) if name == "AdamW" else 0.1, **options)
        for _ in range(steps):
            model(t.ones(2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        if with_gradients:
            model(t.ones(2)).sum().backward()
        weights = model.weight.tolist()
        states = repr(helpers.get_optimizer_state_dict(model, optimizer))
        found.append((states, model.weight.grad is None, model.weight.tolist() == weights))
    assert found[0] == found[1]
