"""DTensor, tensor parallelism and FSDP in two and four processes, against PyTorch's."""

from __future__ import annotations

import pytest


def _of(t, name):
    return __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"])


def mesh_of(t, d, shape=None, names=None):
    return d.init_device_mesh("cpu", shape or (d.get_world_size(),), mesh_dim_names=names)


def _laid(n, value):
    if isinstance(value, (tuple, list)):
        return [_laid(n, v) for v in value]
    return value.full_tensor(), str(value.placements[0]), tuple(value.stride()), tuple(value.shape)


def structure(t, d, rank):
    """Views, joins and picks: values, placements and strides."""
    n = _of(t, "tensor")
    mesh, out = mesh_of(t, d), []
    values = t.arange(32.0).view(4, 8) * 7 % 11
    partial = n.DTensor.from_local(values / d.get_world_size(), mesh, [n.Partial()])
    for x in (*(n.distribute_tensor(values, mesh, [n.Shard(i)]) for i in (0, 1)), partial):
        index = (x.redistribute(placements=[n.Replicate()]) * 0).long()
        calls = (
            lambda: t.stack([x, x]), lambda: t.cat([x, x], 1), lambda: x.split(2, 0), lambda: x.chunk(2, 1),
            lambda: x.t(), lambda: x.view(2, 2, 8).movedim(0, 1), lambda: x.view(2, 2, 8).flatten(0, 1),
            lambda: x.unflatten(0, (2, 2)), lambda: x.unsqueeze(0).expand(3, 4, 8), lambda: x.repeat(2, 1),
            lambda: x.roll(1, 0), lambda: x.flip(0), lambda: t.nn.functional.pad(x, (1, 1)),
            lambda: t.einsum("ij,kj->ik", x, x), lambda: x.max(1), lambda: x.sort(1), lambda: x.topk(2, 1),
            lambda: x.index_select(0, index[0]), lambda: t.nn.functional.dropout(x, 0.0),
        )
        # What is not linear in the terms of a sum is computed on another choice of parts than PyTorch's.
        out += [_laid(n, call()) for call in (calls[:14] if x is partial else calls)]
        out += [type(x.new_tensor([1.0])).__name__, x.new_tensor(2)]
    return out


def reduced_gradients(t, d, rank):
    """Gradients of chosen elements, of joins and of writes in place."""
    n = _of(t, "tensor")
    mesh, out = mesh_of(t, d), []
    values = t.arange(32.0).view(4, 8) * 7 % 11

    def made(placement):
        return n.distribute_tensor(values, mesh, [placement]).requires_grad_()

    for placement in (n.Shard(0), n.Shard(1)):
        for call in (lambda x, y: x.amax(0), lambda x, y: x.max(), lambda x, y: (x[:, :3] + 1).prod(),
                     lambda x, y: t.cat([x, y], 1), lambda x, y: t.einsum("ij,kj->ik", x, y),
                     lambda x, y: (x * 2).add_(y), lambda x, y: (y * 2).add_(x),
                     lambda x, y: x.unsqueeze(0).expand(2, 4, 8)):
            x, y = made(placement), made(n.Replicate())
            call(x, y).full_tensor().square().sum().backward()
            out += [None if g is None else g.full_tensor() for g in (x.grad, y.grad)]
    return out


def norms(t, d, rank):
    """Norms of divided tensors are combined of the parts' norms; gradients are clipped by them."""
    n = _of(t, "tensor")
    mesh = mesh_of(t, d)
    values = t.arange(32.0).view(4, 8) * 7 % 11
    x = n.distribute_tensor(values, mesh, [n.Shard(0)])
    out = [t.linalg.vector_norm(x, p).full_tensor() for p in (1, 2, 3, float("inf"))]
    parameters = [t.nn.Parameter(x), t.nn.Parameter(n.distribute_tensor(values, mesh, [n.Shard(1)]))]
    for p in parameters:
        p.grad = p.detach() * 3
    total = t.nn.utils.clip_grad_norm_(parameters, 1.0)
    return out, total.full_tensor(), [p.grad.full_tensor() for p in parameters]


