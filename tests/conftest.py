"""What all tests share: a compilation cache for the run, and PyTorch kept out of its way."""

import os


def pytest_configure(config):
    # One persistent cache for all workers and later runs: a test's time is mostly XLA's compiler.
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(config.cache.mkdir("jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    config.addinivalue_line("markers", "slow: takes minutes; run with FTORCH_SLOW=1")


def pytest_sessionstart(session):
    import torch

    torch.set_num_threads(1)


_FORGET_AFTER = 300  # tests of one worker
_finished = 0


def pytest_runtest_teardown(item, nextitem):
    """Lets go of compiled programs now and then: thousands of tests would keep gigabytes of them."""
    global _finished
    _finished += 1
    if _finished % _FORGET_AFTER == 0:
        import jax

        from ftorch.eager import executor, op, program

        executor.flush()
        op.clear_plans()
        program._programs.clear()
        jax.clear_caches()
