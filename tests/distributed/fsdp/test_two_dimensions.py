"""`fully_shard` over tensor parallelism: a mesh of both dimensions, against PyTorch's."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

GRIDS = ("dp", "tp")


def _of(t, name):
    return __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"])


def _model(t, seed, wide=8):
    """Both kinds of parallel layers, with ``wide`` features between them."""

    class Module(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = t.nn.Linear(4, wide), t.nn.Linear(wide, 6)

        def forward(self, x):
            return self.down(t.nn.functional.gelu(self.up(x)))

    t.manual_seed(seed)
    return Module()


def _divided(t, mesh, seed, wide=8):
    p = _of(t, "tensor.parallel")
    model = _model(t, seed, wide)
    p.parallelize_module(model, mesh["tp"], {"up": p.ColwiseParallel(), "down": p.RowwiseParallel()})
    return _of(t, "fsdp").fully_shard(model, mesh=mesh["dp"])


def _facts(tensors):
    return [
        str((name, tuple(x.shape), tuple(x.to_local().shape), x.placements, x.device_mesh, x.stride()))
        for name, x in tensors.items()
    ]


def _batch(t, mesh):
    t.manual_seed(20 + mesh["dp"].get_local_rank())
    return t.randn(3, 4)


def _step(t, model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().sum()
    loss.backward()
    norm = t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach(), norm.full_tensor()


def _trained(t, d, shape, wide=8):
    """Placements, losses, norms, weights, gradients and states of the optimizer."""
    mesh = d.init_device_mesh("cpu", shape, mesh_dim_names=GRIDS)
    model = _divided(t, mesh, 0, wide)
    facts = _facts(dict(model.named_parameters()))
    before = [p.full_tensor().detach().clone() for p in model.parameters()]
    optimizer = t.optim.AdamW(model.parameters(), lr=0.05)
    x = _batch(t, mesh)
    steps = [_step(t, model, optimizer, x) for _ in range(3)]
    after = [(p.full_tensor().detach(), p.to_local().detach(), p.grad.full_tensor()) for p in model.parameters()]
    moments = {f"{i}.{k}": v for i, s in enumerate(optimizer.state.values()) for k, v in s.items() if k != "step"}
    state = model.state_dict()
    return (
        facts, before, steps, after, _facts(dict(zip("abcd", (p.grad for p in model.parameters())))), _facts(moments),
        [m.full_tensor() for m in moments.values()], _facts(state), [v.full_tensor() for v in state.values()],
    )


def _restored(t, d, shape, other=None):
    """A training goes on from a checkpoint, on a mesh of any shape; whole state dicts make the round trip."""
    mesh = d.init_device_mesh("cpu", shape, mesh_dim_names=GRIDS)
    dcp, sd = _of(t, "checkpoint"), _of(t, "checkpoint.state_dict")
    box = [tempfile.mkdtemp()] if d.get_rank() == 0 else [None]
    d.broadcast_object_list(box, 0)
    folder = os.path.join(box[0], "checkpoint")
    model = _divided(t, mesh, 0)
    optimizer = t.optim.AdamW(model.parameters(), lr=0.05)
    _step(t, model, optimizer, _batch(t, mesh))
    own = sd.get_state_dict(model, optimizer)
    dcp.save({"model": own[0], "optimizer": own[1]}, checkpoint_id=folder)

    second = d.init_device_mesh("cpu", other or shape, mesh_dim_names=GRIDS)
    again = _divided(t, second, 1)
    another = t.optim.AdamW(again.parameters(), lr=0.05)
    loaded = dict(zip(("model", "optimizer"), sd.get_state_dict(again, another)))
    dcp.load(loaded, checkpoint_id=folder)
    sd.set_state_dict(again, another, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    same = [t.equal(a.full_tensor(), b.full_tensor()) for a, b in zip(model.parameters(), again.parameters())]
    steps = _step(t, again, another, _batch(t, second))

    whole = sd.StateDictOptions(full_state_dict=True)
    full = sd.get_model_state_dict(again, options=whole)
    given = list(full.items())
    moments = sd.get_optimizer_state_dict(again, another, options=whole)["state"]
    third = _divided(t, mesh, 2)
    sd.set_model_state_dict(third, full, options=whole)
    plain = _divided(t, second, 3)
    plain.load_state_dict(again.state_dict())
    d.barrier()
    if d.get_rank() == 0:
        shutil.rmtree(box[0])
    return (
        same, steps, given, {n: s["exp_avg"] for n, s in moments.items()},
        [p.full_tensor().detach() for p in third.parameters()], [p.to_local().detach() for p in plain.parameters()],
    )


def _three(t, d, shape):
    """Replicas of divided parameters over tensor parallelism; data dimensions in one; columns divided by `fully_shard`, too."""
    f, p, n = _of(t, "fsdp"), _of(t, "tensor.parallel"), _of(t, "tensor")
    mesh = d.init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard", "tp"))
    flat = mesh["replicate", "shard"]._flatten("dp")
    t.manual_seed(30 + flat.get_local_rank())
    x, out, facts = t.randn(3, 4), [], []
    for data, dim in ((mesh["replicate", "shard"], 0), (flat, 0), (mesh["shard"], 0), (flat, 1)):
        model = _model(t, 0)
        p.parallelize_module(model, mesh["tp"], {"up": p.ColwiseParallel(), "down": p.RowwiseParallel()})
        f.fully_shard(model, mesh=data, shard_placement_fn=lambda q: n.Shard(dim if q.dim() > 1 else 0))
        optimizer = t.optim.AdamW(model.parameters(), lr=0.05)
        out += [_step(t, model, optimizer, x) for _ in range(2)]
        facts += _facts(dict(model.named_parameters()))
        out += [(q.full_tensor().detach(), q.grad.full_tensor()) for q in model.parameters()]
    return facts, out


def _built(t, d, shape):
    """A model without storage is divided, gets its values, and trains with mixed precision and accumulated gradients."""
    f, p = _of(t, "fsdp"), _of(t, "tensor.parallel")
    mesh = d.init_device_mesh("cpu", shape, mesh_dim_names=GRIDS)
    with t.device("meta"):
        model = _model(t, 0)
    p.parallelize_module(model, mesh["tp"], {"up": p.ColwiseParallel(), "down": p.RowwiseParallel()})
    policy = f.MixedPrecisionPolicy(param_dtype=t.bfloat16, reduce_dtype=t.float32)
    f.fully_shard(model, mesh=mesh["dp"], mp_policy=policy, reshard_after_forward=False)
    facts = _facts(dict(model.named_parameters())) + [str(q.is_meta) for q in model.parameters()]
    model.to_empty(device="cpu")
    values = _model(t, 5).state_dict()
    n = _of(t, "tensor")
    with t.no_grad():
        for name, q in model.named_parameters():
            q.copy_(n.distribute_tensor(values[name], q.device_mesh, q.placements, src_data_rank=None))
    facts += _facts(dict(model.named_parameters()))
    optimizer = t.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, losses = _batch(t, mesh), []
    for i in range(4):
        model.set_requires_gradient_sync(i % 2 == 1)
        loss = model(x).float().square().mean()
        loss.backward()
        losses.append(loss.detach())
        if i % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    return facts, losses, [q.full_tensor().detach() for q in model.parameters()]


def _strided(t, d, shape):
    """Strided parts by themselves: where they lie, and the ways to other placements and back, evenly divided or not."""
    n, placed = _of(t, "tensor"), _of(t, "tensor.placement_types")
    utils = _of(t, "tensor._utils")
    mesh, out = d.init_device_mesh("cpu", shape, mesh_dim_names=GRIDS), []
    for rows in (8, 7, 5):
        x = t.arange(rows * 4.0).view(rows, 4)
        strided = placed._StridedShard(0, split_factor=2)
        kinds = [(strided, n.Shard(0)), (n.Shard(0), n.Shard(1)), (n.Replicate(), n.Shard(0))]
        for kind in kinds:
            y = n.distribute_tensor(x, mesh, kind, src_data_rank=None)
            out += [y.to_local(), y.full_tensor(), (y * 2 + y).full_tensor(), (y @ t.ones_like(y).t()).full_tensor()]
            out += [str(utils.compute_local_shape_and_global_offset((rows, 4), mesh, kind)), str((y + y).placements)]
    return out


def _kinds(t, d, rank):
    """What a strided placement says of itself."""
    placed = _of(t, "tensor.placement_types")
    strided, plain = placed._StridedShard(1, split_factor=2), placed.Shard(1)
    return str((
        strided, repr(strided), strided.is_shard(), strided.is_shard(1), strided.is_replicate(), strided.is_partial(),
        strided == plain, plain == strided, strided == placed._StridedShard(1, split_factor=2),
        strided == placed._StridedShard(1, split_factor=3), isinstance(strided, placed.Shard),
        placed._StridedShard(0).split_factor, (strided.dim, strided.split_factor),
    ))


def _on(program, *arguments):
    def run(t, d, rank):
        return program(t, d, *arguments)

    named = ("by".join(map(str, a)) if isinstance(a, tuple) else str(a) for a in arguments)
    run.__qualname__ = run.__name__ = "_".join([program.__name__[1:], *named])
    globals()[run.__name__] = run  # the processes of the pool find it by its name
    return run


for _shape in ((1, 2), (2, 1), (2, 2)):
    for _program in (_trained, _restored, _strided, _built):
        _on(_program, _shape)
for _shape in ((1, 1, 2), (2, 1, 1), (1, 2, 1), (2, 1, 2), (1, 2, 2)):
    _on(_three, _shape)
_on(_trained, (2, 1), 7)  # PyTorch's tensor parallelism computes with layers that it divides evenly only
_on(_trained, (2, 2), 6)
_on(_restored, (1, 2), (2, 1))
_on(_restored, (2, 1), (1, 2))


@pytest.mark.parametrize("name", [
    "_kinds", *(f"{program}_{shape}" for program in ("trained", "restored", "strided", "built") for shape in ("1by2", "2by1")),
    "trained_2by1_7", "three_1by1by2", "three_2by1by1", "three_1by2by1",
    "restored_1by2_2by1", "restored_2by1_1by2",
])
def test_two_processes(two, name):
    two.run(globals()[name])


@pytest.mark.parametrize("name", [
    "trained_2by2", "trained_2by2_6", "restored_2by2", "strided_2by2", "three_2by1by2", "three_1by2by2", "built_2by2",
])
def test_four_processes(four, name):
    four.run(globals()[name])
