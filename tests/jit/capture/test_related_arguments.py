"""Compiled functions of tensors that were made of each other outside: each gets its own gradient, once."""

from __future__ import annotations

import pytest
import torch as pytorch

import ftorch

MADE = {
    "exp": lambda x: x.exp(),
    "row": lambda x: x[0],
    "twice": lambda x: x.exp().sin(),
    "several results": lambda x: x.unbind()[1],
}


def _gradients(torch, compiled, made):
    found = []
    for _ in range(2):
        x = torch.arange(4.0).reshape(2, 2).requires_grad_()
        y = made(x)
        compiled(x, y).sum().backward()
        found.append(x.grad)
        y = made(x)
        found += torch.autograd.grad(compiled(x, y).sum(), (x, y), retain_graph=True)
        found += torch.autograd.grad(y.sum(), x)  # what was made outside is not used up
        seen = []
        y = made(x)
        y.register_hook(lambda grad: seen.append(grad) or grad * 2)
        found += torch.autograd.grad(compiled(x, y).sum(), x)
        found += seen
    return found


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("made", MADE)
def test_tensors_that_are_made_of_each_other(made, backend):
    def function(x, y):
        return x * y + y

    wanted = _gradients(pytorch, function, MADE[made])
    found = _gradients(ftorch, ftorch.compile(function, backend=backend), MADE[made])
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.shape == b.shape and a.flatten().tolist() == pytest.approx(b.flatten().tolist(), rel=1e-5)


def test_states_that_depend_on_the_weights_of_a_compiled_cell():
    found = []
    for torch in (pytorch, ftorch):
        weight = (torch.arange(9.0).reshape(3, 3) / 10).requires_grad_()

        def cell(state, x, weight=weight, torch=torch):
            return torch.tanh(state @ weight + x)

        step = ftorch.compile(cell) if torch is ftorch else cell
        for _ in range(2):
            state = torch.zeros(2, 3)
            for x in torch.arange(24.0).reshape(4, 2, 3).div(24):
                state = step(state, x)
            state.sum().backward()
        found.append(weight.grad.flatten().tolist())
    assert found[1] == pytest.approx(found[0], rel=1e-5)
