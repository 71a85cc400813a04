"""What NumPy made is dense and lies where programs read it: no call copies it again."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import torch as reference

import ftorch
from ftorch.eager.memory import host_memory, program_inputs, storage
from ftorch.eager.runtime import program, short_traces

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


def _kept():
    return program_inputs._kept[0], len(program_inputs._copies)


def test_copies_are_let_go_before_a_size_is_refused(monkeypatch):
    array, asked = _numbers(300, 400).T, []
    copy = program_inputs.for_program(array)

    def fits(nbytes):
        asked.append(_kept()[1])
        return len(asked) > 1

    monkeypatch.setattr(host_memory, "_fits", fits)
    ftorch.zeros(1 << 30)
    assert asked[0] > 0 and asked[1:] == [0] and _kept() == (0, 0)
    np.testing.assert_array_equal(np.asarray(copy), array)
    again = program_inputs.for_program(array)
    assert program_inputs.for_program(array) is again and _kept() == (array.nbytes, 1)
    del array, copy, again
    gc.collect()
    assert _kept() == (0, 0)


def test_copies_are_let_go_before_steps_are_tried_again(monkeypatch):
    """Also those that what failed was given: its frames hold them."""
    tried = []
    while len(tried) < 20:  # until one does not begin where programs want it
        x = MADE["joined"](ftorch, ftorch.tensor(_numbers(400, 300 + len(tried))))
        x.sum().item()
        if x._ftorch_storage.array.__array_interface__["data"][0] % 64:
            break
        tried.append(x)
    seen, copies = [], []
    for_program, compile_code = program_inputs.for_program, program.compile_code

    def noting(array):
        copy = for_program(array)
        if copy is not array:
            copies.append(weakref.ref(copy))
        return copy

    def failing(*arguments):
        def fails(*_):
            raise MemoryError

        return compile_code(*arguments)._replace(function=fails)

    def let_go():
        free(), seen.append([copy() is None for copy in copies])

    free = host_memory.free_memory.give_all_back
    monkeypatch.setattr(program_inputs, "for_program", noting)
    monkeypatch.setattr(program, "compile_code", failing)
    monkeypatch.setattr(program, "_prefers_steps", lambda *_: False)
    monkeypatch.setattr(program, "_comes_first", lambda *_: False)
    monkeypatch.setattr(program.donation, "prepare", lambda function, kept, given, *_: given)
    monkeypatch.setattr(short_traces, "_MOST_STEPS", 0)
    monkeypatch.setattr(host_memory.free_memory, "give_all_back", let_go)
    program._programs.clear()
    try:
        found = ((x * 2).sum(0) + 1).numpy()
    finally:
        program._programs.clear()
    np.testing.assert_allclose(found, x.numpy().sum(0) * 2 + 1, 1e-4, 1e-4)
    assert seen and copies and all(seen[0])
    assert _kept()[1] == 0


_PROGRAM = """
import resource
import numpy as np
import ftorch as torch
from ftorch._arrays import aligned_empty
from ftorch.eager.memory import program_inputs

more = torch.ones(12_000_000)
(more + 1)[0].item()
arrays = [aligned_empty((12_000_001,), np.float32)[1:] for _ in range(6)]  # 48 MB each
for array in arrays:
    program_inputs.for_program(array)
assert program_inputs._kept[0] == 6 * 48_000_000
with open("/proc/self/statm") as numbers:
    now = int(numbers.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (32 << 20), resource.RLIM_INFINITY))
found = []
for n in range(4):
    found.append(more + n)
    found[-1][0].item()
print([m[11_999_999].item() for m in found], program_inputs._kept[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of the process is read as Linux says it")
def test_their_memory_serves_where_there_is_no_more():
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.stdout, done.stderr) == ("[1.0, 2.0, 3.0, 4.0] 0\n", "")


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


def test_memory_that_a_program_still_holds_comes_back(monkeypatch):
    """A result may be there before the thread that made it lets go of what it read: writes wait for it, and copy else."""
    x = ftorch.zeros(1 << 19)
    x[0] = 1.0
    own = x._ftorch_storage
    before = own.own_memory().ctypes.data
    held = [own.array]
    monkeypatch.setattr(storage, "_PART_OF_A_COPY", 1e-5)  # s for a byte
    threading.Timer(0.01, held.clear).start()
    assert own.own_memory().ctypes.data == before and not held
    held.append(own.array)
    monkeypatch.setattr(storage, "_PART_OF_A_COPY", 1e-10)
    assert own.own_memory().ctypes.data != before
    assert held[0][0] == 1 and x[0] == 1
