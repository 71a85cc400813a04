"""Some of the random programs of `tests.eager.runtime.failing_programs`; more by its command."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import ftorch
from ftorch.eager.core import jax_internals
from ftorch.eager.native import contexts, module
from tests.eager.runtime import failing_programs
from tests.interrupting import interrupt


@pytest.mark.parametrize("seed", range(6))
def test_failures_leave_what_pytorchs_leave(seed):
    oracle = pytest.importorskip("torch")
    failing_programs.check_against_oracle(ftorch, oracle, seed)


@pytest.mark.parametrize("seed", range(6))
def test_interrupts_leave_what_was_before_or_after(seed):
    failing_programs.check_interrupts(ftorch, seed)


def test_threads_that_fail_and_are_interrupted():
    failing_programs.check_threads(ftorch, 0)


def test_children_go_on():
    done = subprocess.run(
        [sys.executable, "-m", failing_programs.__name__, "--kind", "forks", "--seeds", "0:4"],
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout and "4 programs, 0 " not in done.stdout


def _states():
    from jax._src import config, core

    return (
        jax_internals.is_top_level(), core.trace_ctx.trace, core.trace_ctx.axis_env,
        *[getattr(config, name).value for name in ("enable_x64", "numpy_rank_promotion")],
    )


@pytest.mark.skipif(module is None, reason="without the compiled kernels JAX's contexts are as they are")
def test_an_interrupt_leaves_jax_in_no_trace():
    """At each place where Python looks for signals in JAX's own contexts."""
    from jax._src import config, core

    files, inputs = (config.__file__, core.__file__, contexts.__file__), np.ones(2, np.float32)

    def call():
        with jax.numpy_rank_promotion("raise"), jax.enable_x64(False):
            jax.vmap(lambda x: x, axis_name="axis")(inputs)

    call()
    want, place = _states(), 1
    while interrupt(call, place, chosen=lambda code: code.co_filename in files) is not None:
        assert _states() == want, place
        place += 1
    assert place > 20
