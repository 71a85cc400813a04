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


def handles_that_nobody_keeps(t, d, rank):
    """What was begun before a collective, or a barrier, that ended is in the tensors."""
    sums = [t.full((3,), float(i)) for i in range(5)]
    for x in sums:
        d.all_reduce(x, async_op=True)
    d.barrier()
    found = [x + 0 for x in sums]
    rows, own = [t.zeros(2), t.zeros(2)], t.full((2,), rank + 1.0)
    d.all_gather(rows, own, async_op=True)
    own = own.clone()  # what is being gathered is not written to
    d.broadcast(own, 1, async_op=True)
    d.all_reduce(t.ones(1))
    found += [*rows, own]
    first, second = t.ones(2), t.ones(2)
    d.all_reduce(first, async_op=True)
    d.all_reduce(second, async_op=True).wait()
    return [*found, first, second]


def graphs(t, d, rank):
    """Collectives are nodes of graphs that are made of calls, forward and backward."""
    f, group = _functions(t), d.group.WORLD
    make_fx = __import__(f"{t.__name__}.fx.experimental.proxy_tensor", fromlist=["x"]).make_fx
    calls = {
        "all_reduce": lambda x: f.all_reduce(x, "sum", group) + 1,
        "gathered": lambda x: f.all_gather_single(x, 0, group) + 1,
        "scattered": lambda x: f.reduce_scatter_single(x, "avg", 0, group) + 1,
        "exchanged": lambda x: f.all_to_all_single(x, [2, 2], [2, 2], group) + 1,
        "permuted": lambda x: f.permute_tensor(x, [1, 0], group) + 1,
        "several": lambda x: [y + 1 for y in f.all_reduce_coalesced([x, x * 2], "sum", group)],
    }
    found = {}
    for name, call in calls.items():
        for mode in ("real", "fake"):
            made = make_fx(call, tracing_mode=mode)(t.rand(4))
            found[name, mode] = [str(n.target) for n in made.graph.nodes], made(t.arange(4.0) * (rank + 1))
    for name in ("all_reduce", "gathered", "scattered", "exchanged"):
        x = (t.arange(4.0) * (rank + 1)).requires_grad_()
        call = {**calls, "scattered": lambda x: f.reduce_scatter_single(x, "sum", 0, group)}[name]
        y = t.compile(lambda x, call=call: call(x * 2) * 3, backend="aot_eager", fullgraph=True)(x)
        (y * y).sum().backward()
        found[name, "compiled"] = y.detach(), x.grad
    return found


def named_groups(t, d, rank):
    """Groups by ranks and a tag, and what names none."""
    from tests.oracle import outcome

    f, c = _functions(t), d.distributed_c10d
    first, again, other = (c._new_group_with_tag([0, 1], pg_tag=tag) for tag in ("blu", "blu", "x"))
    out = [
        first is again, first is other, c._get_group_tag(first), c._find_pg_by_ranks_and_tag("blu", [1, 0]) is first,
        c._find_pg_by_ranks_and_tag("", [0, 1]) is d.group.WORLD, c._find_pg_by_ranks_and_tag("none", [0, 1]),
        c._find_or_create_pg_by_ranks_and_tag("blu", [0, 1], 2) is first,
        c._find_or_create_pg_by_ranks_and_tag("alone", [1, 0], 1).size(),
        f._expand_group([[0, 1], [2, 3]]), f._expand_group(d.group.WORLD, "bla"), f._expand_group(first)[0],
        f.all_reduce(t.ones(2, 3, device="meta"), "sum", "nobody").shape,
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.append(f.all_reduce(t.ones(2), "sum", [0, 1], "blu") + 0)
        groups = ([[0, 1]], [[0], [1]], [0], None, "nobody", 5, (0, 1))
        errors = [outcome(f.all_reduce, t.ones(2), "sum", group)[1] for group in groups]
    errors += [outcome(c._find_or_create_pg_by_ranks_and_tag, "", [0, 1], 1)[1],
               outcome(c._find_or_create_pg_by_ranks_and_tag, "blu", [0, 1], 3)[1], outcome(f._expand_group, [[0], [1, 2]])[1]]
    for group in (first, other):
        d.destroy_process_group(group)
    return out, [(type(e).__name__, str(e)) for e in errors]


@pytest.mark.parametrize("program", (
    handles_that_nobody_keeps, graphs, named_groups,
    waited_for, earlier_names, without_elements, compiled, sparse_gradients, taken_out,
), ids=lambda f: f.__name__)
def test_in_two_processes(two, program):
    two.run(program)
