"""What whole parameters of `fully_shard` are while they are there, and when they come and go; gradients of `DTensor`s by
``torch.autograd``. In two processes, as PyTorch's."""

from __future__ import annotations

import pytest

from tests.oracle import outcome


def model(t):
    from importlib import import_module

    fsdp = import_module(f"{t.__name__}.distributed.fsdp")
    t.manual_seed(0)
    return fsdp, t.nn.Sequential(t.nn.Linear(6, 4), t.nn.ReLU(), t.nn.Linear(4, 2))


def sharded(t, **options):
    fsdp, net = model(t)
    for m in (net[0], net[2], net):
        fsdp.fully_shard(m, **options)
    return net


def seen(net):
    return [(type(p).__name__, p.is_leaf, p.requires_grad, p.grad is None, tuple(p.shape)) for p in net.parameters()]


def parts(net):
    return [None if p.grad is None else p.grad.to_local() for p in net.parameters()]


def inputs(t, rank):
    return t.arange(18.0).view(3, 6) * (rank + 1) / 9 - 1


def gathered_by_hand(t, d, rank):
    """A whole parameter is a leaf, the same each time, and has a gradient of its own."""
    net = sharded(t)
    handle = net[0].unshard(async_op=True)
    out = [type(handle).__name__, handle.wait(), seen(net)]
    first = net[0].weight
    net[0].reshard()
    out += [seen(net), net[0].unshard(), net[0].weight is first]
    (net[0].weight.sum() * 2).backward()
    out += [net[0].weight.grad.clone(), seen(net)]
    net[0].reshard()
    out += [net[0].weight.grad is None]
    net(inputs(t, rank)).sum().backward()
    return [*out, seen(net), parts(net)]


def kept_behind_backward(t, d, rank):
    net, x = sharded(t), inputs(t, rank)
    net.set_reshard_after_backward(False)
    out = []
    for _ in range(2):
        net(x).sum().backward()
        out.append(seen(net))
    net.reshard()
    return [*out, seen(net), parts(net)]


def kept_between(t, d, rank):
    """``reshard_after_forward=False``, and the outermost module by itself."""
    fsdp, net = model(t)
    fsdp.fully_shard(net[0], reshard_after_forward=False)
    fsdp.fully_shard(net)
    x, out = inputs(t, rank), []
    for _ in range(2):
        loss = net(x).sum()
        out.append(seen(net))
        loss.backward()
        out.append(seen(net))
    with t.no_grad():
        net(x)
    out.append(seen(net))
    net.state_dict()
    out.append(seen(net))
    net.set_reshard_after_forward(True)
    net(x)
    refused = [outcome(lambda: net.set_reshard_after_forward(3))]
    return [*out, seen(net), [(type(e).__name__, str(e)) for _, e in refused]]


def waiting(t, d, rank):
    """Gradients that are not reduced yet lie in the whole parameters, with mixed dtypes in that of reductions."""
    fsdp, net = model(t)
    policy = fsdp.MixedPrecisionPolicy(param_dtype=t.bfloat16, reduce_dtype=t.float32)
    mixed = sharded(t, mp_policy=policy)
    net, x, out = sharded(t), inputs(t, rank), []
    net.set_requires_gradient_sync(False)
    net.set_reshard_after_backward(False)
    net(x).sum().backward()
    out += [seen(net), [p.grad.clone() for p in net.parameters()]]
    net.set_requires_gradient_sync(True)
    net.set_reshard_after_backward(True)
    net(x).sum().backward()
    out += [seen(net), parts(net)]
    mixed.set_requires_gradient_sync(False)
    for _ in range(3):
        mixed(x).sum().backward()
    mixed.set_requires_gradient_sync(True)
    mixed(x).sum().backward()
    return [*out, seen(mixed), [g.dtype.itemsize for g in parts(mixed)], parts(mixed)]


def replicas(t, d, rank):
    """Sums of parts wait for those of the replicas."""
    mesh = d.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "shard"))
    net, x = sharded(t, mesh=mesh), inputs(t, rank)
    net.set_requires_all_reduce(False)
    net(x).sum().backward()
    out = [seen(net)]
    net.set_requires_all_reduce(True)
    net(x * 2).sum().backward()
    return [*out, seen(net), parts(net)]