def saved(t, d, rank):
    """Files of a DTensor; an embedding whose rows are divided; printing of a parameter."""
    import io

    n = _of(t, "tensor")
    mesh, file = mesh_of(t, d), io.BytesIO()
    x = n.distribute_tensor(t.arange(10.0).view(5, 2), mesh, [n.Shard(0)])
    t.save({"x": x, "p": t.nn.Parameter(x)}, file)
    file.seek(0)
    got = t.load(file, weights_only=False)
    kinds = [isinstance(got[k], t.nn.Parameter) for k in "xp"]
    return got["x"].to_local(), got["p"].to_local().detach(), kinds, repr(got["p"]).replace("ftorch", "torch")


def placements(t, d, rank):
    n = _of(t, "tensor")
    mesh, out = mesh_of(t, d), []
    x = t.arange(15.0).view(5, 3)
    kinds = [n.Shard(0), n.Shard(1), n.Replicate()]
    for a in kinds:
        y = n.distribute_tensor(x, mesh, [a])
        out += [y.to_local(), y.full_tensor(), t.tensor(y.shape)]
        out += [y.redistribute(placements=[b]).to_local() for b in kinds]
    partial = n.DTensor.from_local(x * (rank + 1), mesh, [n.Partial()])
    out += [partial.redistribute(placements=[b]).to_local() for b in kinds]
    return out


def operations(t, d, rank):
    n = _of(t, "tensor")
    mesh, out = mesh_of(t, d), []
    t.manual_seed(0)
    a, b, c = t.randn(6, 4), t.randn(4, 8), t.randn(4)
    for pa in (n.Shard(0), n.Shard(1), n.Replicate()):
        x = n.distribute_tensor(a, mesh, [pa])
        for pb in (n.Shard(0), n.Shard(1), n.Replicate()):
            y = n.distribute_tensor(b, mesh, [pb])
            out.append((x @ y).full_tensor())
        z = n.distribute_tensor(c, mesh, [n.Replicate()])
        out += [
            (x + z).full_tensor(), (x * 2 - 1).exp().full_tensor(), x.sum().full_tensor(),
            x.sum(0).full_tensor(), x.mean(1).full_tensor(), x.amax().full_tensor(),
            x.t().full_tensor(), x.unsqueeze(0).full_tensor(),
            x.softmax(-1).full_tensor(), x[2:4].full_tensor(), x[:, 1].full_tensor(),
            x.transpose(0, 1).full_tensor(), x.view(6, 2, 2).full_tensor(), (x > 0).full_tensor(),
            t.nn.functional.layer_norm(x, (4,)).full_tensor(), x.std().full_tensor(),
            t.cat([x, x]).full_tensor(), x.norm().full_tensor(),
        ]
    return out


def gradients(t, d, rank):
    n = _of(t, "tensor")
    mesh, out = mesh_of(t, d), []
    t.manual_seed(0)
    a, w, bias = t.randn(6, 4), t.randn(8, 4), t.randn(8)
    kinds = [n.Shard(0), n.Shard(1), n.Replicate()]
    for pa in kinds:
        for pw in kinds:
            x = n.distribute_tensor(a, mesh, [pa]).requires_grad_()
            weight = n.distribute_tensor(w, mesh, [pw]).requires_grad_()
            b = n.distribute_tensor(bias, mesh, [n.Replicate()]).requires_grad_()
            y = t.nn.functional.linear(x, weight, b).tanh()
            (y * y).sum().backward()
            out += [x.grad.full_tensor(), weight.grad.full_tensor(), b.grad.full_tensor()]
    return out


