"""The executor: what compiles, what is fused, and when it runs."""

import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch.eager.call import op
from ftorch.eager.runtime import executor, program, stepwise
from ftorch.jit import stats


@pytest.fixture(autouse=True)
def nothing_known():
    """Counts must not hang on which sizes and traces the tests before this one had."""
    executor.flush()
    op.clear_plans()
    program._programs.clear()


def settle():
    torch.zeros(1).item()
    stats.reset()


def test_operations_wait_until_somebody_looks():
    x = torch.ones(3)
    torch.zeros(1).item()
    executor.flush()
    y = (x + 1) * 2
    assert executor.pending_steps() == 2
    assert y.tolist() == [4, 4, 4]
    assert executor.pending_steps() == 0


def test_what_comes_again_is_compiled_at_once():
    # What is small, or varies in size, is compiled beside: no other test has tensors of this rank.
    x = torch.ones(3, 7, 1, 1, 1, 1, 5000)
    settle()
    y = (x.exp() * x).tanh().sum(1)
    executor.flush(again=True)
    assert stats.compilations == 1 and stats.programs == 1
    assert y.shape == (3, 1, 1, 1, 1, 5000)


def test_long_traces_of_small_steps_wait_until_a_program_pays():
    """Loops that nobody looks into (an optimizer of a few numbers) end their traces by their length."""
    x = torch.ones(3, 1, 1, 10, 1, 1, 1)
    settle()
    for _ in range(4 * executor.MAX_STEPS):
        x = x * 0.5
    assert x.sum().item() == 0.0
    assert stats.ops > 3 * executor.MAX_STEPS and stats.compilations == 0


