"""DistributedDataParallel in two processes: losses and weights are PyTorch's."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from typing import NamedTuple

import pytest


def model_of(t, seed=0):
    t.manual_seed(seed)
    return t.nn.Sequential(t.nn.Linear(6, 16), t.nn.Tanh(), t.nn.Linear(16, 8), t.nn.ReLU(), t.nn.Linear(8, 3))


def data_of(t, rank, rows=8):
    t.manual_seed(100 + rank)
    return t.randn(rows, 6), t.randint(0, 3, (rows,))


def train(t, rank, steps=6, lr=0.1, hook=None, model=None, **options):
    model = t.nn.parallel.DistributedDataParallel(model or model_of(t, rank), **options)
    if hook is not None:
        model.register_comm_hook(*hook)
    optimizer = t.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    x, y = data_of(t, rank)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach() for p in model.parameters()], [p.grad for p in model.parameters()]


def plain(t, d, rank):
    return train(t, rank, 20)


def accumulated_late(t, d, rank):
    """As accelerate does it: a forward under `no_sync` whose gradients are averaged all the same."""
    model = t.nn.parallel.DistributedDataParallel(model_of(t))
    x, y = data_of(t, rank)
    with model.no_sync():
        losses = [t.nn.functional.cross_entropy(model(x * (i + 1)), y) for i in range(2)]
        losses[0].backward()
    model.require_backward_grad_sync = model.require_forward_param_sync = True
    model.reducer.prepare_for_backward([])
    losses[1].backward()
    return [p.grad for p in model.parameters()]


def small_buckets(t, d, rank):
    return train(t, rank, bucket_cap_mb=0.0002), train(t, rank, gradient_as_bucket_view=True)


def static(t, d, rank):
    return train(t, rank, static_graph=True)


def accumulated(t, d, rank):
    model = t.nn.parallel.DistributedDataParallel(model_of(t))
    x, y = data_of(t, rank)
    with model.no_sync():
        t.nn.functional.cross_entropy(model(x), y).backward()
    local = model.module[0].weight.grad.clone()
    t.nn.functional.cross_entropy(model(x * 2), y).backward()
    return local, [p.grad for p in model.parameters()]


class Branches:
    def __new__(cls, t):
        class Module(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = t.nn.Linear(2, 2), t.nn.Linear(2, 2), t.nn.Linear(2, 2)

            def forward(self, x, way):
                return self.a(x) if way == 0 else self.b(self.a(x))

        t.manual_seed(0)
        return Module()


def unused(t, d, rank):
    model = t.nn.parallel.DistributedDataParallel(Branches(t), find_unused_parameters=True)
    out = []
    for _ in range(2):
        model(t.ones(1, 2), rank).sum().backward()
        out.append([p.grad for p in model.parameters()])
    return out


def missing(t, d, rank):
    model = t.nn.parallel.DistributedDataParallel(Branches(t))
    model(t.ones(1, 2), 0).sum().backward()
    model(t.ones(1, 2), 0).sum().backward()


def buffers(t, d, rank):
    t.manual_seed(rank)
    model = t.nn.Sequential(t.nn.Linear(6, 4), t.nn.BatchNorm1d(4))
    model = t.nn.parallel.DistributedDataParallel(model)
    x, _ = data_of(t, rank)
    for _ in range(3):
        (model(x) * t.arange(4.0)).tanh().sum().backward()
    return list(model.buffers()), [p.grad for p in model.parameters()], list(model.state_dict())


def synchronized_norm(t, d, rank):
    """Statistics and gradients are those of one process with both batches."""
    t.manual_seed(0)
    layers = t.nn.Sequential(t.nn.Conv2d(2, 3, 3), t.nn.BatchNorm2d(3), t.nn.ReLU())
    alone = t.nn.Sequential(t.nn.Conv2d(2, 3, 3), t.nn.BatchNorm2d(3), t.nn.ReLU())
    alone.load_state_dict(layers.state_dict())
    model = t.nn.SyncBatchNorm.convert_sync_batchnorm(layers)
    model = t.nn.parallel.DistributedDataParallel(model)
    batches = [t.randn(2 + r, 2, 5, 5) for r in range(2)]
    imported = vars(t.distributed).pop("nn", None)  # a script need not have imported it
    out = model(batches[rank])
    if imported is not None:
        t.distributed.nn = imported
    weights = t.arange(9.0).view(3, 3)
    (out * weights).sum().backward()
    expected = alone(t.cat(batches))
    (expected * weights).sum().backward()
    t.testing.assert_close(out, expected.split([2, 3])[rank])
    for p, q in zip(model.parameters(), alone.parameters()):
        t.testing.assert_close(p.grad * 2, q.grad, atol=1e-4, rtol=1e-4)
    for p, q in zip(model.buffers(), alone.buffers()):
        t.testing.assert_close(p, q)


def compressed(t, d, rank):
    hooks = __import__(f"{t.__name__}.distributed.algorithms.ddp_comm_hooks", fromlist=["x"]).default_hooks
    out = []
    for name in ("allreduce_hook", "fp16_compress_hook"):
        losses, weights, _ = train(t, rank, 3, hook=(None, getattr(hooks, name)))
        out.append([round(x, 3) for x in losses])
    wrapped = hooks.fp16_compress_wrapper(hooks.allreduce_hook)
    out.append([round(x, 3) for x in train(t, rank, 3, hook=(None, wrapped))[0]])
    return out


def own_hook(t, d, rank):
    seen = []

    def hook(state, bucket):
        seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters()), bucket.buffer().numel()))
        return d.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] * 0.25)

    return train(t, rank, 2, hook=("state", hook)), seen


def uneven(t, d, rank):
    model = t.nn.parallel.DistributedDataParallel(model_of(t))
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    x, y = data_of(t, rank)
    with model.join():
        for _ in range(2 + 2 * rank):
            optimizer.zero_grad()
            t.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return [p.detach() for p in model.parameters()]


def several_inputs_error(t, d, rank):
    linear = t.nn.Linear(2, 2)
    linear.requires_grad_(False)
    return t.nn.parallel.DistributedDataParallel(linear)


def different_models(t, d, rank):
    try:
        t.nn.parallel.DistributedDataParallel(t.nn.Linear(2, 2 + rank))
    except RuntimeError as error:
        assert "appears not to match sizes of the same param in process" in str(error)
    else:
        raise AssertionError("no error")


def derivatives(t, d, rank):
    f = __import__(f"{t.__name__}.distributed.nn.functional", fromlist=["x"])
    found = []
    for call in (
        lambda x: [f.all_reduce(x)], lambda x: f.all_gather(x), lambda x: [f.broadcast(x, 1)],
        lambda x: f.all_to_all([t.zeros(4), t.zeros(4)], [x, x * 3]),
    ):
        x = (t.arange(4.0) + rank).requires_grad_()
        outs = call(x)
        sum((o * o * (i + 1 + rank)).sum() for i, o in enumerate(outs)).backward()
        found.append(([o.detach() for o in outs], x.grad))
    return found


def functional(t, d, rank):
    f = __import__(f"{t.__name__}.distributed._functional_collectives", fromlist=["x"])
    x = t.arange(8.0).view(4, 2) + rank
    group = d.group.WORLD
    outs = [
        f.all_reduce(x, "sum", group), f.all_reduce(x, "avg", [0, 1]), f.all_gather_tensor(x, 1, group),
        f.all_gather_tensor(x, 0, group), f.reduce_scatter_tensor(x, "sum", 0, group),
        f.reduce_scatter_tensor(x, "sum", 1, group), f.all_to_all_single(x, None, None, group),
        f.broadcast(x, 1, group), *f.all_reduce_coalesced([x, x + 1], "max", group),
    ]
    return [f.wait_tensor(o) for o in outs]


def crossed(t):
    """A module whose layers run in another order than they are declared in."""
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = t.nn.Linear(30, 30), t.nn.Linear(30, 30)
            self.c, self.d = t.nn.Linear(30, 100), t.nn.Linear(100, 30)

        def forward(self, x):
            return self.a(self.d(self.c(self.b(x))))

    t.manual_seed(0)
    return Net()


def rebuilt_buckets(t, d, rank):
    """Which parameters are in which bucket, before and after gradients have come once."""
    out = []

    def hook(state, bucket):
        out.append((bucket.index(), bucket.is_last(), [tuple(p.shape) for p in bucket.parameters()], bucket.buffer().shape))
        work = d.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda f: f.value()[0] / 2)

    mb = 1 / 1024
    for options in (
        {}, {"bucket_cap_mb": 25}, {"bucket_cap_mb": 5 * mb}, {"bucket_cap_mb_list": [4 * mb, 8 * mb, 1]},
        {"bucket_cap_mb": 5 * mb, "find_unused_parameters": True}, {"bucket_cap_mb": 5 * mb, "static_graph": True},
        {"bucket_cap_mb": 5 * mb, "gradient_as_bucket_view": True},
    ):
        net = t.nn.parallel.DistributedDataParallel(crossed(t), **options)
        net.register_comm_hook(None, hook)
        for i in range(4):
            net(t.ones(2, 30) * (rank + i + 1)).sum().backward()
            if not i and "static_graph" in options:
                del out[-1]  # there PyTorch gives each bucket the number 0
        out.append([p.grad.sum().to(t.float64).round() for p in net.parameters()])
    return out


def kept_apart(t, d, rank):
    """What is to be ignored, and buffers that are not to be synchronized, stay as each process has them."""
    def made():
        net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
        with t.no_grad():
            for i, x in enumerate([*net.parameters(), net[1].running_mean]):
                x.fill_(i + 10.0 * rank)
        return net

    out = []
    for ignored, options in (
        ((), {}), ((), {"broadcast_buffers": False}), ((), {"forward_sync_buffers": False}),
        ((), {"broadcast_buffers": True, "forward_sync_buffers": False}), (("0.bias", "1.running_mean"), {}),
    ):
        net = made()
        net._ddp_params_and_buffers_to_ignore = list(ignored)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ddp = t.nn.parallel.DistributedDataParallel(net, **options)
        out.append([str(w.message) for w in caught])
        out.append((ddp.broadcast_buffers, ddp.forward_sync_buffers, list(net.state_dict().values())))
    return out


def buffers_follow_the_last_forward(t, d, rank):
    """Whether buffers are rank 0's in a forward was decided by the one before, also within no_sync and no_grad."""
    def made():
        t.manual_seed(0)
        return t.nn.parallel.DistributedDataParallel(t.nn.Sequential(t.nn.Linear(6, 4), t.nn.BatchNorm1d(4)))

    net, out = made(), []
    for i, synchronizes in enumerate((False, True, False, False, True, True)):
        x, _ = data_of(t, rank + 2 * i)
        with contextlib.nullcontext() if synchronizes else net.no_sync():
            net(x).pow(2).sum().backward()
        out.append(net.module[1].running_mean.clone())
    with t.no_grad():
        for i in range(2):
            net(x)
            out.append(net.module[1].running_mean.clone())
    join = __import__(f"{t.__name__}.distributed.algorithms.join", fromlist=["x"]).Join
    net = made()
    with join([net]):
        for i in range(2 + rank):
            x, _ = data_of(t, rank + 2 * i)
            with net.no_sync() if i == 1 else contextlib.nullcontext():
                net(x).pow(2).sum().backward()
            out.append(net.module[1].running_mean.clone())
    return out, list(net.module[1].buffers())


