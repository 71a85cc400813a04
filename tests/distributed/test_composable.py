"""Functions that change modules in place, meshes with other dimensions, against PyTorch's."""

from __future__ import annotations

import importlib

import pytest
import torch as pt

import ftorch as ft


def _of(t, name):
    return importlib.import_module(f"{t.__name__}.distributed.{name}")


def replicated(t, d, rank):
    composable = _of(t, "_composable.replicate")
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Linear(4, 2))
    names = list(model.state_dict())
    composable.replicate(model)
    assert list(model.state_dict()) == names
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        x = t.arange(12.0).view(4, 3) * (rank + 1 + step) / 12
        model(x).square().mean().backward()
        optimizer.step()
    model.set_requires_gradient_sync(False)
    model.zero_grad()
    model(t.arange(6.0).view(2, 3) * (rank + 1)).square().sum().backward()
    return [*(p.detach() for p in model.parameters()), *(p.grad for p in model.parameters())]


def own_buffers(t, d, rank):
    """Buffers stay each process' own: `replicate` gives those of rank 0 to nobody."""
    t.manual_seed(rank)
    model, found = t.nn.Sequential(t.nn.BatchNorm1d(4), t.nn.Linear(4, 2)), []
    model[0].running_mean.fill_(rank + 1.0)
    _of(t, "_composable.replicate").replicate(model)
    for i in range(3):
        model.zero_grad()
        model(t.arange(12.0).view(3, 4) * (i + rank + 1)).square().mean().backward()
        found += [b.clone() for b in model.buffers()] + [p.grad.clone() for p in model.parameters()]
    return found


def meshes(t, d, rank):
    mesh = d.init_device_mesh("cpu", (4,), mesh_dim_names=("world",))
    split = mesh._unflatten("world", (2, 2), ("dp", "tp"))
    x = t.ones(1) * rank
    d.all_reduce(x, group=split.get_group("tp"))
    y = t.ones(1) * rank
    d.all_reduce(y, group=split["dp"].get_group())
    shown = [split.mesh.tolist(), list(split.mesh_dim_names), split.get_coordinate(), split["tp"].mesh.tolist()]
    texts = []
    for arguments in ((3, (2, 2), ("a", "b")), ("x", (2, 2), ("a", "b")), (0, (2, 2), ("a",)), (0, (2, 3), ("a", "b"))):
        try:
            mesh._unflatten(*arguments)
        except (ValueError, RuntimeError) as error:
            texts.append((type(error).__name__, str(error)))
    wide = d.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    joined = type(mesh)._concatenate([wide["a"], wide["b"]])
    return [x, y], shown, texts, joined.mesh.tolist(), list(joined.mesh_dim_names)


def dimensions_in_another_order(t, d, rank):
    """Dimensions of one rank may stand anywhere; others may not, and none twice."""
    mesh, found = d.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b")), []
    for names in (("a", "b"), ("b", "a"), ("a", "a"), ("a", "c")):
        try:
            part = mesh[names]
            found.append((str(part), part.mesh.tolist(), part.mesh_dim_names, part.get_coordinate()))
        except (KeyError, RuntimeError) as error:
            found.append((type(error).__name__, str(error).split("Valid")[0]))
    return found


def some_ignored(t, d, rank):
    """Gradients of ignored modules stay each process' own; devices are checked."""
    replicate = _of(t, "_composable.replicate").replicate
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Linear(3, 2))
    replicate(model, ignored_modules=[model[0]])
    model(t.ones(1, 2) * (rank + 1)).sum().backward()
    with pytest.raises(RuntimeError, match="Expected device_id to be int or torch.device") as refused:
        replicate(t.nn.Linear(2, 2), device_id=[])
    return [p.grad for p in model.parameters()], str(refused.value)


@pytest.mark.parametrize("program", [replicated, own_buffers, some_ignored, dimensions_in_another_order])
def test_two_processes(two, program):
    two.run(program)


def test_four_processes(four):
    four.run(meshes)


def recomputed(t):
    composable = _of(t, "_composable.checkpoint_activation")
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 1))
    calls = []
    model[1].register_forward_hook(lambda *_: calls.append(1))
    composable.checkpoint(model[0])
    composable.checkpoint(model[1])
    model(t.ones(2, 3)).sum().backward()
    found = [p.grad.tolist() for p in model.parameters()]
    refused = []
    for attempt in (
        lambda: composable.checkpoint(model[2], use_reentrant=True), lambda: composable.checkpoint(t.nn.ReLU(), x=1),
        lambda: composable.checkpoint(model[0]),
    ):
        try:
            attempt()
        except Exception as error:
            refused.append((type(error).__name__, str(error).splitlines()[0]))
    return found, list(model.state_dict()), refused


def test_recomputation():
    mine, theirs = recomputed(ft), recomputed(pt)
    for a, b in zip(mine[0], theirs[0]):
        pt.testing.assert_close(pt.tensor(a), pt.tensor(b))
    assert mine[1:] == theirs[1:]


def renames(t):
    contract = _of(t, "_composable.contract").contract

    @contract()
    def renamed(module):
        module.more = t.nn.Linear(1, 1)
        return module

    renamed(t.nn.Linear(1, 1))


@pytest.mark.parametrize("t", [ft, pt])
def test_names_stay(t):
    with pytest.raises(RuntimeError, match="FQN"):
        renames(t)


@pytest.mark.parametrize("text", ["0", "3", "0:3,1:0", "4", "0:4", "", "0:1,", "a"])
def test_streams(text):
    found = []
    for t in (ft, pt):
        api = _of(t, "elastic.multiprocessing.api")
        try:
            value = api.Std.from_str(text)
            found.append((repr(value), repr(api.to_map(value, 3))))
        except ValueError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("t", (ft, pt))
def test_fully_shard_is_found_at_its_former_places(t):
    package, module = _of(t, "_composable.fsdp"), _of(t, "_composable.fsdp.fully_shard")
    assert package.fully_shard is module.fully_shard is _of(t, "fsdp").fully_shard
    assert package.FSDPModule is module.FSDPModule
