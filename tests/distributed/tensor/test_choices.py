"""What of several placements is chosen, what processes outside of a mesh have, files and state dicts of `DTensor`s."""

from __future__ import annotations

import io
from importlib import import_module

import pytest

from .test_placements import shown


def tensors(t, d, shape=(2,), names=None):
    n = import_module(f"{t.__name__}.distributed.tensor")
    mesh = d.init_device_mesh("cpu", shape, mesh_dim_names=names)

    def place(x, *placements):
        made = [n.Replicate() if p == "P" else p for p in placements]
        x = n.distribute_tensor(x, mesh, made)
        terms = [n.Partial() if p == "P" else p for p in placements]
        if terms == made:
            return x
        count = 1
        for m, p in enumerate(placements):
            count *= mesh.size(m) if p == "P" else 1
        return n.DTensor.from_local(x.to_local() / count, mesh, terms, run_check=False, shape=x.shape, stride=x.stride())

    return n, place


def cheapest(t, d, rank):
    """The choices that PyTorch makes by what it costs to move the arguments there."""
    n, place = tensors(t, d)
    base = t.arange(24.0).view(4, 6) * 0.37 % 3 - 1.3
    other = base.flip(0)
    rows, columns, terms, whole = n.Shard(0), n.Shard(1), "P", n.Replicate()
    out = []
    pairs = (
        (columns, rows), (rows, columns), (terms, whole), (whole, terms), (terms, rows), (columns, terms), (rows, whole))
    for a, b in pairs:
        x, y = place(base, a), place(other, b)
        calls = [
            lambda: t.maximum(x, y), lambda: t.lerp(x, y, 0.5), lambda: x * y, lambda: x * y + y * x, lambda: x + y,
            lambda: x - y, lambda: x @ y.mT, lambda: t.addmm(place(t.ones(4), whole), x, y.mT),
            lambda: x.clamp(-1, 1), lambda: t.atan2(x, y),
            lambda: t.where(x > 0, x, y), lambda: x.tile(2),
        ]
        out += [(str(a), str(b), i, shown(call())) for i, call in enumerate(calls)]
    return out


def cheapest_over_two_dimensions(t, d, rank):
    n, place = tensors(t, d, (2, 1), ("a", "b"))
    base = t.arange(24.0).view(4, 6) * 0.37 % 3 - 1.3
    rows, columns, terms, whole = n.Shard(0), n.Shard(1), "P", n.Replicate()
    out = []
    for a, b in (((terms, columns), (rows, columns)), ((columns, terms), (rows, terms)), ((columns, rows), (rows, terms)),
                 ((terms, terms), (columns, rows)), ((whole, rows), (columns, whole))):
        x, y = place(base, *a), place(base.flip(0), *b)
        out += [(i, shown(f())) for i, f in enumerate((
            lambda: x.clamp(-1, 1), lambda: x - y, lambda: x * y + y * x, lambda: x @ y.mT, lambda: x.logical_not()))]
    return out


def again(t, d, rank):
    """Calls that differ in one argument, or in whether gradients are wanted, each made twice: choices are kept."""
    n, place = tensors(t, d)
    base, out = t.arange(16.0).view(4, 4) * 0.37 % 3 - 1.3, []
    for _ in range(2):
        for grad in (False, True):
            for a in (n.Shard(0), n.Shard(1), "P"):
                x, y = place(base, a).requires_grad_(grad), place(base.flip(0), n.Shard(1))
                for call in (
                    lambda: t.cat([x, x], 0), lambda: t.cat([x, x], 1), lambda: x * 2, lambda: x + 2,
                    lambda: x.clamp(-1, 1), lambda: t.einsum("ab,bc->ac", x, y), lambda: t.einsum("ab,cb->ac", x, y),
                ):
                    out.append((str(a), grad, shown(call())))
    return out


def outside(t, d, rank):
    """A mesh of one of the two processes: the other one has empty parts and computes nothing."""
    n = import_module(f"{t.__name__}.distributed.tensor")
    mesh = n.DeviceMesh("cpu", [0])
    x = n.DTensor.from_local(t.ones(3, 4), mesh, [n.Shard(0)])
    y = n.distribute_tensor(t.arange(4.0), mesh, [n.Replicate()])
    moved = x.redistribute(placements=[n.Replicate()])
    return [(tuple(v.shape), v.to_local()) for v in (x, y, moved, moved.redistribute(placements=[n.Shard(0)]))]


