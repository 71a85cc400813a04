"""Communication hooks of DistributedDataParallel and FullyShardedDataParallel, averagers, functional optimizers."""

from __future__ import annotations

import collections

import pytest


def _of(t, name):
    return __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"])


def _model(t):
    t.manual_seed(0)
    return t.nn.Sequential(t.nn.Linear(8, 12), t.nn.Tanh(), t.nn.Linear(12, 6))


def _trained(t, rank, register, steps=4):
    model = t.nn.parallel.DistributedDataParallel(_model(t))
    register(model)
    optimizer = t.optim.SGD(model.parameters(), lr=0.05)
    out = []
    t.manual_seed(3 + rank)
    for _ in range(steps):
        optimizer.zero_grad()
        model(t.randn(5, 8)).square().sum().backward()
        out += [p.grad.clone() for p in model.parameters()]
        optimizer.step()
    return out


def by_name(t, d, rank):
    hooks = _of(t, "algorithms.ddp_comm_hooks")
    out = []
    for name in ("ALLREDUCE", "FP16_COMPRESS", "NOOP"):
        kind = hooks.DDPCommHookType[name]
        out += _trained(t, rank, lambda m, k=kind: hooks.register_ddp_comm_hook(k, m), 2)
    return out, [k.name for k in hooks.DDPCommHookType]


def quantized(t, d, rank):
    """PyTorch's fail with gloo; each process is off by at most half a step of its own gradient's range."""
    hooks = _of(t, "algorithms.ddp_comm_hooks")
    one = _trained(t, rank, lambda m: hooks.register_ddp_comm_hook(hooks.DDPCommHookType.ALLREDUCE, m), 1)
    alone = _trained(t, rank, lambda m: hooks.register_ddp_comm_hook(hooks.DDPCommHookType.NOOP, m), 1)
    steps = t.tensor([max(float(g.max()) for g in alone) - min(float(g.min()) for g in alone)]) / 255
    d.all_reduce(steps, d.ReduceOp.MAX)
    for name in ("QUANTIZE_PER_TENSOR", "QUANTIZE_PER_CHANNEL"):
        kind = hooks.DDPCommHookType[name]
        two = _trained(t, rank, lambda m, k=kind: hooks.register_ddp_comm_hook(k, m), 1)
        errors = [float((a - b).abs().max()) for a, b in zip(one, two)]
        assert 0 < max(errors) <= 0.51 * float(steps), (errors, steps)


def batched_power_sgd(t, d, rank):
    """PyTorch's fails; a matrix of full rank is exchanged without loss."""
    hooks = _of(t, "algorithms.ddp_comm_hooks")
    powers = _of(t, "algorithms.ddp_comm_hooks.powerSGD_hook")
    exact = _trained(t, rank, lambda m: hooks.register_ddp_comm_hook(hooks.DDPCommHookType.ALLREDUCE, m))
    state = powers.PowerSGDState(None, 1000, 2)
    found = _trained(t, rank, lambda m: m.register_comm_hook(state, powers.batched_powerSGD_hook))
    for a, b in zip(exact, found):
        t.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    thin = powers.PowerSGDState(None, 1, 2)
    found = _trained(t, rank, lambda m: m.register_comm_hook(thin, powers.batched_powerSGD_hook))
    assert not t.allclose(exact[-1], found[-1])


def power_sgd(t, d, rank):
    powers = _of(t, "algorithms.ddp_comm_hooks.powerSGD_hook")
    out = []
    for rank_of_matrices in (1, 2, 3):
        for options in ({}, {"use_error_feedback": False}, {"warm_start": False}):
            state = powers.PowerSGDState(None, rank_of_matrices, 2, min_compression_rate=1, **options)
            out += _trained(t, rank, lambda m, s=state: m.register_comm_hook(s, powers.powerSGD_hook))
            out.append(t.tensor(state.compression_stats()))
    return out


