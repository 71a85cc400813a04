"""``torch.autograd.grad`` and ``backward`` in scripts."""

import io

import pytest
import torch as pt

import ftorch as ft
from tests.jit import gradients_in_scripts
from tests.jit.both import of_ftorch

MINE = of_ftorch("gradients_in_scripts")


def _run(t, program):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    found = program(x, x**3)
    first = found[0] if isinstance(found, list) else found
    return type(found).__name__, first.tolist(), first.requires_grad, None if x.grad is None else x.grad.tolist()


@pytest.mark.parametrize("name", [f.__name__ for f in gradients_in_scripts.FUNCTIONS])
def test_gradients(name):
    expected, found = pt.jit.script(getattr(gradients_in_scripts, name)), ft.jit.script(getattr(MINE, name))
    assert found.code == expected.code
    file = io.BytesIO()
    ft.jit.save(found, file)
    file.seek(0)
    assert _run(ft, found) == _run(ft, ft.jit.load(file)) == _run(pt, expected)