class MLP:
    def __new__(cls, t):
        class Module(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down = t.nn.Linear(8, 16), t.nn.Linear(16, 8)
                self.norm = t.nn.LayerNorm(8)

            def forward(self, x):
                return self.norm(x + self.down(t.nn.functional.gelu(self.up(x))))

        t.manual_seed(0)
        return Module()


def tensor_parallel(t, d, rank):
    p = _of(t, "tensor.parallel")
    mesh = mesh_of(t, d)
    model = MLP(t)
    p.parallelize_module(model, mesh, {"up": p.ColwiseParallel(), "down": p.RowwiseParallel()})
    optimizer = t.optim.AdamW([q for n, q in model.named_parameters() if "norm" not in n], lr=0.01)
    t.manual_seed(1)
    x, losses = t.randn(4, 8), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(x).square().mean() + (model(x) - x).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    whole = [model.up.weight, model.up.bias, model.down.weight, model.down.bias]
    return losses, [q.full_tensor().detach() for q in whole], [str(q.placements) for q in whole]


def fully_sharded(t, d, rank):
    f = _of(t, "fsdp")
    model = t.nn.Sequential(MLP(t), MLP(t), t.nn.Linear(8, 3))
    for layer in model[:2]:
        f.fully_shard(layer)
    f.fully_shard(model)
    optimizer = t.optim.AdamW(model.parameters(), lr=0.01)
    t.manual_seed(10 + rank)
    x, y = t.randn(4, 8), t.randint(0, 3, (4,))
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        norm = t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses += [loss.detach(), norm.full_tensor()]
    shapes = [str((tuple(p.shape), tuple(p.to_local().shape), p.placements)) for p in model.parameters()]
    return losses, [p.full_tensor().detach() for p in model.parameters()], shapes, list(model.state_dict())


def unsharded(t, d, rank):
    """Whole parameters are parameters: trained or not as the divided ones are; what is written to them is computed with."""
    f, p, mesh = _of(t, "fsdp"), _of(t, "tensor.parallel"), mesh_of(t, d, (2, 1), ("dp", "tp"))
    model = MLP(t)
    model.up.weight.requires_grad_(False)
    p.parallelize_module(model, mesh["tp"], {"down": p.RowwiseParallel(input_layouts=_of(t, "tensor").Replicate())})
    f.fully_shard(model, mesh=mesh["dp"])
    model.norm.bias.requires_grad_(False)
    facts, out = [], []
    model.register_forward_pre_hook(lambda module, args: look())

    def look():
        for name, q in model.named_parameters():
            facts.append(str((name, type(q).__name__, isinstance(q, t.nn.Parameter), q.requires_grad, tuple(q.shape))))

    t.manual_seed(10 + rank)
    x = t.randn(4, 8)
    for step in range(3):
        with t.set_grad_enabled(step != 1):
            model.unshard()
        look()
        with t.no_grad():
            model.up.bias.fill_(step)
        model(x).square().sum().backward()
        model.reshard()
        look()
        out.append([q.grad if q.grad is None else q.grad.full_tensor() for q in model.parameters()])
    with t.no_grad():
        out.append(model(x))
    return facts, out


def grid(t, d, rank):
    n = _of(t, "tensor")
    mesh = mesh_of(t, d, (2, 2), ("data", "model"))
    x = t.arange(24.0).view(6, 4)
    out = []
    for pa in ([n.Shard(0), n.Shard(1)], [n.Shard(0), n.Shard(0)], [n.Replicate(), n.Shard(1)]):
        y = n.distribute_tensor(x, mesh, pa)
        out += [y.to_local(), y.full_tensor(), (y @ y.t()).full_tensor(), y.sum().full_tensor()]
        out += [y.redistribute(placements=[n.Shard(1), n.Replicate()]).to_local()]
    sub = mesh["model"]
    facts = (mesh.get_coordinate(), sub.get_local_rank(), sub.size(), mesh.size(), mesh.shape, mesh.ndim,
             d.get_process_group_ranks(mesh.get_group("data")), str(mesh.mesh_dim_names),
             sub.mesh.tolist())
    return out, str(facts)


def hybrid(t, d, rank):
    f = _of(t, "fsdp")
    mesh = mesh_of(t, d, (2, 2), ("replicate", "shard"))
    model = f.fully_shard(MLP(t), mesh=mesh)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    t.manual_seed(10 + rank)
    x = t.randn(4, 8)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) - x).square().sum().backward()
        optimizer.step()
    return [p.full_tensor().detach() for p in model.parameters()]