def files(t, d, rank):
    """`torch.load` takes a `DTensor`'s file without being told to trust it."""
    n, place = tensors(t, d)
    x, file = place(t.arange(6.0), n.Shard(0)), io.BytesIO()
    t.save({"x": x}, file)
    file.seek(0)
    y = t.load(file)["x"]
    return y.placements == x.placements, y.device_mesh == x.device_mesh, y.to_local(), tuple(y.shape)


def refusals(t, d, rank):
    n, place = tensors(t, d)
    x = place(t.zeros(4, 2), n.Shard(0))
    out = []
    for call in (
        lambda: n.DTensor.from_local(t.ones(2, 2), x.device_mesh, [n.Shard(0)], shape=(4, 2)),
        lambda: n.distribute_module(t.nn.Linear(2, 2), x.device_mesh, input_fn=lambda a: a),
        lambda: x + t.ones(4, 2), lambda: t.where(x > 0, x, t.ones(4, 2)), lambda: x.gather(1, t.zeros(4, 1, dtype=t.long)),
        lambda: t.nn.functional.linear(x, t.ones(2, 2)), lambda: n.distribute_tensor(t.ones(2), x.device_mesh, [n.Shard(3)]),
    ):
        with pytest.raises((RuntimeError, ValueError, AssertionError)) as raised:
            call()
        out.append((raised.type.__name__, str(raised.value)))
    old = n.distribute_module(t.nn.Linear(2, 2), x.device_mesh, input_fn=lambda inputs, mesh: (x * 0 + 1,))
    with t.no_grad():
        for p in old.parameters():
            p.fill_(1.0)
    return out, old(t.ones(4, 2)).full_tensor()


def described(t, d, rank):
    """The specs of tensors, and what moves cost: in the same order as PyTorch's."""
    spec = import_module(f"{t.__name__}.distributed.tensor._dtensor_spec")
    costs = import_module(f"{t.__name__}.distributed.tensor._collective_utils")
    n, place = tensors(t, d, (2, 1), ("a", "b"))
    made = [place(t.zeros(4, 6), *p) for p in ((n.Shard(0), n.Replicate()), (n.Replicate(), "P"), (n.Shard(1), n.Shard(0)))]
    out = []
    for x in made:
        s = x._spec
        out.append((str(s), s.dim_map, s.num_shards_map, s.num_shards, s.sums, s.is_sharded(), s.is_replicated(),
                    tuple(s.shape), tuple(s.stride), s.ndim, s.shard_order == tuple(s.shard_order)))
        again = spec.DTensorSpec.from_dim_map(s.mesh, s.dim_map, s.sums, s.tensor_meta)
        out.append((again == s, hash(again) == hash(s)))
    whole = [n.Replicate()] * 2
    moves = [
        (a, b, costs.redistribute_cost(
            spec.DTensorSpec(made[0].device_mesh, a, made[0]._spec.tensor_meta),
            spec.DTensorSpec(made[0].device_mesh, b, made[0]._spec.tensor_meta)))
        for a in (tuple(whole), (n.Shard(0), n.Replicate()), (n.Partial(), n.Replicate()))
        for b in (tuple(whole), (n.Shard(0), n.Replicate()), (n.Shard(1), n.Replicate()), (n.Partial(), n.Replicate()))
    ]
    parts, missing = n.Shard(0)._split_tensor(t.arange(5.0), 4, with_padding=True, contiguous=True)
    return out, [(str(a), str(b), round(c, 4)) for a, b, c in moves], parts, missing


