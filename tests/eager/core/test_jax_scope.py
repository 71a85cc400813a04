"""JAX is left as it was found: settings, caches, warnings filters and environment, on import and by what is computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ftorch as torch
from ftorch.eager.core import jax_internals, jax_scope

_LOOK = """
import json, os, sys, warnings
import numpy, jax, jax.numpy as jnp, optax
assert "ftorch" not in sys.modules

def state():
    from jax._src import config
    return {
        "settings": {name: repr(value) for name, value in jax.config.values.items()},
        "thread": {name: repr(getattr(jax.config, name, None)) for name in jax.config.values},
        "filters": repr(warnings.filters),
        "environment": dict(os.environ),
        "ones": str(jnp.ones(3).dtype), "numbers": str(jnp.arange(3).dtype), "of NumPy": str(jnp.asarray(numpy.ones(3)).dtype),
        "product": str(jax.make_jaxpr(jnp.dot)(jnp.ones((2, 2)), jnp.ones((2, 2)))),
        "recursion": sys.getrecursionlimit(), "switch": sys.getswitchinterval(),
        "hooks": repr((sys.excepthook, sys.displayhook)),
    }

first = state()
import ftorch as torch
second = state()
"""
_COMPUTE = """
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters())
for n in (5, 6, 7, 7, 7, 7):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(n, 4)), torch.arange(n) % 3).backward()
    optimizer.step()
compiled = torch.compile(model)
compiled(torch.ones(2, 4)), compiled(torch.ones(2, 4))
torch.vmap(torch.func.grad(lambda x: (x.double() ** 2).sum()))(torch.ones(3, 4))
torch.export.export(model, (torch.ones(2, 4),)).to_stablehlo()
try:
    torch.ones(3) @ torch.ones(4)
except RuntimeError:
    pass
torch.set_float32_matmul_precision("high")
third = state()
"""


def _run(script, **variables):
    environment = {k: v for k, v in os.environ.items() if k not in ("JAX_ENABLE_X64", "JAX_COMPILATION_CACHE_DIR")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment | variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("x64", ["0", "1"])
def test_import_and_work_change_nothing(x64, tmp_path):
    first, second, third = _run(
        _LOOK + _COMPUTE + "print(json.dumps([first, second, third]))", JAX_ENABLE_X64=x64, FTORCH_CACHE_DIR=str(tmp_path)
    )
    assert second == first
    assert third == first
    assert first["ones"] == ("float64" if x64 == "1" else "float32")


def test_programs_of_others_are_not_kept(tmp_path):
    """In the package's own folder are its own programs only."""
    kept = _run(_LOOK + """
folder = os.environ["FTORCH_CACHE_DIR"]
jax.jit(lambda x: jnp.sin(x) * 41)(jnp.ones(3))
before = os.listdir(folder)
f = torch.compile(lambda x: x.sin() * 43)
f(torch.ones(3)), f(torch.ones(3))
print(json.dumps([before, os.listdir(folder)]))
""", FTORCH_CACHE_DIR=str(tmp_path))
    assert kept[0] == []
    assert kept[1]


def test_a_folder_of_jax_gets_both(tmp_path):
    """Whoever has set JAX's folder finds small programs of the package there, and his own as JAX keeps them."""
    kept = _run(_LOOK + """
f = torch.compile(lambda x: x.sin() * 43)
f(torch.ones(3)), f(torch.ones(3))
ours = len(os.listdir(os.environ["JAX_COMPILATION_CACHE_DIR"]))
jax.jit(lambda x: jnp.sin(x) * 41)(jnp.ones(3))
print(json.dumps([ours, len(os.listdir(os.environ["JAX_COMPILATION_CACHE_DIR"]))]))
""", JAX_COMPILATION_CACHE_DIR=str(tmp_path), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="100")
    assert kept[0] > 0
    assert kept[1] == kept[0]


def test_scope_ends_with_what_was():
    @jax_scope.scoped
    def look(fail):
        assert jax_scope.is_inside()
        assert jnp.ones(1).dtype == np.float64
        if fail:
            raise ValueError("on the way")
        with jax_scope.scope():
            return jax_scope.is_inside()

    for x64 in (False, True):
        with jax.enable_x64(x64), jax.default_matmul_precision("bfloat16"):
            assert look(False)
            with pytest.raises(ValueError, match="on the way"):
                look(True)
            assert not jax_scope.is_inside()
            assert jax.config.jax_enable_x64 is x64
            assert jax.config.jax_default_matmul_precision == "bfloat16"


def test_other_threads_see_nothing():
    seen = []

    @jax_scope.scoped
    def look():
        worker = threading.Thread(target=lambda: seen.append((jax_scope.is_inside(), jnp.ones(1).dtype)))
        worker.start()
        worker.join()

    look()
    assert seen == [(False, jnp.ones(1).dtype)]


def test_arrays_of_both_worlds():
    """What is handed over keeps its dtype; what JAX makes has JAX's."""
    assert torch.from_jax(jnp.ones(3)).dtype is (torch.float64 if jax.config.jax_enable_x64 else torch.float32)
    whole = torch.arange(2**40, 2**40 + 3)
    assert whole.jax().dtype == np.int64
    assert torch.from_jax(whole.jax()).equal(whole)
    assert (torch.from_jax(whole.jax()) + 1).tolist() == [2**40 + 1, 2**40 + 2, 2**40 + 3]


def test_what_jax_is_busy_with_can_be_called_apart():
    given, comes = [], [True]

    def handler():  # of a signal that comes while `add` is traced
        with pytest.raises(RecursionError) as caught:
            jax_scope.scoped(add)(one)
        assert jax_internals.is_busy(caught.value)
        given.append(jax_scope.scoped_trace(jax.eval_shape)(add, one).shape)
        for _ in range(2):
            with jax_internals.outside_traces():
                given.append(float(jax_scope.scoped(add)(one)))

    @jax.jit
    def add(x):
        if comes and comes.pop():
            handler()
        return x + 1

    one = jax.device_put(np.float32(1))
    jax_scope.scoped(add)(one)
    assert given == [(), 2.0, 2.0]


def test_a_true_recursion_is_tried_once():
    calls = []

    @jax_scope.scoped_trace
    def endless():
        calls.append(0)
        raise RecursionError("maximum recursion depth exceeded")

    with pytest.raises(RecursionError, match="maximum"):
        endless()
    assert len(calls) == 1
