"""Calls on parts that are not those on the whole: writes, dimensions of one, lists; the oracle is PyTorch's plain tensors."""

import importlib

import pytest

CALLS = {
    "an item": lambda t, x, y: x.__setitem__(0, 1.0) or x,
    "a column": lambda t, x, y: x.__setitem__((slice(None), -1), 2.0) or x,
    "rows of another": lambda t, x, y: x.__setitem__(slice(1, 3), y[1:3]) or x,
    "where it is positive": lambda t, x, y: x.__setitem__(x > 0, 0.0) or x,
    "lower triangle": lambda t, x, y: x.tril_(),
    "product added": lambda t, x, y: (x + 0).addmm_(x, x.mT @ x),
    "interpolated": lambda t, x, y: x.lerp_(y, 0.3),
    "out": lambda t, x, y: t.add(x, y, out=t.zeros_like(x)),
    "out of a product": lambda t, x, y: t.matmul(x, y.mT, out=t.zeros_like(x @ y.mT)),
    "squeezed": lambda t, x, y: x[:2].squeeze(0),
    "squeezed whole": lambda t, x, y: x[:2].unsqueeze(1).squeeze(),
    "squeezed in place": lambda t, x, y: x.squeeze_(),
    "quotients": lambda t, x, y: t._foreach_addcdiv(
        [x, y], [y, x], [y.abs() + 1, x.abs() + 1], [2.0, 3.0]
    )[1],
    "products": lambda t, x, y: t._foreach_addcmul([x], [y], [x], value=0.5)[0],
    "powers": lambda t, x, y: t._foreach_pow(2.0, [x, y])[1],
}


def written(t, d, rank):
    """Each call on tensors that lie in each way, and the gradients that lead to them."""
    ways, found = ("replicate", "first", "second", "sum", "avg"), []
    mesh = d.init_device_mesh("cpu", (2,))
    tensor = importlib.import_module(f"{t.__name__}.distributed.tensor")
    placements = {
        "replicate": tensor.Replicate(),
        "first": tensor.Shard(0),
        "second": tensor.Shard(1),
        "sum": tensor.Partial(),
        "avg": tensor.Partial("avg"),
    }

    def made(values, way):
        if t.__name__ == "torch":
            leaf = values.clone().requires_grad_()
            return leaf, leaf + 0
        leaf = tensor.distribute_tensor(
            values, mesh, [placements[way]] if way in ways[:3] else None
        ).requires_grad_()
        if way in ways[:3]:
            return leaf, leaf + 0
        share = [1 / 3, 2 / 3][rank] * (1 if way == "sum" else 2)
        part = leaf.to_local(grad_placements=[tensor.Partial()]) * share
        if way == "avg" and part.requires_grad:  # what comes is the mean's, of which it has a share
            part.register_hook(lambda g: g / 2)
        return leaf, tensor.DTensor.from_local(part, mesh, [placements[way]], run_check=False)

    for name, call in CALLS.items():
        for i, way in enumerate(ways):
            t.manual_seed(0)
            (a, x), (b, y) = made(t.randn(3, 4), way), made(t.randn(3, 4), ways[i - 2])
            if name.startswith("out"):
                x, y = x.detach(), y.detach()
            result = call(t, x, y)
            if result.requires_grad:
                result.square().sum().backward()
            for value in (result, a.grad, b.grad):
                found.append(value.full_tensor() if hasattr(value, "full_tensor") else value)
    return [None if v is None else v.detach().clone() for v in found]


