"""What NumPy made is dense and lies where programs read it: no call copies it again."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch as reference

import ftorch
from ftorch.eager.memory import program_inputs

MADE = {
    "turned": lambda t, x: x.t().contiguous(),
    "joined": lambda t, x: t.cat([x[:100], x[100:]]),
    "flipped": lambda t, x: x.flip(0),
    "taken": lambda t, x: x[t.arange(len(x) - 1, -1, -1)],
    "padded": lambda t, x: t.nn.functional.pad(x, (0, 0, 0, 3)),
    "between": lambda t, x: x.view(4, -1, x.shape[1]).transpose(0, 1).reshape(-1, x.shape[1]),
}


def _numbers(rows, columns):
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_weight_that_numpy_made_is_copied_once_and_follows_writes(name, is_compiled, monkeypatch):
    x = _numbers(400, 300)
    copies = []
    copy = program_inputs.aligned_copy
    monkeypatch.setattr(program_inputs, "aligned_copy", lambda array: copies.append(array.shape) or copy(array))
    found = []
    for t in (reference, ftorch):
        weight = MADE[name](t, t.tensor(x))
        weight.sum().item()
        call = t.compile(lambda w: w.sum(0) * 2) if is_compiled and t is ftorch else lambda w: w.sum(0) * 2
        results = [call(weight).numpy() for _ in range(12)]
        weight.mul_(3)
        weight.sum().item()
        found.append([*results, *(call(weight).numpy() for _ in range(3))])
    for theirs, own in zip(*found):
        np.testing.assert_allclose(own, theirs, 1e-4, 1e-4)
    assert len(copies) <= 2  # before the write, and after it


def test_copies_go_with_their_arrays():
    gc.collect()
    before = program_inputs._kept[0]
    array = _numbers(300, 400).T
    copy = program_inputs.for_program(array)
    assert program_inputs.for_program(array) is copy
    np.testing.assert_array_equal(np.asarray(copy), array)
    assert program_inputs._kept[0] == before + array.nbytes
    del array, copy
    gc.collect()
    assert program_inputs._kept[0] == before


def test_more_than_may_be_kept_is_copied_each_time(monkeypatch):
    monkeypatch.setattr(program_inputs, "MOST", program_inputs._kept[0])
    array = _numbers(300, 400).T
    assert program_inputs.for_program(array) is not program_inputs.for_program(array)


def test_small_and_aligned_arrays_stay_themselves():
    small, large = _numbers(3, 4).T, ftorch.empty(300, 400).numpy()
    assert program_inputs.for_program(small) is small
    if not large.ctypes.data % 64:
        assert program_inputs.for_program(large) is large


@pytest.mark.parametrize("count", [1, 30])
def test_results_lie_as_their_storages_say(count):
    """Again and again, so that the functions of short traces in C keep them, too."""
    for _ in range(count):
        y = ftorch.arange(60.0).view(3, 4, 5).transpose(0, 2).reshape(20, 3)
        y[0, 0].item()
        array = y._ftorch_storage.array
        assert array is None or np.asarray(array).flags.c_contiguous
    np.testing.assert_array_equal(y.numpy(), np.arange(60, dtype=np.float32).reshape(3, 4, 5).swapaxes(0, 2).reshape(20, 3))
