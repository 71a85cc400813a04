"""Transforms of every op of the registry: ``vmap`` over each tensor in turn, and ``jvp``.

``vmap`` is judged by a loop, ``jvp`` by PyTorch's forward mode, or by central differences where
PyTorch has none. ``FTORCH_TRANSFORM_SAMPLES`` says how many samples of each op are tried.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.core.registry import OPS
from tests.oracle import array, assert_same, is_tensor, outcome, tensors, to_ftorch, to_torch
from tests.samples import SAMPLES
from tests.test_registry import PUBLIC, cases, is_random

COUNT = int(os.environ.get("FTORCH_TRANSFORM_SAMPLES", "1"))
DETERMINISTIC = [n for n in PUBLIC if n in SAMPLES and not is_random(OPS[n]) and not OPS[n].host]
# What a loop or a perturbation cannot judge, with the reason.
SKIPPED_VMAP: dict[str, str] = {}
_STATISTICS = "running statistics are constants to the derivative, as in PyTorch"
SKIPPED_JVP: dict[str, str] = {
    "_batch_norm_eval": _STATISTICS,
    "_batch_norm_train": _STATISTICS,
    "_instance_norm_train": _STATISTICS,
    "polar": "the derivative takes the magnitude to be positive, as in PyTorch",
    **dict.fromkeys(
        (n for n in OPS if n.startswith(("fake_quantize_", "_fake_quantize_"))), "the derivative passes straight through"
    ),
    "scatter.reduce": "there is no derivative, as in PyTorch",
    "scatter.value_reduce": "there is no derivative, as in PyTorch",
    "_ctc_loss": "the derivative is that of log_softmax before it, as in PyTorch",
}


def _each(names, skipped):
    return pytest.mark.parametrize("name", [
        pytest.param(n, id=n, marks=[pytest.mark.skip(skipped[n])] if n in skipped else [])
        for n in names
    ])


def _only_tensors(result):
    return is_tensor(result) or (
        isinstance(result, (tuple, list)) and all(map(_only_tensors, result))
    )


def mapped_calls(name):
    """For each tensor argument that a loop can judge: (where, the loop's results, the mapped call)."""
    for case in cases(name, limit=COUNT):
        first, second = case.draw(), case.draw(1)
        for chosen in range(len(first)):
            batch = [first, [*first[:chosen], second[chosen], *first[chosen + 1 :]]]
            expected, error = outcome(
                lambda c=case, b=batch: [c.call(ft, list(map(to_ftorch, vs))) for vs in b]
            )
            if error is not None or not all(map(_only_tensors, expected)):
                continue
            if [t.shape for t in tensors(expected[0])] != [t.shape for t in tensors(expected[1])]:
                continue
            dim = first[chosen].ndim if chosen % 2 else 0  # in front and at the end

            def mapped(module, convert, case=case, batch=batch, chosen=chosen, dim=dim):
                operands = list(map(convert, batch[0]))
                operands[chosen] = module.stack([convert(vs[chosen]) for vs in batch], dim)
                in_dims = tuple(dim if i == chosen else None for i in range(len(operands)))
                return module.vmap(lambda *ts: case.call(module, ts), in_dims)(*operands)

            yield f"{case.where}, argument {chosen}", expected, mapped


def check_mapped(where, expected, mapped):
    """Holds the mapped call's results to the loop's."""
    for i, own in enumerate(expected):
        for a, b in zip(tensors(mapped), tensors(own), strict=True):
            assert_same(a[i], b, where=where, tolerance=(1e-4, 1e-5))


@_each(DETERMINISTIC, SKIPPED_VMAP)
def test_vmap_of_each_argument(name):
    """Mapping over one tensor, the others shared by all examples, is a loop."""
    for where, expected, mapped in mapped_calls(name):
        check_mapped(where, expected, mapped(ft, to_ftorch))


def _push(module, convert, case, values, chosen, directions):
    operands = [convert(v) for v in values]

    def function(*inputs):
        full = list(operands)
        for i, t in zip(chosen, inputs):
            full[i] = t
        result = case.call(module, full)
        return tuple(t for t in tensors(result) if t.is_floating_point() or t.is_complex())

    primals = tuple(operands[i] for i in chosen)
    return module.func.jvp(function, primals, tuple(convert(d) for d in directions))


def _differences(case, values, chosen, directions, step=1e-6):
    """Central differences of ftorch's own results."""
    sides = []
    for sign in (1, -1):
        moved = list(values)
        for i, d in zip(chosen, directions):
            moved[i] = values[i] + sign * step * d
        result = case.call(ft, list(map(to_ftorch, moved)))
        sides.append([t for t in tensors(result) if t.is_floating_point() or t.is_complex()])
    return [(array(a) - array(b)) / (2 * step) for a, b in zip(*sides)]


def pushed(name):
    """For each sample that can be differentiated: (case, values, which of them, directions)."""
    for case in cases(name, wide=True, limit=COUNT):
        values = case.draw()
        chosen = [
            i for i, (v, spec) in enumerate(zip(values, case.specs))
            if spec.grad and v.dtype.kind in "fc" and v.dtype.itemsize >= 8
        ]
        result, error = outcome(case.call, ft, list(map(to_ftorch, values)))
        if not chosen or error is not None or not _only_tensors(result):
            continue
        if not any(t.is_floating_point() or t.is_complex() for t in tensors(result)):
            continue  # a view of the bits as integers
        yield case, values, chosen, _directions(case, values, chosen)


def check_pushed(*sample):
    """Holds the derivative to PyTorch's or to central differences; whether PyTorch has one."""
    theirs, error = outcome(_push, pt, to_torch, *sample)
    mine = _push(ft, to_ftorch, *sample)
    if error is None:
        expected = [_dense(t) for t in theirs[1]]
        if outcome(assert_same, list(mine[1]), expected, tolerance=(1e-6, 1e-7))[1] is None:
            return True
    # PyTorch has no forward mode here, or one that assumes more than the kernel does.
    for a, b in zip(mine[1], _differences(*sample), strict=True):
        np.testing.assert_allclose(array(a), b, 1e-3, 1e-5, err_msg=sample[0].where)
    return error is None


@_each([n for n in DETERMINISTIC if OPS[n].differentiable], SKIPPED_JVP)
def test_jvp(name):
    """The derivative along a direction is PyTorch's, or that of central differences."""
    for sample in pushed(name):
        check_pushed(*sample)


def _dense(t):
    return pt.zeros_like(t) if t._is_zerotensor() else t


def _directions(case, values, chosen):
    """Differences of two draws, which keep to the samples' domain: symmetric, triangular, ..."""
    rng = np.random.default_rng(case.seed)
    directions = []
    for i, other in enumerate(case.draw(1)):
        if i in chosen:
            with np.errstate(invalid="ignore"):
                d = np.nan_to_num(other - values[i], posinf=1.0, neginf=1.0)  # infinite samples
            if not d.any():
                d = rng.uniform(-1, 1, d.shape)
            directions.append(np.asarray(d / 4).astype(values[i].dtype))
    return directions