def test_nothing_compiles_after_warming_up():
    """The learning rate, the step count, an index and a clamp bound change every step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    data = torch.randn(64, 4)

    def step(i):
        optimizer.zero_grad()
        out = model(data[i % 12 : i % 12 + 4]).clamp(-1.0 - i, 1.0 + 0.1 * i)
        (out.square().mean() + out[i % 4, i % 3]).backward()
        optimizer.step()
        scheduler.step()

    for i in range(8):
        step(i)
        executor.flush()
    for i in range(24):  # twice each place; a view that starts at 0 is read by a program of its own
        step(i)
    executor.flush()
    stats.reset()
    for i in range(24, 60):
        step(i)
    executor.flush()
    assert stats.compilations == 0
    assert stats.programs <= 40


def test_a_hot_trace_is_one_program():
    def run():
        x = torch.ones(5)
        for _ in range(20):
            x = torch.sin(x) + 1
        return x.sum().item()

    for _ in range(3):
        run()
    settle()
    run()
    assert stats.programs <= 2 and stats.compilations == 0 and stats.ops >= 41


def test_a_long_trace_of_few_operations_need_not_be_compiled():
    """Each trace is another one, made of the same two operations."""
    sines = [[(i >> bit) & 1 for bit in range(40)] for i in range(1, 200, 37)]
    x = torch.ones(5) / 2

    def run(choices):
        y = x
        for is_sine in choices:
            y = y.sin() if is_sine else y.cos()
        return y.sum().item()

    run(sines[0])
    settle()
    assert len({run(choices) for choices in sines[1:]}) > 1
    assert stats.compilations == 0


def test_a_long_trace_is_cut():
    x = torch.zeros(2)
    for _ in range(3 * executor.MAX_STEPS):
        x = x + 1
    assert x.tolist() == [3.0 * executor.MAX_STEPS] * 2


def test_what_nobody_holds_is_not_computed():
    x = torch.ones(4)
    kept = x + 1
    for _ in range(10):
        x.exp()  # dropped at once
    assert kept.tolist() == [2] * 4


@pytest.mark.parametrize("again", range(2))
def test_what_was_overwritten_is_not_computed(again):
    executor.flush()
    stats.reset()
    x = torch.ones(7, 29 + again).cos()
    x.copy_(torch.full((7, 29 + again), 2.0))
    x.copy_(torch.zeros(7, 29 + again))
    del x
    executor.flush()
    assert stats.compilations == stats.programs == 0


# values, and dtypes that take them
CONSTANTS = [
    (2.5, "float16 bfloat16 float32 float64 complex64 complex128"), (1e300, "float32 float64"),
    (math.nan, "float32 float64"), (-0.0, "float32 complex64"),
    (300, "uint8 int8 int32 int64 bool float32 complex64"), (-1, "uint8 int64 bool"), (True, "bool int64 float32"),
    (2 - 3j, "complex64 complex128"),
]


@pytest.mark.parametrize("value, dtypes", CONSTANTS)
def test_a_constant_by_itself_is_pytorchs(value, dtypes):
    for name in dtypes.split():
        for make in (
            lambda lib, d: lib.full((2, 3), value, dtype=d),
            lambda lib, d: lib.empty(2, 3, dtype=d).fill_(value),
            lambda lib, d: lib.full_like(lib.ones(3, 2), value, dtype=d).t(),
        ):
            try:
                theirs = make(reference, getattr(reference, name))
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    make(torch, getattr(torch, name))
                continue
            ours = make(torch, getattr(torch, name))
            assert ours.stride() == theirs.stride()
            assert str(ours.dtype) == str(theirs.dtype)
            assert repr(ours.tolist()) == repr(theirs.tolist()), name


def test_constants_compile_nothing():
    executor.flush()
    stats.reset()
    for _ in range(2):
        made = [
            torch.zeros(31, 3), torch.ones(31, 2, dtype=torch.int64), torch.full((31,), 0.5),
            torch.empty(31, dtype=torch.complex64), torch.zeros(37).fill_(3), torch.ones(37, 31).zero_(),
            torch.zeros_like(torch.ones(37)), torch.ones(2).new_full((37,), 4.0),
        ]
        assert [t.numpy().max() for t in made] == [0, 1, 0.5, 0, 3, 0, 0, 4]
        assert [t.numpy().min() for t in made] == [0, 1, 0.5, 0, 3, 0, 0, 4]
    assert stats.compilations == 0


def test_threads_have_their_own_traces():
    shared = torch.arange(4.0)
    results = {}

    def work(number):
        x = shared
        for _ in range(50):
            x = x + number
        results[number] = x.tolist()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {n: [i + 50.0 * n for i in range(4)] for n in range(6)}


def test_a_tensor_of_another_thread_is_waited_for():
    box = []
    thread = threading.Thread(target=lambda: box.append(torch.ones(2) * 3))
    thread.start()
    thread.join()
    assert (box[0] + 1).tolist() == [4, 4]


def test_an_error_leaves_the_program_usable():
    with pytest.raises(RuntimeError):
        torch.ones(2) + torch.ones(3)
    assert (torch.ones(2) + 1).tolist() == [2, 2]


def test_op_by_op_gives_the_same():
    program = (
        "import ftorch as torch; torch.manual_seed(0); x = torch.randn(4, requires_grad=True);"
        "y = (x.exp() * 2).sum(); y.backward(); print(y.item(), x.grad.tolist())"
    )
    outputs = set()
    for mode in ("op", "deferred"):
        env = {**os.environ, "FTORCH_EXECUTOR": mode}
        run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True,
                             check=True)
        value, _, gradient = run.stdout.partition(" ")
        outputs.add((round(float(value), 4), len(gradient.split(","))))
    assert len(outputs) == 1


def test_numbers_of_numpy_are_never_given_away():
    assert not stepwise.is_given_away(np.float32(0)) and not stepwise.is_given_away(np.zeros(2))


def test_a_trace_lets_go_of_what_is_filled_at_once():
    executor.flush()
    x = torch.empty(300, 300)
    storage = x._ftorch_storage
    pending = executor.pending_steps()
    x.uniform_()
    assert pending and executor.pending_steps() == pending
    assert all(owner is not storage for owner in executor.threads.cpu.owners)
    assert 0 < x.mean().item() < 1
