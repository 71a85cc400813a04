"""Memory that programs take over: `ftorch.eager.runtime.donation`."""

import weakref

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch import _arrays as arrays
from ftorch.eager.call.op import clear_plans
from ftorch.eager.core import device, jax_internals
from ftorch.eager.runtime import compilation, donation, executor, program
from ftorch.jit import stats

LARGE = 1 << 19  # elements of float32: more than `donation` leaves to XLA


def test_results_lie_over_owned_copies():
    array = arrays.aligned_empty((LARGE,), np.float32)
    array[:] = 3
    copy = jax_internals.owned_copy(array, device.to_jax(device.CPU))
    place = copy.unsafe_buffer_pointer()
    function = compilation.jitted(lambda kept, given: [given[0] + 1], donates=True, device=device.CPU, steps=1)
    (result,) = function([], [copy])
    assert place != array.ctypes.data and result.unsafe_buffer_pointer() == place
    assert copy.is_deleted() and array[0] == 3 and result[0] == 4


def test_only_large_arrays_of_numpy_are_handed_over():
    small, large, kept = np.zeros(4, np.float32), np.ones(LARGE, np.float32), np.ones(LARGE, np.float32)
    given = [small, large, kept]
    donation.hand_over(given, (0, 1))
    assert given[0] is small and given[2] is kept
    assert given[1] is not large and isinstance(given[1], type(device.put(small, device.CPU)))
    np.testing.assert_array_equal(given[1], large)


def test_an_array_that_is_handed_over_is_freed():
    owner = np.ones(LARGE, np.float32)
    watch = weakref.ref(owner)
    given = [owner]
    del owner
    donation.hand_over(given, (0,))
    given[0].block_until_ready()
    jax_internals.collect_garbage()
    assert watch() is None and given[0].shape == (LARGE,)


def test_an_array_stays_where_it_cannot_be_copied(monkeypatch):
    large = np.ones(LARGE, np.float32)
    given = [large]

    def failing(*_):
        raise MemoryError

    monkeypatch.setattr(jax_internals, "owned_copy", failing)
    with pytest.raises(MemoryError):
        donation.hand_over(given, (0,))
    assert given[0] is large


def steps(lib, sizes, count):
    lib.manual_seed(0)
    model = lib.nn.Linear(*sizes)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    x = lib.randn(3, sizes[0])
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.weight.detach().numpy()


@pytest.mark.parametrize("left", [1, 0])
def test_what_replaces_much_is_compiled_when_it_comes_first(monkeypatch, left):
    early = donation.EarlyPrograms()
    early.left = left
    monkeypatch.setattr(donation, "early_programs", early)
    monkeypatch.setattr(donation, "_LARGE", 1 << 18)
    executor.flush()
    stats.reset()
    sizes = 311 + left, 307  # that no other test has
    mine, weight = steps(torch, sizes, 1)
    assert stats.compilations >= left and (early.left == 0)
    if not left:
        assert stats.compilations == 0
    theirs, expected = steps(reference, sizes, 1)
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-6)


def test_what_replaces_much_does_not_wait_for_a_compilation_beside(monkeypatch):
    early = donation.EarlyPrograms()
    early.left = 0
    monkeypatch.setattr(donation, "early_programs", early)
    monkeypatch.setattr(donation, "_LARGE", 1 << 18)
    for size in (233, 239):  # a size class
        steps(torch, (size, 307), 1)
    early.left = 1
    monkeypatch.setattr(program.background, "is_possible", lambda: True)
    monkeypatch.setattr(program.background, "compile_beside", lambda *given: pytest.fail("compiled beside"))
    mine, weight = steps(torch, (317, 307), 1)
    assert early.left == 0
    theirs, expected = steps(reference, (317, 307), 1)
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-6)


def test_what_came_again_was_not_compiled_for_nothing():
    early, first, second = donation.EarlyPrograms(), program.Program(False, [0], (), ()), object()
    early.left = 1
    inputs = [np.zeros(1 << 25, np.float32)]  # never touched
    assert early.wants(first, inputs) and early.left == 0
    early.came_again(second)
    assert early.left == 0 and not early.wants(program.Program(False, [0], (), ()), inputs)
    early.came_again(first)
    early.came_again(first)
    assert early.left == 1


def test_what_others_hold_is_not_replaced():
    early = donation.EarlyPrograms()
    array = np.zeros(1 << 25, np.float32)
    assert not early.wants(program.Program(False, [0], (), ()), [array]) and early.left == 4


def test_a_program_is_compiled_before_anything_is_given_away(monkeypatch):
    monkeypatch.setattr(donation, "_SPARED_BYTES", 1 << 10)
    given = [jax_internals.owned_copy(np.ones(LARGE, np.float32), device.to_jax(device.CPU))]

    def fails(kept, given):
        raise ValueError("no program")

    function = compilation.jitted(fails, donates=True, device=device.CPU, steps=1)
    with pytest.raises(ValueError, match="no program"):
        donation.prepare(function, [], given, (), device.CPU)
    assert not given[0].is_deleted()
    function = compilation.jitted(lambda kept, given: [given[0] * 2], donates=True, device=device.CPU, steps=1)
    assert donation.prepare(function, [], given, (), device.CPU) is given
    assert function([], given)[0][0] == 2 and given[0].is_deleted()


def test_what_is_little_is_spared():
    array = jax_internals.owned_copy(np.ones(8, np.float32), device.to_jax(device.CPU))
    function = compilation.jitted(lambda kept, given: [given[0] * 2], donates=True, device=device.CPU, steps=1)
    (spared,) = donation.prepare(function, [], [array], (), device.CPU)
    function([], [spared])
    assert not array.is_deleted() and array[0] == 1


def test_long_programs_are_like_short_ones():
    def chain(lib, x):
        for _ in range(compilation._LONG // 2 + 3):
            x = (x * 1.01).sin()
        return x

    clear_plans()  # what has a size class by now runs without a program at first
    x = torch.linspace(-1, 1, 1013)
    executor.flush()
    y = chain(torch, x)
    stats.reset()
    executor.flush(again=True)
    assert stats.compilations == 1
    np.testing.assert_allclose(y.numpy(), chain(reference, reference.linspace(-1, 1, 1013)).numpy(), rtol=2e-5)
