"""Views that must not be written to once graphs are recorded, by how they were made: errors, with their texts, as PyTorch's."""

from __future__ import annotations

import contextlib

import pytest

from tests.oracle import both, both_with_text

MODES = {
    "no_grad": lambda t: t.no_grad(), "inference": lambda t: t.inference_mode(), "enabled": lambda t: contextlib.nullcontext(),
}
VIEWS = {
    "row": lambda x: x[0], "slice": lambda x: x[1:3], "narrow": lambda x: x.narrow(0, 0, 2), "view": lambda x: x.view(2, 2, 3),
    "split": lambda x: x.split(2)[0], "chunk": lambda x: x.chunk(2)[1], "unbind": lambda x: x.unbind(0)[0],
    "loop": lambda x: next(iter(x)), "sizes": lambda x: x.split([1, 3])[0], "tensor_split": lambda x: x.tensor_split(2)[0],
    "part of a part": lambda x: x.split(2)[0][0], "part of a slice": lambda x: x[1:].unbind(0)[0],
}
WRITES = {
    "mul_": lambda v, g: v.mul_(g), "copy_": lambda v, g: v.copy_(g.expand_as(v)), "item": lambda v, g: v.__setitem__(0, g[0]),
    "base": lambda v, g: (v._base.mul_(g), v.grad_fn),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mode", MODES)
def test_what_requires_grad_is_written_to_views_of_what_does_not(mode, view, write):
    def run(torch):
        x, g = torch.zeros(4, 3), torch.ones(3, requires_grad=True)
        with MODES[mode](torch):
            v = VIEWS[view](x)
        WRITES[write](v, g)
        return v.requires_grad, x.requires_grad, v.output_nr

    if mode == "enabled" and view in ("row", "slice", "narrow", "view", "tensor_split"):
        both(run)
    else:
        assert "created in" in both_with_text(run)


@pytest.mark.parametrize("mode", MODES)
def test_views_that_are_written_to_without_gradients(mode):
    def run(torch):
        x, found = torch.zeros(4, 3), []
        with MODES[mode](torch):
            views = [make(x) for make in VIEWS.values()]
        for v in views:
            v.add_(1)
            found.append((v.output_nr, v.is_leaf, v._is_view()))
        leaf = views[0].requires_grad_()
        (leaf * 2).sum().backward()
        w = views[1].detach()
        w.mul_(torch.ones(3, requires_grad=True))
        return x.detach(), found, leaf.grad, w.requires_grad

    both(run)


@pytest.mark.parametrize("name", ["unsafe_split", "unsafe_chunk"])
@pytest.mark.parametrize("mode", MODES)
def test_unsafe_parts_have_histories_of_their_own(name, mode):
    def run(torch):
        x, g = torch.zeros(4, 3), torch.ones(3, requires_grad=True)
        y = torch.zeros(4, 3, requires_grad=True) * 1
        with MODES[mode](torch):
            parts = [*getattr(torch, name)(x, 2), *getattr(torch, name)(y, 2)]
        if mode == "inference":
            return [p._is_view() for p in parts]
        parts[0].mul_(g)
        parts[2].add_(g)
        x.add_(1)
        return [(p._is_view(), p.requires_grad, p._version) for p in parts], x.requires_grad, x._version, y._version

    both(run)


@pytest.mark.parametrize("later", [None, lambda v: v.mul_(2), lambda v: (v._base.mul_(2), v.grad_fn)])
def test_views_that_a_custom_function_wrote_to_are_its_outputs(later):
    """What its forward pass wrote is told by its own derivative; what is written to them later is refused."""

    def run(torch):
        class Part(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                view = x.clone()[:3]
                view += 2
                return view

            @staticmethod
            def backward(ctx, grad):
                return torch.cat([grad, grad.new_zeros(2)])

        x = torch.arange(5.0, requires_grad=True)
        view = Part.apply(x)
        name = type(view.grad_fn).__name__
        view.sum().backward()
        if later is not None:
            later(view)
        return name, view.detach(), x.grad

    (both if later is None else both_with_text)(run)
