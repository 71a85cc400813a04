"""Whether arguments and leaves of compiled functions require grad, their hooks, which change, and where gradients go."""

from __future__ import annotations

import pytest
import torch as pytorch

import ftorch as torch


def _by_method(x):
    x.requires_grad_()


def _by_attribute(x):
    x.requires_grad = True


ARGUMENTS = {"whole": lambda: torch.ones(3), "part": lambda: torch.ones(3, 2)[:, 0], "gaps": lambda: torch.ones(7)[::2]}


@pytest.mark.parametrize("change", [_by_method, _by_attribute])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_require_grad_from_then_on(change, name):
    def function(x):
        change(x)
        return x * 2

    compiled = torch.compile(function)
    for _ in range(3):
        x = ARGUMENTS[name]()
        y = compiled(x)
        assert x.requires_grad and y.requires_grad
        y.sum().backward()
        assert x.grad.tolist() == [2.0] * len(x)


def test_arguments_that_do_not_any_more():
    compiled = torch.compile(lambda x: x.requires_grad_(False) * 2)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        assert not compiled(x).requires_grad
        assert not x.requires_grad


def test_tensors_of_the_function_stay_in_programs():
    def function(x):
        y = x.detach().requires_grad_()
        (y * 3).sum().backward()
        return y.grad

    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]


# --- tensors that were made of each other outside: each gets its own gradient, once

MADE = {
    "exp": lambda x: x.exp(),
    "row": lambda x: x[0],
    "twice": lambda x: x.exp().sin(),
    "several results": lambda x: x.unbind()[1],
}


def _gradients(library, compiled, made):
    found = []
    for _ in range(2):
        x = library.arange(4.0).reshape(2, 2).requires_grad_()
        y = made(x)
        compiled(x, y).sum().backward()
        found.append(x.grad)
        y = made(x)
        found += library.autograd.grad(compiled(x, y).sum(), (x, y), retain_graph=True)
        found += library.autograd.grad(y.sum(), x)  # what was made outside is not used up
        seen = []
        y = made(x)
        y.register_hook(lambda grad: seen.append(grad) or grad * 2)
        found += library.autograd.grad(compiled(x, y).sum(), x)
        found += seen
    return found


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("made", MADE)
def test_tensors_that_are_made_of_each_other(made, backend):
    def function(x, y):
        return x * y + y

    wanted = _gradients(pytorch, function, MADE[made])
    found = _gradients(torch, torch.compile(function, backend=backend), MADE[made])
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.shape == b.shape and a.flatten().tolist() == pytest.approx(b.flatten().tolist(), rel=1e-5)


def test_states_that_depend_on_the_weights_of_a_compiled_cell():
    found = []
    for library in (pytorch, torch):
        weight = (library.arange(9.0).reshape(3, 3) / 10).requires_grad_()

        def cell(state, x, weight=weight, library=library):
            return library.tanh(state @ weight + x)

        step = torch.compile(cell) if library is torch else cell
        for _ in range(2):
            state = library.zeros(2, 3)
            for x in library.arange(24.0).reshape(4, 2, 3).div(24):
                state = step(state, x)
            state.sum().backward()
        found.append(weight.grad.flatten().tolist())
    assert found[1] == pytest.approx(found[0], rel=1e-5)


# --- leaves and modules that are found: flags and hooks that change between calls, or in them

STATEFUL = {
    "training": lambda torch, s: lambda x: s.layer.train(not s.layer.training) and x * (2 if s.layer.training else 3),
    "requires_grad": lambda torch, s: lambda x: x * (1 if s.w.requires_grad_(not s.w.requires_grad).requires_grad else 2),
    "class attribute": lambda torch, s: lambda x: x * (1 if setattr(type(s), "flag", not s.flag) or s.flag else 2),
    "part": lambda torch, s: lambda x: (setattr(s.layer, "act", torch.nn.ReLU()), x * len(list(s.layer.children())))[1],
    "backward reads": lambda torch, s: lambda x: s.square(torch).apply(x) * 1,
    "hooks of a gradient asked for": lambda torch, s: lambda x: x + torch.autograd.grad((x.detach() * s.w).sum(), s.w)[0],
    "hooks of accumulation": lambda torch, s: lambda x: (setattr(s.w, "grad", None), (x.detach() * s.w).sum().backward(),
                                                         x + s.w.grad)[2],
}


class _State:
    flag = True
    scale = 1

    def __init__(self, torch):
        type(self).flag, type(self).scale = True, 1
        self.w = torch.nn.Parameter(torch.tensor([0.5, -1.5]))
        self.layer, self.made = torch.nn.Linear(2, 2), None

    def square(self, torch):
        if self.made is None:
            class Square(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x * x

                @staticmethod
                def backward(ctx, g):
                    return g * ctx.saved_tensors[0] * _State.scale

            self.made = Square
        return self.made


@pytest.mark.parametrize("name", STATEFUL)
def test_state_of_leaves_and_modules(name):
    found = []
    for library in (torch, pytorch):
        state, rows = _State(library), []
        if name == "backward reads":
            state.square(library)
        f = STATEFUL[name](library, state)
        g = library.compile(f) if library is torch else f
        for step in range(6):
            hook = None
            if name.startswith("hooks") and step >= 3:
                hook = state.w.register_hook(lambda q, step=step: q * step)
            _State.scale = 1 + step // 2
            x = library.tensor([1.0, 2.0], requires_grad=True)
            result = g(x)
            result.sum().backward()
            rows += [result.tolist(), x.grad.tolist(), state.w.requires_grad, state.layer.training, state.flag]
            if hook is not None:
                hook.remove()
        found.append(rows)
    assert found[0] == found[1]


def test_what_backward_refuses_is_raised_by_backward():
    """A result whose graph cannot be used (what it saved was written to since) is a result all the same."""
    found = []
    for library in (torch, pytorch):
        w = library.tensor([0.5, -1.5], requires_grad=True)
        state = library.ones(2)

        def f(x, w=w, state=state):
            y = x * state * w
            state.add_(1)
            return y

        g = library.compile(f) if library is torch else f
        rows = []
        for _ in range(3):
            result = g(library.tensor([1.0, 2.0], requires_grad=True) * 1)
            rows.append(result.tolist())
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.sum().backward()
        found.append(rows)
    assert found[0] == found[1]
