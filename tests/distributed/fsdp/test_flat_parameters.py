"""FullyShardedDataParallel keeps a part of one flat tensor: what a process shows of it, state dicts of models and optimizers,
whole parameters, gradients that wait. In two processes, as PyTorch's, with flat parameters and with the modules' own.
"""

from __future__ import annotations

import copy
import functools
import warnings
from importlib import import_module

import pytest

from tests.oracle import outcome


def fsdp(t):
    return import_module(f"{t.__name__}.distributed.fsdp")


def net(t, seed=0):
    t.manual_seed(seed)
    inner = t.nn.Sequential(t.nn.Linear(7, 6, bias=False), t.nn.LayerNorm(6))
    return t.nn.Sequential(t.nn.Linear(5, 7), t.nn.Tanh(), inner, t.nn.Linear(6, 3))


def wrapped(t, keeps, module=None, policy=True, **options):
    wrap = import_module(f"{t.__name__}.distributed.fsdp.wrap")
    chosen = wrap.ModuleWrapPolicy({t.nn.Sequential}) if policy else None
    return fsdp(t).FullyShardedDataParallel(
        module or net(t), use_orig_params=keeps, device_id=t.device("cpu"), auto_wrap_policy=chosen, **options
    )


def trained(t, model, optimizer, rank, steps=3, most=None):
    out = []
    for i in range(steps):
        optimizer.zero_grad()
        loss = model(t.randn(4, 5, generator=t.Generator().manual_seed(10 * i + rank))).square().mean()
        loss.backward()
        if most:
            out.append(model.clip_grad_norm_(most))
        optimizer.step()
        out.append(loss.detach())
    return out


def shown(model):
    return [(n, tuple(p.shape), p.requires_grad, p.grad is None, type(p).__name__) for n, p in model.named_parameters()]


def whole(t, model):
    with fsdp(t).FullyShardedDataParallel.summon_full_params(model):
        return [(n, p.detach().clone()) for n, p in model.named_parameters()]


def parameters(t, d, rank, keeps):
    model = wrapped(t, keeps)
    out = [shown(model), str(model)]
    optimizer = t.optim.AdamW(model.parameters(), 0.05)
    out += [trained(t, model, optimizer, rank, most=0.5), shown(model)]
    out += [p.detach().clone() for p in model.parameters()]
    return [*out, [None if p.grad is None else p.grad.clone() for p in model.parameters()], whole(t, model)]


def strategies(t, d, rank, keeps):
    out = []
    for name in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
        model = wrapped(t, keeps, sharding_strategy=fsdp(t).ShardingStrategy[name])
        out += [trained(t, model, t.optim.SGD(model.parameters(), 0.1), rank, 2, 1.0), shown(model), whole(t, model)]
    return out


def summoned(t, d, rank, keeps):
    wrapper, out = fsdp(t).FullyShardedDataParallel, []
    model = wrapped(t, keeps)
    for options in ({}, {"writeback": False}, {"recurse": False}):
        with wrapper.summon_full_params(model, **options), t.no_grad():
            out.append(shown(model))
            for p in model.parameters():
                p.mul_(2)
        out += [shown(model), whole(t, model)]

    def refused(**options):
        with wrapper.summon_full_params(model, **options):
            return None

    refusals = [outcome(refused, rank0_only=True)] + [outcome(refused, with_grads=True)] * (not keeps)
    return [*out, [(type(e).__name__, str(e)) for _, e in refusals]]


def gradients_wait(t, d, rank, keeps):
    """They are seen meanwhile, and dropped by who drops them."""
    model = wrapped(t, keeps)
    optimizer, out = t.optim.SGD(model.parameters(), 0.1), []
    for i in range(6):
        x = t.randn(4, 5, generator=t.Generator().manual_seed(10 * i + rank))
        if i % 2:
            model(x).square().mean().backward()
            out.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
            optimizer.step()
            optimizer.zero_grad()
            continue
        with model.no_sync():
            model(x).square().mean().backward()
        out.append([p.grad is None for p in model.parameters()])
        if i == 2:
            optimizer.zero_grad()
    return [*out, whole(t, model)]


