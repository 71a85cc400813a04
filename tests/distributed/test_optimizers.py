"""Optimizers whose states are divided, and parameters that are averaged."""

from __future__ import annotations

import pytest


def _of(t, name):
    return __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"])


def _model(t):
    t.manual_seed(0)
    return t.nn.Sequential(t.nn.Linear(4, 6), t.nn.Tanh(), t.nn.Linear(6, 2))


def zero_redundancy(t, d, rank):
    model = t.nn.parallel.DistributedDataParallel(_model(t))
    zero = _of(t, "optim").ZeroRedundancyOptimizer(model.parameters(), t.optim.Adam, lr=0.05)
    for step in range(4):
        zero.zero_grad()
        model(t.ones(3, 4) * (rank + step)).square().sum().backward()
        zero.step()
        for group in zero.param_groups:
            group["lr"] *= 0.9
    zero.consolidate_state_dict(0)
    state = zero.state_dict() if rank == 0 else {"state": {}}
    moments = [s["exp_avg"] for _, s in sorted(state["state"].items())]
    return [p.detach() for p in model.parameters()], moments


def averaged(t, d, rank):
    averagers = _of(t, "algorithms.model_averaging.averagers")
    model = _model(t)
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = _of(t, "optim").PostLocalSGDOptimizer(t.optim.SGD(model.parameters(), lr=0.1), averager)
    out = []
    for step in range(4):
        optimizer.zero_grad()
        model(t.ones(3, 4) * (rank + step)).square().mean().backward()
        optimizer.step()
        out.append([p.detach().clone() for p in model.parameters()])
    return out


def local_steps(t, d, rank):
    hooks = _of(t, "algorithms.ddp_comm_hooks.post_localSGD_hook")
    alone = [d.new_group([r]) for r in range(2)][rank]
    model = t.nn.parallel.DistributedDataParallel(_model(t))
    model.register_comm_hook(hooks.PostLocalSGDState(None, alone, 2), hooks.post_localSGD_hook)
    out = []
    for step in range(4):
        model.zero_grad()
        model(t.ones(3, 4) * (rank + step)).square().mean().backward()
        out.append([p.grad.clone() for p in model.parameters()])
    return out


def recomputed(t, d, rank):
    wrapper = _of(t, "algorithms._checkpoint.checkpoint_wrapper")
    model = _model(t)
    wrapper.apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, t.nn.Linear))
    model(t.ones(2, 4)).sum().backward()
    return [p.grad for p in model.parameters()], list(model.state_dict()), [n for n, _ in model[0].named_parameters()]


@pytest.mark.parametrize("program", [zero_redundancy, averaged, local_steps, recomputed])
def test_two_processes(two, program):
    two.run(program)
