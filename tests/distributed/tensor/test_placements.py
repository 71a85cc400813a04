"""How results of `DTensor` operations lie: as PyTorch's, and so that nothing is gathered that need not be."""

from __future__ import annotations

from importlib import import_module

import pytest


def made(t, d):
    tensor = import_module(f"{t.__name__}.distributed.tensor")
    mesh = d.init_device_mesh("cpu", (2,))

    def place(x, placement):
        return tensor.distribute_tensor(x, mesh, [placement])

    return tensor, place


def shown(value):
    values = value if isinstance(value, (tuple, list)) else [value]
    return [(repr(v.placements).lower(), tuple(v.shape), v.full_tensor()) for v in values]


def each(t, d, calls):
    """What calls give of a matrix that lies by rows, and by columns, and of another one that lies alike."""
    tensor, place = made(t, d)
    base = t.arange(24.0).view(4, 6) * 0.37 % 3 - 1.3
    out = []
    for dim in (0, 1):
        x, y = place(base, tensor.Shard(dim)), place(base.flip(0), tensor.Shard(dim))
        out += [(call.__code__.co_names, shown(call(x, y))) for call in calls]
    return out


def of_lines(t, d, rank):
    calls = [
        lambda x, y: x.isclose(y), lambda x, y: t.std_mean(x, -1), lambda x, y: t.var_mean(x, 0),
        lambda x, y: x.kthvalue(2, -1), lambda x, y: x.mode(1), lambda x, y: x.median(0, keepdim=True),
        lambda x, y: x.diff(dim=0), lambda x, y: x.isneginf(),
        lambda x, y: t.take_along_dim(x, x.argsort(-1), -1), lambda x, y: t.atleast_3d(x),
    ]
    tensor, place = made(t, d)
    out = each(t, d, calls)
    # PyTorch's parts of a running sum along the divided dimension are wrong
    for dim in (0, 1):
        x = place(t.arange(24.0).view(4, 6) % 5, tensor.Shard(1 - dim))
        out += [shown(f(dim)) for f in (x.cummax, x.cummin, x.logcumsumexp)]
    return out


def summed(t, d, rank):
    tensor, place = made(t, d)
    calls = [
        lambda x, y: x.nansum(), lambda x, y: x.nansum(0), lambda x, y: x.count_nonzero(), lambda x, y: (x > 9).any(),
        lambda x, y: (x > -9).all(), lambda x, y: x.prod(0), lambda x, y: t.linalg.vector_norm(x, 2, dim=-1),
        lambda x, y: x.norm(dim=0), lambda x, y: x.norm(1), lambda x, y: x.norm(float("inf")),
        lambda x, y: x.norm(float("-inf")),
        lambda x, y: t.linalg.vector_norm(x, 3, dim=0, keepdim=True),
    ]
    uneven = place(t.arange(15.0).view(5, 3), tensor.Shard(0))
    return [*each(t, d, calls), shown([uneven.sum(), uneven.sum(0), uneven.sum(0, keepdim=True), (uneven > 3).any(0)])]


def products(t, d, rank):
    tensor, place = made(t, d)
    vector = place(t.arange(6.0), tensor.Replicate())
    calls = [
        lambda x, y: x @ vector, lambda x, y: t.mv(x, vector), lambda x, y: t.dot(x[0], y[1]),
        lambda x, y: t.tensordot(x, y, ([0], [0])), lambda x, y: t.tensordot(x, y.mT, 1),
        lambda x, y: t.einsum("...i,...j->...ij", x, y), lambda x, y: x.mT, lambda x, y: x.T,
    ]
    return each(t, d, calls)


def joined_dimensions(t, d, rank):
    """A divided dimension that is joined with one before it is divided in strides, and comes apart again."""
    tensor, place = made(t, d)
    x = place(t.arange(48.0).view(2, 4, 6), tensor.Shard(1)).requires_grad_()
    flat = x.view(8, 6)
    back = (flat * 2).view(2, 4, 6)
    whole = x.ravel()
    (back.square().sum() + whole.sum() + (flat @ place(t.ones(6, 2), tensor.Replicate())).sum()).backward()
    return [shown([y.detach() for y in (flat, back, whole, flat.relu(), flat.reshape(2, 2, 2, 6))]), x.grad.full_tensor()]


def explicit(t, d, rank):
    """Which calls move a tensor that nobody has asked to be moved, forward and backward."""
    n = import_module(f"{t.__name__}.distributed.tensor")
    watch = import_module(f"{t.__name__}.distributed.tensor._utils").ExplicitRedistributionContext
    mesh, out = d.init_device_mesh("cpu", (2,)), []
    x, w = (t.arange(float(k)).view(-1, 4).requires_grad_() for k in (8, 16))
    rows, split, whole = (n.distribute_tensor(v, mesh, [p]) for v, p in ((x, n.Shard(0)), (w, n.Shard(0)), (w, n.Replicate())))

    def said(call):
        try:
            call()
        except RuntimeError as error:
            return str(error)[:31]

    for strict in (False, True):
        with watch(strict=strict):
            gathered = split.redistribute(mesh, [n.Replicate()])
            out += [said(lambda: rows @ split), said(lambda: rows @ gathered), said(lambda: rows * 2)]
            loss = (rows @ whole).sum()
            if not strict:  # PyTorch takes a part of the sum's gradient there, which comes as a part here
                out.append(said(lambda: loss.backward(retain_graph=True)))
            with watch(enable=False):
                out += [said(lambda: rows @ split), said(lambda: loss.backward(retain_graph=True))]
            out.append(said(lambda: rows @ split))
    out += [said(lambda: rows @ split), said(lambda: watch(mode="x"))]
    return out


PROGRAMS = [explicit, of_lines, summed, products, joined_dimensions]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_processes(two, program):
    two.run(program)
