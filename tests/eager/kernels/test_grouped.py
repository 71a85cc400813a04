"""Products of matrices in groups: gradients, transforms, and values that are not finite."""

import pytest
import torch as reference

import ftorch

from ...oracle import assert_same

SHAPES = (((8, 8), (2, 8, 16)), ((2, 8, 8), (8, 16)), ((8, 8), (8, 16)))


def _operands(m, shapes):
    size = 2 * 8 * 16
    numbers = (m.arange(2 * size, dtype=m.float32) * 0.37).sin()
    a, b = (numbers[i * size :][: m.Size(s).numel()].reshape(s).clone() for i, s in enumerate(shapes))
    ends = {(2, 8, 8): 16}.get(shapes[0], 8)
    return a.requires_grad_(), b.requires_grad_(), m.tensor([4, ends], dtype=m.int32)


@pytest.mark.parametrize("shapes", SHAPES)
def test_gradients(shapes):
    found = []
    for m in (reference, ftorch):
        a, b, ends = _operands(m, shapes)
        out = m.nn.functional.grouped_mm(a, b, offs=ends)
        found.append((out, *m.autograd.grad(out.sin().sum(), (a, b))))
    for theirs, ours in zip(*found):
        assert_same(ours, theirs, tolerance=(1e-4, 1e-4))


def test_a_group_leaves_the_others_alone():
    for shapes in SHAPES:
        found = []
        for m in (reference, ftorch):
            a, b, ends = _operands(m, shapes)
            with m.no_grad():
                b.view(-1)[-1] = float("nan")
                found.append(m.nn.functional.grouped_mm(a, b, offs=ends))
        assert_same(found[1], found[0], tolerance=(1e-4, 1e-4))


def test_per_sample_gradients():
    a, b, ends = _operands(ftorch, SHAPES[0])

    def loss(rows):
        return ftorch.nn.functional.grouped_mm(rows, b, offs=ends).sin().sum()

    batch = ftorch.stack([a, 2 * a]).detach()
    found = ftorch.func.vmap(ftorch.func.grad(loss))(batch)
    assert_same(found[1], ftorch.func.grad(loss)(batch[1]), tolerance=(1e-5, 1e-5))