def asked_for(t, d, rank):
    """``torch.autograd.grad``: of the input alone, nothing is reduced; parts are in no graph."""
    net, x = sharded(t), inputs(t, rank).requires_grad_()
    (g,) = t.autograd.grad(net(x).sum(), x)
    out = [g, seen(net)]
    calls = (
        lambda: t.autograd.grad(net(x).sum(), [*net.parameters()]),
        lambda: t.autograd.grad(net(x).sum(), [*net.parameters()], allow_unused=True),
        lambda: net.set_modules_to_forward_prefetch([net[1]]),
        lambda: net[0].set_modules_to_forward_prefetch([net[2]]),
        lambda: net.set_modules_to_backward_prefetch([t.nn.Linear(1, 1)]),
    )
    ends = [(value, type(e).__name__, str(e).replace(f"{t.__name__}.", "")) for value, e in map(outcome, calls)]
    return [*out, ends, seen(net)]


def heard(t, d, rank):
    """Hooks of parts hear of reduced gradients; those of gradients do not, since parts are in no graph."""
    net, calls = sharded(t), []
    for name, p in net.named_parameters():
        p.register_hook(lambda g, name=name: calls.append(("gradient", name)))
        p.register_post_accumulate_grad_hook(
            lambda p, name=name: calls.append((name, type(p).__name__, p.grad.to_local().clone()))
        )
    net(inputs(t, rank)).sum().backward()
    return sorted(calls, key=lambda c: c[0])


def several_passes(t, d, rank):
    net, x = sharded(t), inputs(t, rank)
    loss = net(x).sum()
    loss.backward(retain_graph=True)
    out = [parts(net)]
    loss.backward()
    out.append(parts(net))
    net.zero_grad()
    (net(x).sum() + net(x * 2).sum()).backward()
    return [*out, parts(net), seen(net)]


def computed_again(t, d, rank):
    """Activation checkpoints inside of a divided module, around it, and in its place."""
    from importlib import import_module

    composable = import_module(f"{t.__name__}.distributed._composable")
    checkpoint = import_module(f"{t.__name__}.utils.checkpoint").checkpoint
    x, out = inputs(t, rank), []
    fsdp, net = model(t)
    for m in (net[0], net[2]):
        composable.checkpoint(m)
        fsdp.fully_shard(m)
    fsdp.fully_shard(net)
    net(x).sum().backward()
    out.append(parts(net))
    for reentrant in (False, True):
        net, begun = sharded(t), x.clone().requires_grad_()
        head = net.forward
        net.forward = lambda v, head=head, reentrant=reentrant: checkpoint(head, v, use_reentrant=reentrant)
        net(begun).sum().backward()
        out += [parts(net), begun.grad, seen(net)]
    blocks = t.nn.ModuleList([sharded(t)[0] for _ in range(2)])
    y = checkpoint(lambda v: blocks[1](t.cat([blocks[0](v), v], 1)[:, :6]), x, use_reentrant=False)
    y.sum().backward()
    return [*out, parts(blocks)]


def of_divided_tensors(t, d, rank):
    """``autograd.grad`` and ``autograd.backward`` take `DTensor`s."""
    from importlib import import_module

    tensor = import_module(f"{t.__name__}.distributed.tensor")
    mesh = d.init_device_mesh("cpu", (2,))

    def made(*shape, placed):
        x = t.arange(float(t.Size(shape).numel())).view(shape)
        return tensor.distribute_tensor(x, mesh, [placed]).requires_grad_()

    x, w, other = made(4, 2, placed=tensor.Shard(0)), made(2, 3, placed=tensor.Replicate()), made(2, placed=tensor.Shard(0))

    def whole(found):
        return [None if g is None else (type(g).__name__, g.full_tensor().detach()) for g in found]

    y = x @ w
    out = [
        whole(t.autograd.grad(y.square().sum(), (x, w, other), allow_unused=True)),
        whole(t.autograd.grad(x @ w, (x, w), grad_outputs=t.ones_like(y))),
        whole(t.autograd.grad(x.full_tensor().square().sum(), (x,))),
    ]
    (g,) = t.autograd.grad((x @ w).square().sum(), (x,), create_graph=True)
    out.append(whole(t.autograd.grad(g.square().sum(), (w,))))
    t.autograd.backward([x @ w], [t.ones_like(y)])
    out.append(whole([x.grad, w.grad]))
    t.autograd.backward((x @ w).square().sum(), inputs=[x])
    out.append(whole([x.grad, w.grad]))
    calls = (lambda: t.autograd.grad((x @ w).sum(), other), lambda: t.autograd.grad((x @ w).sum(), other.detach()))
    return [*out, [(type(e).__name__, str(e)) for _, e in map(outcome, calls)]]


PROGRAMS = [
    gathered_by_hand, kept_behind_backward, kept_between, waiting, replicas, asked_for, heard, several_passes, computed_again,
    of_divided_tensors,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_processes(two, program):
    two.run(program)