def power_sgd_same_shapes(t, d, rank):
    powers = _of(t, "algorithms.ddp_comm_hooks.powerSGD_hook")

    def wide(t):
        t.manual_seed(0)
        return t.nn.Sequential(*(t.nn.Linear(6, 6) for _ in range(3)))

    model = t.nn.parallel.DistributedDataParallel(wide(t))
    state = powers.PowerSGDState(None, 2, 2, min_compression_rate=1, batch_tensors_with_same_shape=True)
    model.register_comm_hook(state, powers.powerSGD_hook)
    out = []
    t.manual_seed(rank)
    for _ in range(4):
        model.zero_grad()
        model(t.randn(9, 6)).square().sum().backward()
        out += [p.grad.clone() for p in model.parameters()]
    return out


def power_sgd_refuses(t, d, rank):
    _of(t, "algorithms.ddp_comm_hooks.powerSGD_hook").PowerSGDState(None, start_powerSGD_iter=1)


def sharded_hooks(t, d, rank):
    hooks = _of(t, "algorithms._comm_hooks.default_hooks")
    state = hooks.DefaultState(d.group.WORLD)
    grad = (t.arange(6.0) + 1) * (rank + 1) / 3
    hooks.allreduce_hook(state, grad)
    part = t.zeros(3)
    hooks.reduce_scatter_hook(state, (t.arange(6.0) + 1) * (rank + 1) / 3, part)
    factors = [hooks.DefaultState._get_gradient_predivide_factor(n) for n in (1, 2, 3, 4, 8, 12)]
    return [grad, part], factors


def narrow_sharded_hooks(t, d, rank):
    """PyTorch's fail on the CPU."""
    hooks = _of(t, "algorithms._comm_hooks.default_hooks")
    state = hooks.LowPrecisionState(d.group.WORLD)
    wanted = (t.arange(6.0) + 1) / 2
    for hook, dtype in ((hooks.fp16_compress_hook, t.float16), (hooks.bf16_compress_hook, t.bfloat16)):
        for whole in (True, False):
            grad, part = (t.arange(6.0) + 1) * (rank + 1) / 3, None if whole else t.zeros(3)
            hook(state, grad, part)
            found = grad if whole else part
            exact = wanted if whole else wanted[3 * rank : 3 * rank + 3]
            assert found.dtype == t.float32
            t.testing.assert_close(found, exact, rtol=4 * t.finfo(dtype).eps, atol=0)


def hierarchical(t, d, rank):
    averagers = _of(t, "algorithms.model_averaging.hierarchical_model_averager")
    model = _model(t)
    groups = collections.OrderedDict([(1, 1), (2, 2)]) if d.get_world_size() == 2 else (
        collections.OrderedDict([(2, 2), (4, 4)])
    )
    averager = averagers.HierarchicalModelAverager(groups, warmup_steps=1)
    out = []
    for step in range(5):
        model.zero_grad()
        model(t.ones(3, 8) * (rank + step)).square().mean().backward()
        with t.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
        averager.average_parameters(model.parameters())
        out += [p.detach().clone() for p in model.parameters()]
    return out


def overlapped(t, d, rank):
    overlap = _of(t, "algorithms._optimizer_overlap.optimizer_overlap")
    model = t.nn.parallel.DistributedDataParallel(_model(t))
    overlap._as_overlapped_optim(t.optim.SGD, None, lr=0.1, momentum=0.9).register_ddp(model)
    for step in range(3):
        model.zero_grad()
        model(t.ones(3, 8) * (rank + step)).square().mean().backward()
    return [p.detach() for p in model.parameters()]


def alone(t, d, rank):
    """What needs no second process."""
    functional, named = _of(t, "optim.utils"), _of(t, "optim.named_optimizer")
    out = []
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Adamax"):
        p = t.ones(3, requires_grad=True)
        made = functional.functional_optim_map[getattr(t.optim, name)]([p], lr=0.1)
        for step in range(3):
            made.step([t.arange(3.0) - step])
        out.append(p.detach())
    made = functional.as_functional_optim(t.optim.SGD, lr=0.1)
    made.step_param(p, t.ones(3))
    out.append(p.detach())
    backward = _of(t, "optim.apply_optimizer_in_backward")
    model = _model(t)
    backward._apply_optimizer_in_backward(t.optim.SGD, model.parameters(), {"lr": 0.1})
    model(t.ones(2, 8)).sum().backward()
    out += [p.detach() for p in model.parameters()]
    assert all(p.grad is None for p in model.parameters())
    model = _model(t)
    optimizer = named._NamedOptimizer(model.named_parameters(), t.optim.Adam, None, model, lr=0.1)
    optimizer.init_state()
    model(t.ones(2, 8)).sum().backward()
    optimizer.step()
    out += [p.detach() for p in model.parameters()]
    device = _of(t, "remote_device")._remote_device
    shown = [repr(device(x)) for x in ("cpu", "a/cpu", "rank:1/cpu", "b")]
    return out, sorted(optimizer.state_dict()["state"]), shown


