"""Views: what aliases, which layouts are views, and what a write through one does."""

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import both, both_with_text

VIEWS = {
    "transpose": lambda t: t.transpose(0, 2),
    "permute": lambda t: t.permute(2, 0, 1),
    "row": lambda t: t[1],
    "column": lambda t: t[:, 1],
    "steps": lambda t: t[:, ::2, 1:],
    "none": lambda t: t[None, :, None],
    "view": lambda t: t.view(6, 4),
    "reshape": lambda t: t.reshape(-1),
    "flatten": lambda t: t.flatten(1),
    "expand": lambda t: t[:, :1].expand(-1, 5, -1),
    "squeeze": lambda t: t[:, :1].squeeze(1),
    "diagonal": lambda t: t.diagonal(0, 1, 2),
    "unfold": lambda t: t.unfold(2, 2, 1),
    "as_strided": lambda t: t.as_strided((2, 3), (1, 5), 2),
    "narrow": lambda t: t.narrow(1, 1, 2),
    "split": lambda t: t.split(2, 1)[1],
    "chunk": lambda t: t.chunk(2, 2)[1],
    "unbind": lambda t: t.unbind(1)[2],
    "mT": lambda t: t.mT,
    "swapaxes": lambda t: t.swapaxes(0, 1),
    "movedim": lambda t: t.movedim(0, -1),
    "int32": lambda t: t.view(ft.int32 if isinstance(t, ft.Tensor) else pt.int32),
    "chain": lambda t: t.transpose(0, 1)[1:, :, ::3].unsqueeze(0).mT,
}


def base(m):
    return m.arange(24.0).reshape(2, 3, 4).clone()


@pytest.mark.parametrize("name", VIEWS)
def test_layout(name):
    """Size, strides, offset, contiguity and values are PyTorch's."""

    def look(m):
        v = VIEWS[name](base(m))
        return (list(v.shape), list(v.stride()), v.storage_offset(), v.is_contiguous(),
                name == "int32" or v._is_view(), v.clone())

    both(look)


@pytest.mark.parametrize("name", [n for n in VIEWS if n not in ("expand", "unfold", "int32")])
def test_a_write_through_a_view_reaches_the_base(name):
    def write(m):
        t = base(m)
        v = VIEWS[name](t)
        v.mul_(-2)
        v += 1
        return t, v, t._version, v._version

    both(write)


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_to_the_base_reaches_the_view(name):
    def write(m):
        t = base(m)
        v = VIEWS[name](t)
        t[1, 2] = 7
        t.mul_(2)
        return v.clone(), v._version

    both(write)


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "int32"])
def test_gradient(name):
    def differentiate(m):
        t = base(m).requires_grad_()
        v = VIEWS[name](t)
        (v * v).sum().backward()
        return t.grad

    both(differentiate)


@pytest.mark.parametrize("name", ["row", "steps", "view", "diagonal", "as_strided", "chain"])
def test_gradient_of_writes_into_views(name):
    """The history of the base is rebased; views made before see it."""

    def differentiate(m):
        x = base(m).requires_grad_()
        t = x * 1
        before = t[0]
        VIEWS[name](t).mul_(3)
        loss = (t * t).sum() + before.sum()
        loss.backward()
        return x.grad, t.is_leaf, before.grad_fn is None

    both(differentiate)


@pytest.mark.parametrize("size", [(5, 5), (-1, 5), (-1, -1), (2, 12, 0)])
def test_what_view_rejects(size):
    both_with_text(lambda m: base(m).view(size))


def test_view_of_a_transpose():
    both_with_text(lambda m: base(m).transpose(0, 1).view(-1))


def test_storage_is_shared():
    t = ft.arange(6.0)
    v = t[2:]
    assert v.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    assert v.data_ptr() == t.data_ptr() + 2 * 4
    assert t.clone().data_ptr() != t.data_ptr()


def test_set_and_resize():
    def change(m):
        a, b = m.arange(6.0), m.zeros(2)
        b.set_(a)
        b[0] = 9
        c = m.arange(4)
        c.resize_(2)
        return a, b, c

    both(change)


SPLITTINGS = {
    "unbind": lambda x: x.unbind(1),
    "iteration": lambda x: tuple(x),
    "split": lambda x: x.split(2, 1),
    "sizes": lambda x: x.split([1, 2], 0),
    "chunk": lambda x: x.chunk(3, -1),
    "tensor_split": lambda x: x.tensor_split(2),
    "hsplit": lambda x: x.hsplit(2),
    "unsafe_split": lambda x: x.unsafe_split(2),
    "turned": lambda x: x.t().unbind(),
}


@pytest.mark.parametrize("used", ["all", "last"])
@pytest.mark.parametrize("name", SPLITTINGS)
def test_views_of_one_call_share_a_node(name, used):
    def run(lib):
        x = lib.arange(12.0).reshape(3, 4).requires_grad_()
        pieces = SPLITTINGS[name](x * 1)
        chosen = pieces if used == "all" else pieces[-1:]
        loss = sum((i + 1) * (p**2).sum() for i, p in enumerate(chosen))
        (grad,) = lib.autograd.grad(loss, x, create_graph=True)
        (second,) = lib.autograd.grad(grad.sum(), x)
        names = [p.grad_fn.name() for p in pieces]
        return grad, second, names, [p.output_nr for p in pieces], pieces[0].grad_fn is pieces[-1].grad_fn

    both(run)


def test_views_of_one_call_end_with_a_write_to_their_base():
    def run(lib):
        base = lib.ones(2, 3, requires_grad=True) * 1
        piece = base.unbind()[1]
        base.mul_(2)
        return piece.grad_fn

    both_with_text(run)


@pytest.mark.parametrize("torch", [pt, ft], ids=["torch", "ftorch"])
def test_addresses_stay_while_nobody_writes(torch):
    """Libraries keep what belongs to a tensor by its address, from the forward pass to the backward (BackPACK)."""
    seen = []
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(72, 3))
    for module in net:
        module.register_forward_hook(lambda module, given, out: seen.extend([given[0], out]))
    loss = torch.nn.functional.cross_entropy(net(torch.randn(4, 1, 8, 8)), torch.tensor([0, 1, 2, 0]))
    first = [t.data_ptr() for t in seen]
    found = []
    for module in net:
        module.register_full_backward_hook(lambda *_: found.append([t.data_ptr() for t in seen]))
    seen_before = [t.data_ptr() for t in seen]
    loss.backward()
    copies = [seen[1].clone(), seen[1].detach().clone()]
    found += [seen_before, [t.data_ptr() for t in seen]]
    assert all(f == first for f in found)
    assert first[1] == first[2] and first[3] == first[4] == first[5] == first[6]  # a view, and what is handed on
    assert len({first[1], *(c.data_ptr() for c in copies)}) == 3