def precisions(t, d, rank, keeps):
    """Normalization over the batch stays in float32; states are kept as they were."""
    out = []
    for chosen in (
        {"param_dtype": t.bfloat16}, {"param_dtype": t.bfloat16, "reduce_dtype": t.float32, "buffer_dtype": t.bfloat16},
        {"reduce_dtype": t.bfloat16},
    ):
        module, policy = t.nn.Sequential(net(t), t.nn.BatchNorm1d(3)), fsdp(t).MixedPrecision(**chosen)
        model = wrapped(t, keeps, module, mixed_precision=policy)
        y = model(t.ones(4, 5) * (rank + 1))
        y.float().square().mean().backward()
        out += [str(y.dtype)[6:], [str(x.dtype)[-8:] for x in (*model.buffers(), *model.parameters())]]
        out.append([None if p.grad is None else str(p.grad.dtype)[-8:] for p in model.parameters()])
        out.append([(n, str(x.dtype)[-8:]) for n, x in model.state_dict().items()])
    return out


def left_out(t, d, rank, keeps):
    module = net(t)
    model = wrapped(t, keeps, module, False, ignored_modules=[module[2]])
    out = [shown(model), trained(t, model, t.optim.SGD(model.parameters(), 0.1), rank, 2, 1.0)]
    frozen = net(t)
    frozen[2].requires_grad_(False)
    again = wrapped(t, keeps, frozen)
    out += [trained(t, again, t.optim.SGD([p for p in again.parameters() if p.requires_grad], 0.1), rank, 2), shown(again)]
    return [*out, list(model.state_dict().items()), whole(t, again)]


def shared(t, d, rank, keeps):
    t.manual_seed(0)
    module = t.nn.Sequential(t.nn.Embedding(6, 4), t.nn.Linear(4, 4), t.nn.Linear(4, 6, bias=False))
    module[2].weight = module[0].weight
    model = wrapped(t, keeps, module, False)
    optimizer = t.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(t.arange(3) + rank).square().mean().backward()
        optimizer.step()
    return [shown(model), list(model.state_dict().items())]


def moved(t, d, rank, keeps):
    model = wrapped(t, keeps)
    model.double()
    with t.device("meta"):
        empty = net(t)
    t.manual_seed(3)
    return [shown(model), whole(t, model), model(t.ones(2, 5).double()).detach(), whole(t, wrapped(t, keeps, empty))]


def states(t, d, rank, keeps):
    f = fsdp(t)
    wrapper, kinds, out = f.FullyShardedDataParallel, f.StateDictType, []
    model = wrapped(t, keeps)
    full = model.state_dict()
    other = wrapped(t, keeps, net(t, 5))
    out += [list(full.items()), str(other.load_state_dict(full)), whole(t, other)]
    with wrapper.state_dict_type(model, kinds.SHARDED_STATE_DICT):
        parts = model.state_dict()
    out += [list(parts), [(type(x).__name__, tuple(x.shape)) for x in parts.values()]]
    for x in parts.values():
        for s in x.local_shards():
            out += [s.tensor.clone(), s.metadata.shard_offsets, s.metadata.shard_sizes, str(s.metadata.placement)]
    other = wrapped(t, keeps, net(t, 6))
    with wrapper.state_dict_type(other, kinds.SHARDED_STATE_DICT):
        other.load_state_dict(parts)
    out.append(whole(t, other))
    with wrapper.state_dict_type(model, kinds.LOCAL_STATE_DICT):
        out.append([(n, type(x).__name__) for n, x in model.state_dict().items()])
    within = t.nn.ModuleDict({"a": model, "b": t.nn.Linear(2, 2)})
    out.append([n for n, _ in within.named_parameters()])
    out += [str(within.load_state_dict({n: x * 0 for n, x in within.state_dict().items()})), whole(t, model)]
    refused = outcome(model.load_state_dict, {"x": t.ones(1)})[1]
    return [*out, str(refused), str(model.load_state_dict({"x": full}, strict=False))]