def scaled(t, d, rank):
    """An infinity in one process' gradient makes all skip the step, and halves the scale of all."""
    fsdp, scalers = _of(t, "fsdp"), _of(t, "fsdp.sharded_grad_scaler")
    model = fsdp.fully_shard(_model(t))
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    scaler = scalers.ShardedGradScaler("cpu", init_scale=8.0, growth_interval=2)
    out, scales = [], []
    for step in range(5):
        optimizer.zero_grad()
        scaler.scale(model(t.ones(2, 8)).square().mean()).backward()
        if step == 2 and rank == 1:
            next(iter(model.parameters())).grad.to_local().fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        out += [p.full_tensor().detach() for p in model.parameters()]
    return out, scales


def wrapped(t, d, rank):
    wrap = _of(t, "fsdp.wrap")
    with wrap.enable_wrap(wrapper_cls=t.nn.Sequential):
        made = wrap.wrap(t.nn.Linear(1, 1))
    either = wrap._or_policy(
        t.nn.Linear(1, 1), False, 1, [lambda **k: False, lambda **k: k["nonwrapped_numel"] == 1]
    )
    return type(made).__name__, type(wrap.wrap(t.nn.Linear(1, 1))).__name__, either


def renamed(t, d, rank):
    f = _of(t, "fsdp")
    model = _model(t)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(t.ones(2, 8)).sum().backward()
    optimizer.step()
    by_name = f.FullyShardedDataParallel.rekey_optim_state_dict(
        optimizer.state_dict(), f.OptimStateKeyType.PARAM_NAME, model, optim=optimizer
    )
    again = f.FullyShardedDataParallel.rekey_optim_state_dict(
        by_name, f.OptimStateKeyType.PARAM_ID, model, optim=optimizer
    )
    return [sorted(by_name["state"]), by_name["param_groups"][0]["params"], sorted(again["state"])]


@pytest.mark.parametrize(
    "program",
    [
        scaled,
        wrapped,
        renamed,
        by_name,
        power_sgd,
        power_sgd_same_shapes,
        power_sgd_refuses,
        sharded_hooks,
        hierarchical,
        overlapped,
        alone,
    ],
)
def test_two_processes(two, program):
    two.run(program)


@pytest.mark.parametrize("program", [quantized, batched_power_sgd, narrow_sharded_hooks])
def test_without_a_counterpart(two, program):
    two.run(program, ["ftorch"])


def test_groups_of_two(four):
    four.run(hierarchical)


def narrow(t, d, rank):
    """Gradients that are exchanged in a narrow dtype: of the sums that it gives."""
    from ftorch.nn.parallel.distributed import _MixedPrecision

    found = []
    for reduced in (t.bfloat16, t.float32):
        t.manual_seed(0)
        layer = t.nn.Linear(4, 3, bias=False)
        settings = _MixedPrecision(param_dtype=t.bfloat16, reduce_dtype=reduced)
        model = t.nn.parallel.DistributedDataParallel(layer, mixed_precision=settings)
        x = t.arange(8.0).reshape(2, 4) / 7 + rank
        model(x).sum().backward()
        parts = [t.zeros(3, 4, dtype=t.bfloat16) for _ in range(2)]
        own = (x.bfloat16().sum(0, keepdim=True)).expand(3, 4).contiguous()
        d.all_gather(parts, own)
        wanted = ((parts[0].to(reduced) + parts[1].to(reduced)) / 2).float()
        assert t.equal(layer.weight.grad, wanted), (layer.weight.grad, wanted)
        with pytest.raises(RuntimeError, match="can only be called once"):
            model.register_comm_hook(None, lambda state, bucket: None)
        found.append(layer.weight.grad)
    return found


def test_gradients_are_exchanged_in_the_dtype_that_mixed_precision_says(two):
    two.run(narrow, ("ftorch",))