def divided_by_those_left(t, d, rank):
    join = __import__(f"{t.__name__}.distributed.algorithms.join", fromlist=["x"]).Join
    out = []
    for initial in (True, False):
        t.manual_seed(0)
        net = t.nn.parallel.DistributedDataParallel(t.nn.Linear(2, 1, bias=False))
        with join([net], divide_by_initial_world_size=initial):
            for i in range(2 + 2 * rank):
                net.zero_grad()
                net(t.full((1, 2), rank + i + 1.0)).sum().backward()
                out.append(net.module.weight.grad.clone())
    return out


def refused(t, d, rank):
    from tests.oracle import outcome

    def promises_a_number(state, bucket) -> int:
        return 1

    wrap, line = t.nn.parallel.DistributedDataParallel, t.nn.Linear
    calls = (
        lambda: wrap(line(2, 2), device_ids=[0]), lambda: wrap(line(2, 2), output_device=1),
        lambda: wrap(line(2, 2)).register_comm_hook(None, lambda a, b: None),
        lambda: wrap(line(2, 2)).register_comm_hook(None, promises_a_number),
    )
    hooked = wrap(line(2, 2))
    hooked.register_comm_hook(None, lambda state, bucket: bucket.buffer())
    calls += (lambda: hooked(t.ones(1, 2)).sum().backward(),)
    return [(type(e).__name__, str(e)) for _, e in map(outcome, calls)]