def leaves_of_terms(t, d, rank):
    """Gradients of leaves that are terms, and of the local tensors of which they are made."""
    tensor, found = importlib.import_module(f"{t.__name__}.distributed.tensor"), []
    mesh = d.init_device_mesh("cpu", (2,))
    for kind in ("sum", "avg", "max"):
        for f in (
            lambda x: x.redistribute(placements=[tensor.Replicate()]).square().sum(),
            lambda x: (x * 2).sum(),
            lambda x: x.relu().sum(),
            lambda x: x.to_local().square().sum(),
            lambda x: x.redistribute(placements=[tensor.Shard(0)]).square().mean(),
            lambda x: (x + x).full_tensor().square().sum(),
        ):
            own = (t.arange(4.0) + rank * 2).requires_grad_()
            f(tensor.DTensor.from_local(own, mesh, [tensor.Partial(kind)])).backward()
            leaf = tensor.DTensor.from_local(
                own.detach(), mesh, [tensor.Partial(kind)]
            ).requires_grad_()
            f(leaf).backward()
            found += [own.grad, leaf.grad.to_local()]
    return [g.clone() for g in found]


def outside(t, d, rank):
    """What a process has of tensors over a mesh that it is not in."""
    tensor, found = importlib.import_module(f"{t.__name__}.distributed.tensor"), []
    mesh = d.DeviceMesh("cpu", [0])
    x = tensor.DTensor.from_local(t.ones(3, 4), mesh, [tensor.Shard(0)])
    for made in (
        *x.split([2, 2], dim=1),
        x.sum(),
        x.sum(1),
        (x * 2).relu(),
        x.softmax(-1),
        x.max(1)[1],
        x.add_(1),
    ):
        found += [made.to_local().clone(), tuple(made.shape), str(made.placements)]
    whole = tensor.distribute_tensor(t.arange(4.0), d.DeviceMesh("cpu", [0, 1]), [tensor.Shard(0)])
    other = tensor.DTensor.from_local(t.arange(2.0) + 2 * rank + (rank == 1), whole.device_mesh, [tensor.Shard(0)])
    found += [x.equal(x), x.equal(x * 2), x.sum().full_tensor(), whole.equal(whole), whole.equal(other)]
    for number in (lambda: x.sum().item(), lambda: bool((x > 0).all()), lambda: int(x.sum())):
        try:
            found.append(number())
        except RuntimeError as error:
            found.append(str(error))
    return found


def largest_of_terms(t, d, rank):
    tensor, found = importlib.import_module(f"{t.__name__}.distributed.tensor"), []
    mesh = d.init_device_mesh("cpu", (2,))
    for kind in ("max", "min", "sum"):
        x, y = (
            tensor.DTensor.from_local(v, mesh, [tensor.Partial(kind)])
            for v in (t.arange(4.0) * (rank - 0.5), t.ones(4) * rank)
        )
        for made in [t.minimum(x, y) if kind == "min" else t.maximum(x, y)]:
            found += [str(made.placements), made.full_tensor()]
    return found


def derivative_of_a_maximum(t, d, rank):
    functional = importlib.import_module(f"{t.__name__}.distributed._functional_collectives")
    x = t.ones(2, requires_grad=True)
    functional.all_reduce(x, "max", d.group.WORLD).sum().backward()


def other_geometry(t, d, rank):
    """What would give a tensor other dimensions in place is refused, as in PyTorch."""
    tensor, found = importlib.import_module(f"{t.__name__}.distributed.tensor"), []
    mesh = d.init_device_mesh("cpu", (2,))
    calls = {"transpose_": (0, 1), "t_": (), "unsqueeze_": (0,), "swapdims_": (0, 1), "swapaxes_": (0, 1)}
    for name, arguments in (calls | {"resize_": (2, 6), "as_strided_": ((3,), (1,))}).items():
        x = tensor.distribute_tensor(t.ones(4, 3), mesh, [tensor.Shard(0)])
        with pytest.raises(NotImplementedError) as refused:
            getattr(x, name)(*arguments)
        found += [str(refused.value), tuple(x.shape)]
    return found


