"""Optimizers whose states are divided, and parameters that are averaged."""

from __future__ import annotations

import warnings

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


def divided_shares(t, d, rank):
    """What `ZeroRedundancyOptimizer` says of its groups, what it refuses, and that a hook's steps are not taken twice."""
    from tests.oracle import outcome

    zero, model = _of(t, "optim").ZeroRedundancyOptimizer, _model(t)
    optimizer = zero(model.parameters(), t.optim.SGD, lr=0.1)
    optimizer.add_param_group({"params": [t.nn.Parameter(t.ones(3))]})
    refused = [outcome(lambda given=given: zero(given, t.optim.SGD, lr=0.1)) for given in ([], [3], t.ones(2), 3)]
    before = [p.detach().clone() for p in model.parameters()]
    taken = zero(model.parameters(), t.optim.SGD, lr=0.1, overlap_with_ddp=True).step()
    same = all(t.equal(a, b) for a, b in zip(before, model.parameters()))
    return repr(optimizer), [(type(e).__name__, str(e).replace("ftorch", "torch")) for _, e in refused], taken, same


def whole_states(t, d, rank):
    """Whole states in the CPU's memory are rank 0's alone."""
    states, fsdp = _of(t, "checkpoint.state_dict"), _of(t, "fsdp")
    model = fsdp.fully_shard(_model(t))
    optimizer = t.optim.Adam(model.parameters(), lr=0.1)
    model(t.ones(3, 4) * rank).square().sum().backward()
    optimizer.step()
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    got = states.get_optimizer_state_dict(model, optimizer, options=options)
    return sorted(states.get_model_state_dict(model, options=options)), sorted(got), [
        (k, v["exp_avg"]) for k, v in sorted(got.get("state", {}).items())
    ]


def quiet(t, d, rank):
    """`loss_parallel` warns of nothing."""
    import warnings

    tensor, parallel = _of(t, "tensor"), _of(t, "tensor.parallel")
    mesh = d.init_device_mesh("cpu", (2,))
    x = tensor.distribute_tensor(t.arange(12.0).view(3, 4), mesh, [tensor.Shard(1)]).requires_grad_()
    with warnings.catch_warnings(record=True) as caught, parallel.loss_parallel():
        warnings.simplefilter("always")
        loss = t.nn.functional.cross_entropy(x, t.tensor([0, 2, 3]))
        loss.backward()
    return loss.full_tensor().detach(), x.grad.full_tensor(), [w for w in caught if w.category is FutureWarning]


def shares_without_parameters(t, d, rank):
    """Groups of which a process has no share, closures that the share's optimizer gets, types that are refused."""
    from tests.oracle import outcome

    zero, said = _of(t, "optim").ZeroRedundancyOptimizer, []
    optimizer = zero([t.nn.Parameter(t.ones(5))], t.optim.SGD, lr=0.1)
    optimizer.add_param_group({"params": [t.nn.Parameter(t.ones(3))]})
    sizes = sorted(sum(p.numel() for g in optimizer.optim.param_groups for p in g["params"]) for _ in range(1))

    class Saying(t.optim.SGD):
        def step(self, closure=None, kept=None):
            kept.append(closure)
            return super().step()

    x = t.nn.Parameter(t.ones(1))
    x.grad = t.ones(1)
    other = zero([x], Saying, lr=0.1)
    other.step(0, kept=said)
    kinds = ([t.sparse_coo_tensor(size=(2, 3))], [t.ones(1), t.ones(1, dtype=t.float64)], [t.ones(1), {"params": [t.ones(1)]}])
    errors = [outcome(lambda given=given: zero(given, t.optim.SGD, lr=0.1))[1] for given in kinds]
    texts = [(type(e).__name__, str(e).replace("ftorch", "torch")) for e in errors]
    return len(optimizer.optim.param_groups), sizes, said, x.detach(), texts


def named(t, d, rank):
    """States by name: what is missing stays, another kind is refused."""
    from tests.oracle import outcome

    kind = _of(t, "optim.named_optimizer")._NamedOptimizer

    def made(*groups, **options):
        model = _model(t)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = [{"params": list(model[i].parameters())} for i in groups] or None
            return model, kind(dict(model.named_parameters()), t.optim.SGD, chosen, **{"lr": 0.1, "momentum": 0.9, **options})

    (model, whole), (_, part), (_, empty), (_, plain) = made(), made(0), made(), made(momentum=0.0)
    errors = [outcome(empty.load_state_dict, part.state_dict())[1]]
    for one in (whole, part, plain):
        one.init_state()
    part.state[part.param_groups[0]["params"][0]]["momentum_buffer"].fill_(3.0)
    whole.load_state_dict(part.state_dict())
    errors.append(outcome(whole.load_state_dict, plain.state_dict())[1])
    errors.append(outcome(whole.add_param_group, {"params": t.ones(2)})[1])
    found = {n: s["momentum_buffer"] for n, s in whole.state_dict()["state"].items()}
    return found, [(type(e).__name__, str(e)) for e in errors], all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("program", [
    shares_without_parameters, named, zero_redundancy, averaged, local_steps, recomputed, divided_shares, whole_states, quiet,
])
def test_two_processes(two, program):
    two.run(program)