def functional_in_place(t, d, rank):
    f = __import__(f"{t.__name__}.distributed._functional_collectives", fromlist=["x"])
    x, group = t.arange(4.0).view(2, 2) + rank, d.group.WORLD
    y, z, parts = t.zeros(4, 2), t.zeros(1, 2), [t.zeros(2, 2), t.zeros(2, 2)]
    back = [
        f.all_gather_tensor_inplace(y, x, group) is y, f.reduce_scatter_tensor_inplace(z, x, "sum", group) is z,
        f.all_gather_inplace(parts, x, group) is parts, f.all_to_all_inplace(w := t.zeros(2, 2), x, None, None, group) is w,
        f.all_reduce_inplace(x, "max", group) is x,
    ]
    return back, x, y, z, w, parts


def functional_errors(t, d, rank):
    from tests.oracle import outcome

    f = __import__(f"{t.__name__}.distributed._functional_collectives", fromlist=["x"])
    x, group = t.arange(4.0), d.group.WORLD
    calls = (
        lambda: f.all_reduce(x, "foo", group), lambda: f.all_reduce(x, "sum", 3.5),
        lambda: f.all_gather_tensor(x, 5, group), lambda: f.reduce_scatter_tensor(t.ones(3), "sum", 0, group),
        lambda: f.all_reduce_inplace(x, "sum", group, async_op=True),
        lambda: f.all_gather_inplace([t.zeros(3), t.zeros(2)], t.ones(2), group),
    )
    return [(type(e).__name__, str(e)) for _, e in map(outcome, calls)]