def taken_by_tensors(t, d, rank):
    """``x[...]`` by tensors, where whole dimensions and the indices' own are divided: what lies where, values, gradients."""
    tensor, found = importlib.import_module(f"{t.__name__}.distributed.tensor"), {}
    mesh, (R, S) = d.init_device_mesh("cpu", (2,)), (tensor.Replicate, tensor.Shard)
    x = t.arange(4 * 3 * 6 * 5.0).view(4, 3, 6, 5)
    rows, column, short = t.tensor([[0, 2], [1, 1], [2, 0], [1, 2]]), t.tensor([[3], [1], [0], [2]]), t.tensor([1, 0, 4])
    whole = slice(None)
    items = {
        "one": (rows,), "behind": (whole, rows), "two": (whole, rows, column), "apart": (whole, rows, whole, column),
        "first and third": (column, whole, rows), "selected": (whole, 1, whole, short), "new": (rows, None, whole, column),
        "from the end": (..., short), "part": (slice(1, 3), whole, short), "in between": (whole, rows, None, column),
    }
    for name, item in items.items():
        expected = x[item]
        for placed in (R(), *map(S, range(4))):
            for of_index in (R(), S(0)):
                given = tuple(tensor.distribute_tensor(i, mesh, [of_index]) if isinstance(i, t.Tensor) else i for i in item)
                whole_x = tensor.distribute_tensor(x, mesh, [placed]).requires_grad_()
                y = whole_x[given]
                assert t.equal(y.full_tensor(), expected), name
                (y.full_tensor() ** 2).sum().backward()
                found[name, str(placed), str(of_index)] = str(y.placements), tuple(y.shape), whole_x.grad.full_tensor()
    return found


def made_of_others(t, d, rank):
    """``new_*`` with what lies where and without communication; sizes; gathered tensors whose gradients are terms."""
    tensor = importlib.import_module(f"{t.__name__}.distributed.tensor")
    counts = importlib.import_module(f"{t.__name__}.distributed.tensor.debug").CommDebugMode
    mesh, found = d.init_device_mesh("cpu", (2,)), []
    for placed in (tensor.Shard(0), tensor.Shard(1), tensor.Replicate(), tensor.Partial()):
        x = tensor.DTensor.from_local(t.ones(4, 3), mesh, [placed])
        for call in (
            lambda x: x.new_full((4, 8), 42.0), lambda x: x.new_full(x.shape, 42.0), lambda x: x.new_zeros(2, 2),
            lambda x: x.new_ones(x.shape), lambda x: x.new_full((3,), 2, dtype=t.int64), lambda x: x.new_ones(size=(2,)),
        ):
            with counts() as said:
                y = call(x)
            found.append((str(y.placements), tuple(y.shape), str(y.dtype), said.get_total_counts(), y.full_tensor()))
        plain = t.ones(*x.shape)
        found.append((x.is_same_size(plain), plain.is_same_size(x), x.is_same_size(x.new_zeros(2, 2))))
        leaf = t.arange(12.0).view(4, 3).requires_grad_()
        part = tensor.DTensor.from_local(leaf, mesh, [placed])
        found += [t.fill_(part, 8).full_tensor().detach(), leaf.detach() + 0, part.mul_(2).to_local().detach(), leaf.is_leaf]
        whole = tensor.distribute_tensor(t.arange(8.0).view(4, 2), mesh, [tensor.Shard(0)]).requires_grad_()
        with counts() as said:
            (whole.full_tensor(grad_placements=[tensor.Partial()]) * (rank + 1)).sum().backward()
        found += [whole.grad.full_tensor(), sorted(str(k) for k in said.comm_counts)]
    with pytest.warns(UserWarning, match="To construct DTensor"):
        tensor.DTensor(leaf, part._spec, requires_grad=False)
    return found


@pytest.mark.parametrize(
    "program", (
        made_of_others, taken_by_tensors,
        written, leaves_of_terms, outside, largest_of_terms, derivative_of_a_maximum, other_geometry,
    )
)
def test_as_whole_tensors(two, program):
    two.run(program)