def limited_rows(t, d, rank):
    """What would have to be written into a table by the norms of whole rows is refused."""
    n = _of(t, "tensor")
    rows = n.distribute_tensor(t.arange(15.0).view(5, 3), mesh_of(t, d), [n.Shard(1)])
    where = n.distribute_tensor(t.tensor([[0, 1]]), mesh_of(t, d), [n.Replicate()])
    out = []
    for function in (t.nn.functional.embedding, t.nn.functional.embedding_bag):
        try:
            function(where, rows, max_norm=1.5)
        except NotImplementedError as error:
            out.append(str(error))
    return out, rows.full_tensor()


@pytest.mark.parametrize("program", [
    placements, operations, gradients, tensor_parallel, fully_sharded, unsharded, structure, reduced_gradients, norms,
    saved, limited_rows,
])
def test_two_processes(two, program):
    two.run(program)


def uneven(t, d, rank):
    """Parts of three lines over two by two processes: the last one is empty."""
    n = _of(t, "tensor")
    mesh, whole = mesh_of(t, d, (2, 2)), [n.Replicate()] * 2
    line = n.distribute_tensor(t.arange(3.0), mesh, [n.Shard(0)] * 2)
    rows = n.distribute_tensor(t.arange(15.0).view(5, 3), mesh, [n.Shard(1)] * 2).requires_grad_()
    out = [line.t().to_local(), line.t().full_tensor(), tuple(line.t().shape), rows.t().full_tensor().detach()]
    for where in (t.tensor([4, 1, 1]), t.zeros(0, dtype=t.int64)):
        rows.grad = None
        found = t.nn.functional.embedding(n.distribute_tensor(where, mesh, whole), rows)
        (found * found).sum().backward()
        out += [found.full_tensor().detach(), rows.grad.full_tensor()]
    return out


@pytest.mark.parametrize("program", [grid, hybrid, uneven])
def test_four_processes(four, program):
    four.run(program)


def table(t, d, rank):
    """Rows of a divided table: each process looks up its own, whatever their number."""
    n = _of(t, "tensor")
    values = t.arange(15.0).view(5, 3)
    where = t.tensor([[0, 3], [4, 1]])
    rows = n.distribute_tensor(values, mesh_of(t, d), [n.Shard(0)]).requires_grad_()
    found = t.nn.functional.embedding(n.distribute_tensor(where, mesh_of(t, d), [n.Replicate()]), rows)
    assert found.placements == (n.Partial(),)
    found.full_tensor().square().sum().backward()
    whole = values.clone().requires_grad_()
    expected = t.nn.functional.embedding(where, whole)
    expected.square().sum().backward()
    assert t.equal(found.full_tensor(), expected) and t.equal(rows.grad.full_tensor(), whole.grad)


def bytes_of_floats(t, d, rank):
    """Numbers of eight bits go from placement to placement."""
    n = _of(t, "tensor")
    for dtype in (t.float8_e5m2, t.float8_e4m3fn, t.float8_e4m3fnuz):
        whole = t.arange(48.0).view(3, 16).to(dtype)
        rows = n.distribute_tensor(whole, mesh_of(t, d), [n.Shard(0)])
        columns = rows.redistribute(placements=[n.Shard(1)])
        assert t.equal(columns.full_tensor().view(t.uint8), whole.view(t.uint8))
        assert t.equal(columns.to_local().view(t.uint8), whole.chunk(2, 1)[rank].contiguous().view(t.uint8))


def masks(t, d, rank):
    """Dropout of a divided tensor is that of the whole one in one process."""
    n = _of(t, "tensor")
    x = t.arange(1.0, 21.0).view(5, 4)
    t.manual_seed(3)
    expected = t.nn.functional.dropout(x, 0.5)
    for placement in (n.Shard(0), n.Shard(1)):
        t.manual_seed(3)
        got = t.nn.functional.dropout(n.distribute_tensor(x, mesh_of(t, d), [placement]), 0.5)
        assert got.placements == (placement,) and t.equal(got.full_tensor(), expected)


@pytest.mark.parametrize("program", [table, masks, bytes_of_floats])
def test_of_one_process(two, program):
    two.run(program, libraries=("ftorch",))