def _steps(t, make, calls, **options):
    """Gradients and weights of some steps; the text of what a step raises ends them."""
    t.manual_seed(2)
    model, found = t.nn.parallel.DistributedDataParallel(make(), **options), []
    optimizer = t.optim.SGD(model.parameters(), 0.1, weight_decay=0.01)
    for call in calls:
        optimizer.zero_grad()
        try:
            call(model).backward()
        except RuntimeError as error:
            return [*found, str(error)]
        optimizer.step()
        found += [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]
    return found + [p.detach().clone() for p in model.parameters()]


def checkpoints_within(t, d, rank):
    """Backward passes within the backward pass: gradients are averaged when all of them are there."""
    checkpoint = __import__(f"{t.__name__}.utils.checkpoint", fromlist=["x"]).checkpoint

    class Layers(t.nn.Module):
        def __init__(self, times):
            super().__init__()
            self.layers, self.times = t.nn.ModuleList(t.nn.Linear(4, 4) for _ in range(3)), times

        def forward(self, x, reentrant):
            for layer in self.layers:
                for _ in range(self.times):
                    x = checkpoint(lambda v, layer=layer: layer(v).tanh(), x, use_reentrant=reentrant)
            return x

    found = []
    for times, reentrant, options in (
        (1, True, {}), (1, True, {"find_unused_parameters": True}), (1, True, {"static_graph": True}),
        (2, True, {"static_graph": True}), (2, False, {"static_graph": True}),
    ):
        x = (t.ones(2, 4) * (rank + 1)).requires_grad_()
        calls = [lambda model, i=i: model(x / i, reentrant).sum() for i in range(1, 5)]
        found += _steps(t, lambda: Layers(times), calls, **options) + [x.grad]
    return found


def results_in_part(t, d, rank):
    """Of what a module gives, losses use a part: with ``find_unused_parameters`` the rest is not waited for."""
    class Named(NamedTuple):
        a: object
        b: object

    @dataclasses.dataclass
    class Fields:
        a: object
        b: object

    kinds = {
        "tuple": lambda a, b: (a, (b,)), "dict": lambda a, b: {"a": a, "b": [b]}, "named": Named, "fields": Fields,
    }

    class Both(t.nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.a, self.b, self.unused, self.kind = *(t.nn.Linear(3, 2) for _ in range(3)), kind

        def forward(self, x):
            return kinds[self.kind](self.a(x), self.b(x))

    def loss(model, result, i):
        a, b = {
            "tuple": lambda r: (r[0], r[1][0]), "dict": lambda r: (r["a"], r["b"][0]), "named": lambda r: r,
            "fields": lambda r: (r.a, r.b),
        }[model.module.kind](result)
        assert a.grad_fn.name() == ("AddmmBackward0" if model.module.kind == "fields" else "_DDPSinkBackward")
        return (a if model.module.kind != "fields" and ((i + rank) % 2 or i == 3) else a + b).sum()

    found = []
    for kind in kinds:
        calls = [lambda model, i=i: loss(model, model(t.ones(2, 3) * (rank + 1)), i) for i in range(4)]
        found += _steps(t, lambda: Both(kind), calls, find_unused_parameters=True)
    return found


def unfinished(t, d, rank):
    """What is said where parameters got no gradients, and which."""
    class Both(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = t.nn.Linear(2, 2), t.nn.Linear(2, 2)

        def forward(self, x):
            return self.a(x), self.b(x)

    level, found = d.get_debug_level(), []
    one, both = lambda model: model(t.ones(1, 2))[0].sum(), lambda model: sum(model(t.ones(1, 2))).sum()
    for debug in (d.DebugLevel.OFF, d.DebugLevel.INFO):
        d.set_debug_level(debug)
        for options, calls in (({}, [one, one]), ({"static_graph": True}, [both, both, one, one])):
            found += _steps(t, Both, calls, **options)
    d.set_debug_level(level)
    return found


PROGRAMS = [
    checkpoints_within, results_in_part, unfinished,
    functional_in_place, functional_errors, rebuilt_buckets, kept_apart, divided_by_those_left, refused,
    buffers_follow_the_last_forward,
    plain, small_buckets, static, accumulated, accumulated_late, unused, missing, buffers, compressed, own_hook, uneven,
    several_inputs_error, derivatives, functional,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_processes(two, program):
    two.run(program)


@pytest.mark.parametrize("program", [synchronized_norm, different_models])
def test_alone(two, program):
    """What PyTorch does on GPUs only, or hangs in."""
    two.run(program, ("ftorch",))