def of_one_element(t, d, rank):
    """What is computed elementwise of a tensor whose divided dimension has size 1 is divided, too: with `fully_shard`, the
    states of a parameter of one element as the parameter."""
    n, place = tensors(t, d)
    fsdp = import_module(f"{t.__name__}.distributed.fsdp")
    x, whole, out = place(t.tensor([3.0]), n.Shard(0)), place(t.tensor([2.0]), n.Replicate()), []
    made = (
        t.zeros_like(x), t.full_like(x, 2.0), x.clone(), x * 2, x + x, x > 1, x.relu(), x + whole, whole * x,
        t.rand_like(x) * 0, t._foreach_mul([x], 2.0)[0], x.clone().lerp_(x * 3, 0.5), x.to(t.float64),
        x + place(t.ones(3), n.Shard(0)), place(t.ones(1, 3), n.Shard(0)) * place(t.ones(4, 3), n.Shard(1)),
    )
    out += [shown(y) for y in made]
    if t.__name__ == "ftorch":  # PyTorch does not write them
        assert x.clone().add_(whole).full_tensor().tolist() == [5.0] and whole.clone().mul_(x).full_tensor().tolist() == [6.0]

    class Scaled(t.nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.scale = t.nn.Parameter(t.ones(1))
            t.nn.init.constant_(self.weight, 0.5), t.nn.init.constant_(self.bias, 0.5)

        def forward(self, x):
            return super().forward(x) * self.scale

    model = fsdp.fully_shard(Scaled())
    optimizer = t.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(2):
        model(t.ones(2, 3) + rank).square().sum().backward()
        optimizer.step()
    return out, [shown(v) for v in optimizer.state[model.scale].values() if v.dim()], shown(model.scale)


def state_dicts(t, d, rank):
    u = import_module(f"{t.__name__}.distributed._state_dict_utils")
    n, place = tensors(t, d)
    nested = {"a": {"b": place(t.arange(4.0), n.Shard(0)), "c": [1, 2]}, "d": (t.ones(2), {"e": None}), "f": "text"}
    gathered = u._gather_state_dict(nested)
    on_first = u._gather_state_dict(nested, ranks_only=(0,))
    empty = u._create_cpu_state_dict(nested)
    copied = u._copy_state_dict(nested, empty)
    flat, paths = u._flatten_state_dict(nested)
    local = {"x": place(t.zeros(4), n.Shard(0)), "y": t.zeros(2), "z": 1, "extra": 2}
    full = {"x": t.arange(4.0), "y": t.ones(2), "z": 5} if rank == 0 else {}
    u._broadcast_state_dict(full, local, t.device("cpu"), strict=True)
    spread = {"x": place(t.zeros(4), n.Shard(0))}
    u._distribute_state_dict({"x": t.arange(4.0) * 2}, spread, t.device("cpu"))
    with pytest.raises(ValueError, match="Unexpected value type") as raised:
        u._offload_state_dict_to_cpu({"a": object()})
    return (
        gathered, on_first, copied["a"]["b"].to_local(), copied["d"], sorted(flat), paths,
        u._unflatten_state_dict(flat, paths)["a"]["c"], u._check_state_dict_similarity(nested, copied),
        u._check_state_dict_similarity(nested, {"a": 1}), local["x"].to_local(), local["y"], sorted(local), local["z"],
        spread["x"].to_local(), str(raised.value)[:30],
    )


def divided_classes(t, d, rank):
    """Losses of logits that are divided along the classes: weights, ignored labels, more dimensions, gradients without
    collectives."""
    n, place = tensors(t, d)
    parallel = import_module(f"{t.__name__}.distributed.tensor.parallel")
    debug = import_module(f"{t.__name__}.distributed.tensor.debug")
    out = []
    for shape in ((4, 6), (2, 5, 3)):
        values = (t.arange(float(t.Size(shape).numel())).view(shape) * 0.37 % 3 - 1.3)
        labels = t.arange(values[:, 0].numel()).view(values[:, 0].shape) % shape[1]
        for weight in (None, t.arange(1.0, shape[1] + 1)):
            for reduction in ("none", "sum", "mean"):
                x = place(values, n.Shard(1)).requires_grad_()
                with parallel.loss_parallel():
                    with debug.CommDebugMode() as mode:
                        loss = t.nn.functional.cross_entropy(x, labels, weight, ignore_index=2, reduction=reduction)
                    out.append({str(op): n for op, n in mode.get_comm_counts().items()})
                    with debug.CommDebugMode() as mode:
                        (loss * loss).sum().backward() if reduction == "none" else loss.backward()
                out.append((loss.detach().to_local(), str(loss.placements), x.grad.to_local(), mode.get_total_counts()))
    with parallel.loss_parallel(), pytest.raises(ValueError, match="loss_parallel") as raised:
        t.nn.functional.cross_entropy(place(values, n.Shard(0)), labels)
    return out, str(raised.value)


def as_undivided(t, d, rank):
    """Calls whose parts give other numbers than the whole, if they are put together without a thought."""
    n, place = tensors(t, d)
    F = t.nn.functional
    base, numbers = t.arange(24.0).view(4, 6) * 0.37 % 3 - 1.3, t.arange(24).view(4, 6) % 3
    cube, vector, table = t.arange(24.0).view(2, 3, 4), t.arange(3.0), t.arange(15.0).view(5, 3)
    calls = [
        (lambda x: x.any(0), numbers), (lambda x: x.any(1), numbers), (lambda x: x.any(), numbers),
        (lambda x: x.all(1), numbers),
        (lambda x: F.prelu(x, place(t.tensor([0.5]), n.Replicate())), base),
        (lambda x: F.prelu(x, place(t.arange(6.0), n.Replicate())), base),
        (lambda x: t.matmul(place(vector, n.Replicate()), x), cube),
        (lambda x: t.matmul(x, place(vector + 1, n.Replicate())), cube.mT),
        (lambda x: t.nanmedian(x), base), (lambda x: x.view(4, 1, 6).expand(-1, 5, -1), base),
        (lambda x: F.pad(x, (1, 2), mode="reflect"), base[:3]), (lambda x: F.pad(x, (1, 2), value=2.0), base[:3]),
        (lambda x: t.embedding(x, place(t.tensor([[0, 4], [2, 2]]), n.Replicate())), table),
    ]
    out = []
    for call, value in calls:
        want = None
        for placement in [n.Replicate(), *map(n.Shard, range(value.dim()))]:
            try:
                found = call(place(value, placement)).full_tensor()
            except (RuntimeError, NotImplementedError):
                if t.__name__ == "ftorch":
                    raise
                continue  # PyTorch has no rule there
            want = found if want is None else want
            if not t.equal(found, want) or found.dtype is not want.dtype:
                out.append((call.__code__.co_names, str(placement), found, want))
    for value in (vector, t.tensor(2.0), vector + 1j, cube[0] + 2j, cube):
        x = place(value, n.Replicate())
        for name in ("T", "mT", "H", "mH", "real", "imag"):
            try:
                found = getattr(x, name)
                out.append((name, found is x, found.full_tensor()))
            except RuntimeError as error:
                out.append((name, str(error)))
    for placement in (n.Replicate(), n.Shard(0), n.Shard(1)):
        weight = place(table, n.Replicate()).requires_grad_()
        index = place(t.tensor([[0, 4, 2], [2, 2, 1]]), placement)
        F.embedding(index, weight, scale_grad_by_freq=True).sum().backward()
        if t.__name__ == "ftorch":  # PyTorch counts how often a row comes in each part
            assert t.equal(weight.grad.full_tensor(), t.tensor([1.0, 1, 1, 0, 1])[:, None].expand(5, 3))
    return out


def gathered_for_divided(t, d, rank):
    """What is gathered for a call whose other operands are divided: its gradient is made parts again by one reduce-scatter."""
    n, place = tensors(t, d)
    parallel = import_module(f"{t.__name__}.distributed.tensor.parallel")
    debug = import_module(f"{t.__name__}.distributed.tensor.debug")
    out = []
    for bias in (True, False):
        t.manual_seed(0)
        mesh = d.init_device_mesh("cpu", (2,))
        module = parallel.parallelize_module(
            t.nn.Linear(6, 4, bias=bias), mesh, parallel.ColwiseParallel(input_layouts=n.Shard(0)))
        x = (t.arange(18.0).view(3, 6) * 0.1 + rank).requires_grad_()
        with debug.CommDebugMode() as mode:
            (module(x) ** 2).sum().backward()
        counts = {str(k): v for k, v in mode.get_comm_counts().items()}
        out.append((x.grad, [p.grad.to_local() for p in module.parameters()], counts))
        seen = []

        def hooked(_, given, seen=seen):
            given[0].register_hook(lambda g: seen.append(g.full_tensor()))

        module.register_forward_pre_hook(hooked)
        (module(x) ** 2).sum().backward()
        out.append((x.grad, [g * 1.0 for g in seen]))
    x, w = place(t.arange(24.0).view(4, 6), n.Shard(0)).requires_grad_(), place(t.ones(6, 2), n.Shard(1)).requires_grad_()
    (x @ w).square().sum().backward()
    return out, x.grad.full_tensor(), w.grad.full_tensor(), str(x.grad.placements)


@pytest.mark.parametrize("program", [
    gathered_for_divided, cheapest, cheapest_over_two_dimensions, again, outside, files, refusals, described, of_one_element,
    state_dicts, divided_classes, as_undivided], ids=lambda p: p.__name__)
def test_as_pytorch(two, program):
    two.run(program)