def optimizer_states(t, d, rank, keeps):
    f = fsdp(t)
    wrapper, kinds, out = f.FullyShardedDataParallel, f.StateDictType, []
    model = wrapped(t, keeps)
    optimizer = t.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    trained(t, model, optimizer, rank)
    for kind, config in (
        (kinds.FULL_STATE_DICT, f.FullOptimStateDictConfig()),
        (kinds.FULL_STATE_DICT, f.FullOptimStateDictConfig(rank0_only=True)), (kinds.SHARDED_STATE_DICT, None),
    ):
        with wrapper.state_dict_type(model, kind, None, config):
            state = wrapper.optim_state_dict(model, optimizer)
        out.append(list(state))
        if state:
            out += [list(state["state"]), state["param_groups"]]
            for own in state["state"].values():
                for name, x in own.items():
                    out += [name, [s.tensor.clone() for s in x.local_shards()] if hasattr(x, "local_shards") else x]
        other = wrapped(t, keeps, net(t, 5))
        fresh = t.optim.SGD(other.parameters(), 0.07, momentum=0.9)
        with wrapper.state_dict_type(other, kind, None, config):
            given = copy.deepcopy(state) if kind is kinds.FULL_STATE_DICT else state
            fresh.load_state_dict(wrapper.optim_state_dict_to_load(other, fresh, given))
        found = [fresh.state[p].get("momentum_buffer") for p in other.parameters() if p in fresh.state]
        out += [fresh.param_groups[0]["lr"], [x for x in found if x is not None]]
    adam = t.optim.Adam(model.parameters(), 0.05)
    trained(t, model, adam, rank)
    state = wrapper.optim_state_dict(model, adam)["state"]  # of PyTorch's moments all are the last one
    return [*out, list(state), [(list(x), x["step"]) for x in state.values()]]


def over_a_mesh(t, d, rank, keeps):
    f = fsdp(t)
    wrapper, out = f.FullyShardedDataParallel, []
    model = wrapped(t, keeps, device_mesh=d.init_device_mesh("cpu", (2,)))
    optimizer = t.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    trained(t, model, optimizer, rank)
    with wrapper.state_dict_type(model, f.StateDictType.SHARDED_STATE_DICT):
        values, state = model.state_dict(), wrapper.optim_state_dict(model, optimizer)
        out += [[(n, str(x.placements), x.to_local().clone()) for n, x in values.items()]]
        out.append([[(n, str(x.placements)) for n, x in own.items()] for own in state["state"].values()])
        model.load_state_dict(values)
        optimizer.load_state_dict(wrapper.optim_state_dict_to_load(model, optimizer, state))
    return [*out, trained(t, model, optimizer, rank, 1), whole(t, model)]


def by_checkpoints(t, d, rank, keeps):
    """What `distributed.checkpoint.state_dict` gives and takes."""
    sd = import_module(f"{t.__name__}.distributed.checkpoint.state_dict")
    model, out = wrapped(t, keeps), []
    optimizer = t.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    trained(t, model, optimizer, rank)
    for options in (sd.StateDictOptions(full_state_dict=True), sd.StateDictOptions()):
        values, state = sd.get_state_dict(model, optimizer, options=options)
        out += [list(values), [type(x).__name__ for x in values.values()], list(state["state"])]
        out.append([g["params"] for g in state["param_groups"]])
        other = wrapped(t, keeps, net(t, 5))
        fresh = t.optim.SGD(other.parameters(), 0.07, momentum=0.9)
        sd.set_state_dict(other, fresh, model_state_dict=values, optim_state_dict=state, options=options)
        out += [whole(t, other), fresh.param_groups[0]["lr"], trained(t, other, fresh, rank, 1), whole(t, other)]
    return out


def recomputed(t, d, rank, keeps):
    """Checkpoints of activations around what is divided, and within it."""
    checkpoints = import_module(f"{t.__name__}.distributed.algorithms._checkpoint.checkpoint_wrapper")
    wrap = import_module(f"{t.__name__}.distributed.fsdp.wrap")
    inner = wrapped(t, keeps, checkpoints.checkpoint_wrapper(net(t)), False)
    model = wrapped(t, keeps, t.nn.Sequential(inner, t.nn.Linear(3, 2)), False)
    out = [trained(t, model, t.optim.Adam(model.parameters(), 0.01), rank, 2), shown(model), list(model.state_dict().items())]
    linear = lambda m: isinstance(m, t.nn.Linear)  # noqa: E731
    for policy in (wrap.ModuleWrapPolicy({t.nn.Sequential}), wrap.CustomPolicy(linear), None):
        again = wrapped(t, keeps)
        checkpoints.apply_activation_checkpointing(again, check_fn=linear, auto_wrap_policy=policy)
        again(t.ones(2, 5) * rank).sum().backward()
        out += [[p.grad for p in again.parameters()], shown(again), list(again.state_dict()), str(again)]
    return out


