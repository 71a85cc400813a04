"""What all tests share: a compilation cache for the run, PyTorch kept out of its way, and an end."""

import os
import signal
import sys

import pytest

from . import processes


def pytest_configure(config):
    # One persistent cache for all workers and later runs: a test's time is mostly XLA's compiler.
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and config.pluginmanager.hasplugin("cacheprovider"):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(config.cache.mkdir("jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    os.environ.setdefault("FTORCH_COMPILE_THREAD", "0")  # else what is compiled when depends on what the machine does
    config.addinivalue_line("markers", "slow: takes tens of seconds; left out with -m 'not slow'")
    processes.begin()
    # That of pytest's own output, which tests that capture theirs do not change.
    config.stash[_STDERR] = os.fdopen(os.dup(sys.__stderr__.fileno()), "w")


_STDERR = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Shortly before pytest-timeout would end the process: it cannot where a thread keeps Python's lock, and the stacks
    that a worker of pytest-xdist prints by it are lost."""
    options = item.config.option
    limit = float(item.config.getini("timeout") if options.timeout is None else options.timeout)
    if not limit or options.usepdb or options.trace:
        return (yield)
    with processes.ended_after(limit * 0.95, item.config.stash[_STDERR]):
        return (yield)


@pytest.fixture(autouse=True, scope="module")
def _what_is_started_ends():
    """Fails where the tests of a module leave processes, or threads that keep the interpreter from ending."""
    left = processes.Left()
    yield
    found = left.found()
    assert not found, "left behind: " + "; ".join(found)


@pytest.fixture(autouse=True, scope="module")
def _signals_are_handled_as_before():
    """Launchers in a test's process handle them from then on, as PyTorch's do."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def pytest_sessionstart(session):
    try:
        import torch
    except ImportError:  # on a newer Python, tests that need no oracle
        return
    torch.set_num_threads(1)


_FORGET_AFTER = 300  # tests of one worker
_finished = 0


def pytest_runtest_teardown(item, nextitem):
    """Lets go of compiled programs now and then: thousands of tests would keep gigabytes of them."""
    global _finished
    _finished += 1
    if _finished % _FORGET_AFTER == 0:
        import jax

        from ftorch.eager.call import op
        from ftorch.eager.runtime import executor, program

        executor.flush()
        op.clear_plans()
        program._programs.clear()
        jax.clear_caches()


@pytest.fixture
def no_promotion(monkeypatch):
    """What runs on the host stays there. It is compiled once when it has taken long enough, and when that is depends
    on what else the machine does."""
    from ftorch.eager.runtime import plan, program, short_traces

    monkeypatch.setattr(plan, "COMPILE_STEP", float("inf"))
    monkeypatch.setattr(program, "_COMPILE_PROGRAM", float("inf"))
    monkeypatch.setattr(short_traces, "_LIMIT", float("inf"))
