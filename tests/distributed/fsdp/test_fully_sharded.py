"""FullyShardedDataParallel in two processes: losses, weights and state dicts are PyTorch's."""

from __future__ import annotations

import pytest


def wrapped(t, d, rank):
    f = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"])
    w = __import__(f"{t.__name__}.distributed.fsdp.wrap", fromlist=["x"])
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(4, 5), t.nn.Tanh(), t.nn.Linear(5, 3))
    model = f.FullyShardedDataParallel(
        model, auto_wrap_policy=w.ModuleWrapPolicy({t.nn.Linear}), use_orig_params=True,
        device_id=t.device("cpu"),
    )
    optimizer = t.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        loss = model(t.ones(2, 4) * (rank + step)).square().sum()
        loss.backward()
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        losses += [loss.detach(), norm]
    with f.FullyShardedDataParallel.summon_full_params(model):
        whole = [p.detach().clone() for p in model.parameters()]
    state = model.state_dict()
    return losses, whole, list(state.values()), list(state)


def trained(t, rank, **options):
    f = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"])
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(4, 5), t.nn.Tanh(), t.nn.Linear(5, 3))
    model = f.FullyShardedDataParallel(model, device_id=t.device("cpu"), **options)
    optimizer = t.optim.SGD(model.parameters(), lr=0.05)
    for step in range(2):
        optimizer.zero_grad()
        model(t.ones(2, 4) * (rank + step)).square().sum().backward()
        optimizer.step()
    with f.FullyShardedDataParallel.summon_full_params(model):
        return [p.detach().clone() for p in model.parameters()]


def replicated(t, d, rank):
    """Nothing is divided; or over replicas of one part each, by a mesh and by groups: the same weights. (PyTorch averages
    nothing over such replicas.)"""
    f = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"])
    strategy, options = f.ShardingStrategy, {"use_orig_params": True}
    plain = trained(t, rank, sharding_strategy=strategy.NO_SHARD, **options)
    if t.__name__ == "torch":
        return plain, plain, plain
    across = d.init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    hybrid = {"sharding_strategy": strategy.HYBRID_SHARD, **options}
    groups = across.get_group(1), across.get_group(0)
    return plain, trained(t, rank, device_mesh=across, **hybrid), trained(t, rank, process_group=groups, **hybrid)


def mixed(t, d, rank):
    """Parameters are summoned as they are kept, not as they are computed with."""
    f = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"])
    policy = f.MixedPrecision(param_dtype=t.bfloat16, reduce_dtype=t.float32)
    found = trained(t, rank, mixed_precision=policy, use_orig_params=True)
    return [x.dtype == t.float32 for x in found], [x.shape for x in found]


def optimizer_states(t, d, rank):
    """An optimizer's state that another one loaded is that one's own: each counts its steps."""
    f = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"])
    wrap, made, found = f.FullyShardedDataParallel, [], []
    for _ in range(2):
        t.manual_seed(0)
        model = wrap(t.nn.Linear(4, 3), use_orig_params=True, device_id=t.device("cpu"))
        wrap.set_state_dict_type(
            model, f.StateDictType.FULL_STATE_DICT, f.FullStateDictConfig(), f.FullOptimStateDictConfig()
        )
        made.append((model, t.optim.Adagrad(model.parameters(), 0.1)))

    def step(model, optimizer):
        model(t.ones(2, 4) * (rank + 1)).square().sum().backward()
        optimizer.step()

    (first, optimizer), (second, other) = made
    step(first, optimizer)
    state = wrap.optim_state_dict(first, optimizer)
    other.load_state_dict(wrap.optim_state_dict_to_load(second, other, state))
    for pair in (*made, made[1]):
        step(*pair)
    found = [wrap.optim_state_dict(*pair)["state"] for pair in made]
    # PyTorch's second optimizer counts in some of the first's saved steps.
    return found, [v["sum"] for v in state["state"].values()], [list(values) for values in (state["state"], *found)]


@pytest.mark.parametrize("program", [wrapped, replicated, mixed, optimizer_states])
def test_two_processes(two, program):
    two.run(program)