def loops(t, d, rank, keeps):
    """Forwards without gradients between others, recurrent layers, forwards that fail, buffers of sums."""
    out = []
    model = wrapped(t, keeps)
    loss = model(t.ones(2, 5) * (rank + 1)).sum()
    with t.no_grad():
        out.append(model(t.ones(2, 5)))
    loss.backward()
    out.append([p.grad for p in model.parameters()])
    t.manual_seed(1)
    states = wrapped(t, keeps, t.nn.LSTM(5, 3, batch_first=True), False)
    optimizer = t.optim.SGD(states.parameters(), 0.5)
    for i in range(2):
        optimizer.zero_grad()
        states(t.ones(1, 4, 5) * (rank + i))[0].square().sum().backward()
        optimizer.step()
    out.append(list(states.state_dict().items()))
    failed = outcome(model, t.ones(2, 4))[1]
    model.zero_grad()
    model(t.ones(2, 5) * rank).sum().backward()
    return [*out, type(failed).__name__, [p.grad for p in model.parameters()]]


def refusals(t, d, rank, keeps):
    f = fsdp(t)
    wrapper, cpu = f.FullyShardedDataParallel, t.device("cpu")
    model = wrapped(t, keeps)
    trained(t, model, t.optim.SGD(model.parameters(), 0.1), rank, 1)
    of_two = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 2).double())
    half = net(t)
    half[0].bias.requires_grad_(False)
    scalar = net(t)
    scalar[2].register_parameter("scale", t.nn.Parameter(t.tensor(1.0)))
    calls = [
        lambda: model[2].no_sync().__enter__(), lambda: model[2].clip_grad_norm_(1.0),
        lambda: (model.check_is_root(), model[2].check_is_root(), len(wrapper.fsdp_modules(model, root_only=True))),
        lambda: wrapper(net(t), d.group.WORLD, device_mesh=d.init_device_mesh("cpu", (2,)), device_id=cpu),
        lambda: wrapper(net(t), sharding_strategy=f.ShardingStrategy.HYBRID_SHARD, device_id=cpu),
        lambda: wrapped(t, keeps, of_two, False), lambda: type(wrapped(t, keeps, half, False)).__name__,
        lambda: wrapped(t, keeps, scalar), lambda: wrapped(t, keeps, scalar, False),
    ]
    return [(repr(value), type(e).__name__, str(e)) for value, e in map(outcome, calls)]


def partly_frozen(t, d, rank, keeps):
    """What is said of modules that a policy wraps of whose parameters some are trained and some not."""
    out = []
    wrap = import_module(f"{t.__name__}.distributed.fsdp.wrap")
    sequences = wrap.ModuleWrapPolicy({t.nn.Sequential})
    policies = [sequences, wrap.CustomPolicy(lambda m: isinstance(m, t.nn.Sequential)), wrap.ModuleWrapPolicy({t.nn.Tanh}),
                functools.partial(wrap.lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, t.nn.Sequential))]
    for frozen in (["2.1.weight"], ["2.0.weight", "2.1.weight", "2.1.bias"], ["0.bias"], []):
        for policy in policies:
            for left_out in (False, True):
                module = net(t)
                for name in frozen:
                    module.get_parameter(name).requires_grad_(False)
                options = {"ignored_states": [module.get_parameter("2.1.weight")]} if left_out else {}
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    _, e = outcome(lambda: fsdp(t).FullyShardedDataParallel(
                        module, use_orig_params=keeps, device_id=t.device("cpu"), auto_wrap_policy=policy, **options
                    ))
                said = [str(w.message) for w in seen if "requires_grad" in str(w.message)]
                out.append((type(e).__name__, str(e), said))
    return out


PROGRAMS = [
    parameters, strategies, summoned, gradients_wait, precisions, left_out, shared, moved, states, optimizer_states,
    over_a_mesh, by_checkpoints, recomputed, loops, refusals, partly_frozen,
]
for _program in PROGRAMS:
    for _keeps in (False, True):
        _made = functools.partial(_program, keeps=_keeps)
        _name = f"{_program.__name__}_{'kept' if _keeps else 'flat'}"
        _made.__module__, _made.__qualname__ = __name__, _name  # type: ignore[attr-defined]
        globals()[_name] = _made


@pytest.mark.parametrize("kind", ["flat", "kept"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_two_processes(two, program, kind):
    two.run(globals()[f"{program.__name__}_{kind}"])
