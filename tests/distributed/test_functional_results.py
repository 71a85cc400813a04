"""Results of functional collectives, collectives of tensors without elements, and compiled modules whose gradients are
averaged: in two processes, as PyTorch's."""

from __future__ import annotations

import warnings

import pytest

from .test_data_parallel import data_of, model_of


def _functions(t):
    return __import__(f"{t.__name__}.distributed._functional_collectives", fromlist=["x"])


def waited_for(t, d, rank):
    f, group = _functions(t), d.group.WORLD
    x = t.arange(4.0).view(2, 2) * (rank + 1)
    y = f.all_reduce(x, "sum", group)
    out = [type(y).__name__, repr(y), repr(y[0]), y.completed, y.tolist(), y.numpy(), y.sum(), y + 1, y.wait()]
    y.add_(1)
    out += [y.elem, t.cat([y, y]), t.zeros(2, 2).copy_(y), repr(y.chunk(2))]
    out += [type(v).__name__ for v in (
        f.all_gather_single(x, 0, group), f.all_gather_single(x, 1, group), f.reduce_scatter_single(x, "sum", 1, group),
        f.all_to_all_single(x, None, None, group), f.broadcast(x, 0, group), *f.all_reduce_coalesced([x], "sum", group),
        t.ops._c10d_functional.all_reduce(x, "sum", group.group_name),
    )]
    leaf = t.ones(2, requires_grad=True)
    (f.all_reduce(leaf * 2, "sum", group) * 3).sum().backward()
    return [*out, leaf.grad]


def earlier_names(t, d, rank):
    f, group, x = _functions(t), d.group.WORLD, t.arange(4.0)
    functional = __import__(f"{t.__name__}.distributed.nn.functional", fromlist=["x"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f.all_gather_tensor(x, 0, group)
        f.reduce_scatter_tensor_autograd(x, "sum", 0, group)
        f.all_gather_into_tensor_coalesced([x], group)
        functional.all_reduce(x)
        functional.reduce_scatter(t.zeros(2), list(x.chunk(2)))
    return [(w.category.__name__, str(w.message).replace("ftorch", "torch")) for w in caught]


def without_elements(t, d, rank):
    f, group = _functions(t), d.group.WORLD
    x = t.empty(4, 2, device="meta")
    d.all_reduce(x)
    d.all_gather([t.empty_like(x), t.empty_like(x)], x)
    d.broadcast(x, 0)
    d.send(x, 1 - rank)
    d.recv(x, 1 - rank)
    d.reduce_scatter([x[:2], x[2:]][rank], [x[:2], x[2:]])
    work = d.all_reduce(x, async_op=True)
    work.wait()
    mesh = d.init_device_mesh("cpu", (2,))
    tensor = __import__(f"{t.__name__}.distributed.tensor", fromlist=["x"])
    whole = tensor.distribute_tensor(x, mesh, [tensor.Shard(0)]).full_tensor()
    fake = __import__(f"{t.__name__}._subclasses.fake_tensor", fromlist=["x"]).FakeTensorMode
    with fake():
        gathered = f.all_gather_single(t.ones(3), 0, group).shape
    forms = (
        f.all_gather_single(x, 1, group), f.reduce_scatter_single(x, "sum", 0, group),
        f.all_to_all_single(x, None, None, group), whole,
    )
    return [(tuple(v.shape), v.device.type) for v in forms], tuple(gathered)


def _losses(t, rank, step, parameters):
    optimizer = t.optim.SGD(parameters, lr=0.1)
    x, y = data_of(t, rank)
    out = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = step(x, y)
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out, [p.detach() for p in parameters]


def compiled(t, d, rank):
    """Whichever of the two is compiled, and where: each iteration's gradients are averaged."""
    entropy, wrap = t.nn.functional.cross_entropy, t.nn.parallel.DistributedDataParallel
    backend = "eager" if t.__name__ == "torch" else "inductor"  # PyTorch's would call a C++ compiler
    outside = t.compile(net := wrap(model_of(t)), backend=backend)
    found = [_losses(t, rank, lambda x, y: entropy(outside(x), y), list(net.parameters()))]
    inside = wrap(t.compile(net := model_of(t), backend=backend))
    found.append(_losses(t, rank, lambda x, y: entropy(inside(x), y), list(net.parameters())))
    net = wrap(model_of(t))
    step = t.compile(lambda x, y: entropy(net(x), y), backend=backend)
    found.append(_losses(t, rank, step, list(net.parameters())))
    with net.no_sync():
        outside(data_of(t, rank)[0]).sum().backward()
    return found


def sparse_gradients(t, d, rank):
    out = []
    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
        t.manual_seed(0)
        net = t.nn.parallel.DistributedDataParallel(
            t.nn.Sequential(t.nn.Embedding(6, 3, sparse=True), t.nn.Linear(3, 2)), **options
        )
        optimizer = t.optim.SGD(net.parameters(), lr=0.1)
        for i in range(3):
            optimizer.zero_grad()
            net(t.tensor([rank, i, 2])).pow(2).sum().backward()
            out += [net.module[0].weight.grad.is_sparse, net.module[0].weight.grad.to_dense()]
            optimizer.step()
        out += [p.detach() for p in net.parameters()]
    return [*out, net.is_multi_device_module]


def taken_out(t, d, rank):
    """Local parts as tensors of their own; plans that name no module; parameters that cannot be divided."""
    from tests.oracle import outcome

    tensor, parallel, fsdp = (
        __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"]) for name in ("tensor", "tensor.parallel", "fsdp")
    )
    mesh = d.init_device_mesh("cpu", (2,))
    x = tensor.distribute_tensor(t.arange(8.0).view(4, 2), mesh, [tensor.Shard(0)]).requires_grad_()
    norm = repr(x.detach().norm().placements)
    names = [type(y.grad_fn).__name__ for y in (x.to_local(), x.full_tensor(), x.to_local(grad_placements=[tensor.Shard(0)]))]
    (x.full_tensor() ** 2).sum().backward()
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Sequential(t.nn.Linear(2, 2)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for path in ("x", "1.x", "*.0"):
            parallel.parallelize_module(net, mesh, {path: parallel.ColwiseParallel()})
    scalar = t.nn.Sequential(t.nn.Linear(2, 2))
    scalar[0].weight = t.nn.Parameter(t.tensor(1.0))
    _, error = outcome(fsdp.fully_shard, scalar)
    said = [str(w.message) for w in caught if "resolved" in str(w.message)]
    return norm, names, x.grad.full_tensor(), said, type(error).__name__, str(error), str(net[1][0].weight.placements)


@pytest.mark.parametrize("program", (
    waited_for, earlier_names, without_elements, compiled, sparse_gradients, taken_out,
), ids=lambda f: f.__name__)
def test_in_two_processes(two, program):
    two.run(program)
