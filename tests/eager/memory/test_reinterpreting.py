"""Views in a wider dtype of a part of memory whose whole is no multiple of it."""

import pytest
import torch as reference

import ftorch

from ...oracle import assert_same


def _read(m, root):
    return root[4:12].view(m.int32) * 2


def _write(m, root):
    part = root[4:12].view(m.int32)
    part.add_(1)
    part[1] = 7
    return root


def _numpy(m, root):
    return m.tensor(root[8:12].view(m.float32).numpy().tolist())


def _compiled(m, root):
    return m.compile(_read, backend="eager" if m is reference else "inductor")(m, root)


def _compiled_write(m, root):
    return m.compile(_write, backend="eager" if m is reference else "inductor")(m, root)


@pytest.mark.parametrize("size", (12, 13, 15))
@pytest.mark.parametrize("work", (_read, _write, _numpy, _compiled, _compiled_write))
def test_a_wider_view_of_a_part(work, size):
    roots = [m.arange(size, dtype=m.uint8) for m in (reference, ftorch)]
    assert_same(work(ftorch, roots[1]), work(reference, roots[0]))
    assert_same(roots[1], roots[0])
