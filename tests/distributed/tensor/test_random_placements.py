"""Operators of the registry on `DTensor`s of random placements, against the same calls on plain tensors.

What plain tensors give is compared with PyTorch elsewhere; here it is asked whether the parts give it, too: values, shapes,
dtypes, gradients. ``FTORCH_PLACEMENTS=3000`` makes about so many calls instead of a few, ``FTORCH_PLACEMENTS_SEED`` chooses
others; 4,500, the most, take eleven minutes on two loaded cores.
"""

from __future__ import annotations

import os
import random
from importlib import import_module

import numpy as np
import pytest

COUNT = min(int(os.environ.get("FTORCH_PLACEMENTS", "150")), 4500)  # there are 4,586
SEED = os.environ.get("FTORCH_PLACEMENTS_SEED", "0")
AT_ONCE = 150  # calls for which the pool waits


def chosen(part):
    """Calls (an operator's name, the number of its sample, the number of the draw) of a part of the run."""
    from tests import test_registry as registry

    names = [n for n in registry.PUBLIC if n in registry.SAMPLES and not registry.is_random(registry.OPS[n])]
    calls = [(n, i, k) for n in names for i in range(min(len(registry.SAMPLES[n]), 6)) for k in range(2)]
    random.Random(SEED).shuffle(calls)
    return calls[:COUNT][part * AT_ONCE : (part + 1) * AT_ONCE]


def placements(t, n, x, count, draw):
    """A placement for each dimension of a mesh: any that a tensor can have."""
    found = []
    for _ in range(count):
        choices = [n.Replicate()] + [n.Shard(d) for d in range(x.dim())] * 2
        # what is not finite has no halves
        if x.dtype in (t.float32, t.float64, t.complex64) and bool(x.isfinite().all()):
            choices.append(n.Partial())
        found.append(draw.choice(choices))
    return found


def placed(t, n, x, mesh, placements, wanted):
    """A `DTensor` made of its parts by hand."""
    part = x
    for m, p in enumerate(placements):
        if p.is_partial():
            part = part * (0.75 if mesh.get_local_rank(m) == 0 else 0.25)
    for m, p in enumerate(placements):
        if p.is_shard():
            parts, at = t.chunk(part, mesh.size(m), p.dim), mesh.get_local_rank(m)
            part = parts[at] if at < len(parts) else part.narrow(p.dim, 0, 0)
    made = n.DTensor.from_local(
        part.clone(), mesh, placements, run_check=False, shape=x.shape, stride=tuple(x.stride())
    )
    return made.requires_grad_() if wanted else made


def same(t, n, found, expected, where, loose):
    whole = found.full_tensor() if isinstance(found, n.DTensor) else found
    assert tuple(found.shape) == tuple(whole.shape) == tuple(expected.shape), (where, found.shape, whole.shape)
    assert whole.dtype == expected.dtype, (where, whole.dtype)
    if loose:
        return
    pair = [x.detach().resolve_conj() for x in (whole, expected)]
    pair = [(t.view_as_real(x) if x.is_complex() else x).double().numpy() for x in pair]
    near = 2e-2 if expected.dtype in (t.float16, t.bfloat16) else 1e-3
    np.testing.assert_allclose(*pair, rtol=near, atol=near, equal_nan=True, err_msg=where)


def weighted(t, outputs):
    """A number of which gradients are asked."""
    total = 0
    for k, out in enumerate(outputs):
        weight = t.randn(tuple(out.shape), generator=t.Generator().manual_seed(k)).to(out.dtype)
        if type(out) is not t.Tensor:
            n = import_module(f"{t.__name__}.distributed.tensor")
            mesh = out.device_mesh
            weight = n.DTensor.from_local(weight, mesh, [n.Replicate()] * mesh.ndim, run_check=False)
        total = total + (out * weight).sum()
    return total.real if total.is_complex() else total


def call(t, n, mesh, name, index, number):
    """One call: True if there was something to compare."""
    from ftorch.utils._pytree import tree_leaves
    from tests import test_registry as registry

    draw = random.Random(f"{SEED} {name} {index} {number}")
    sample = registry.Sample(name, index)
    inputs = [x if isinstance(x, t.Tensor) else registry.to_ftorch(x) for x in sample.draw()]
    floats = [s.grad and (x.is_floating_point() or x.is_complex()) for s, x in zip(sample.specs, inputs)]
    graded = draw.random() < 0.6 and any(floats)

    def run(values):
        return [x for x in tree_leaves(sample.call(t, values)) if isinstance(x, t.Tensor)]

    plain = [x.clone().requires_grad_(f and graded) for x, f in zip(inputs, floats)]
    try:
        expected = run(plain)
    except Exception:  # a sample of an error
        return False
    if any(type(x) is not t.Tensor for x in expected):
        return False
    lying = [placements(t, n, x, mesh.ndim, draw) for x in inputs]
    where = f"{name}[{index}] {sample.sample} {[(tuple(x.shape), p) for x, p in zip(inputs, lying)]} grad={graded}"
    try:
        parts = [placed(t, n, x, mesh, p, f and graded) for x, p, f in zip(inputs, lying, floats)]
        found, loose = run(parts), name in registry.UNDETERMINED
        assert len(found) == len(expected), where
        for mine, theirs in zip(found, expected):
            same(t, n, mine, theirs, where, loose)
        ours, whole = ([x for x in values if x.requires_grad] for values in (found, expected))
        if not graded or not whole:
            return True
        assert len(ours) == len(whole), where
        try:
            weighted(t, whole).backward()
        except RuntimeError:  # a derivative that does not exist
            return True
        weighted(t, ours).backward()
        for mine, theirs in zip(parts, plain):
            assert (mine.grad is None) == (theirs.grad is None), where
            if mine.grad is not None:
                same(t, n, mine.grad, theirs.grad, f"gradient of {where}", loose)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(where) from error
    return True


def calls(t, d, shape, part):
    n = import_module(f"{t.__name__}.distributed.tensor")
    mesh = d.init_device_mesh("cpu", shape)
    compared = sum(call(t, n, mesh, *each) for each in chosen(part))
    assert compared > len(chosen(part)) / 2


PARTS = range(-(-COUNT // AT_ONCE))
for _part in PARTS:  # programs are known to the processes by their names
    def _program(t, d, rank, part=_part):
        calls(t, d, (2,) if d.get_world_size() == 2 else (2, 2), part)

    _program.__qualname__ = f"program{_part}"
    globals()[_program.__qualname__] = _program


@pytest.mark.parametrize("part", PARTS)
def test_two_processes(two, part):
    two.run(globals()[f"program{part}"], ["ftorch"])


@pytest.mark.parametrize("part", PARTS if COUNT > AT_ONCE else [])
def test_four_processes(four, part):
    four.run(globals()[f"program{part}"], ["ftorch"])
