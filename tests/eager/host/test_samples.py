"""Every op's kernel and derivative, on its samples, by the rules of the host tier and by XLA.

A part of the ops is run here; ``FTORCH_HOST_SAMPLES=all`` runs all of them, with all samples.
"""

from __future__ import annotations

import contextlib
import os

import jax
import numpy as np
import pytest

import ftorch as ft
from ftorch.eager.host import evaluate
from ftorch.eager.host.interpret import missing
from ftorch.eager.runtime import executor
from ftorch.eager.runtime.plan import Plan
from ftorch.eager.runtime.scalars import packed, weak
from tests import test_registry as registry
from tests.oracle import to_ftorch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning", "ignore::DeprecationWarning")

ALL = os.environ.get("FTORCH_HOST_SAMPLES") == "all"
# One op for each family of kernels; together they use nine tenths of the primitives.
SOME = """
    add.Tensor addmm amax argsort as_strided_scatter avg_pool2d group_norm bitwise_left_shift.Tensor cat cdist clamp
    conv1d conv_transpose2d.input cummax cumprod cumsum digamma div.Tensor_mode embedding fft_rfft
    gather gelu histc index_add index_put index_select kthvalue layer_norm linalg_cholesky
    linalg_solve linalg_svd logcumsumexp lstm_cell masked_fill.Scalar max_pool2d median mm nll_loss linalg_vector_norm
    pow.Tensor_Tensor prod.dim_int scatter_reduce.two softmax.int sort sum.dim_IntList tril unfold var.correction
    where.self
""".split()
NAMES = registry.PUBLIC if ALL else [name for name in SOME if name in registry.PUBLIC]
# Primitives that run as XLA's programs: the list may only shrink.
WITHOUT_RULE: set[str] = set()
# Among equal elements the package's kernel chooses as PyTorch's algorithms do, the rule the first.
CHOICE = {"kthvalue", "topk", "median", "nanmedian"}
TOLERANCE = {
    "float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-9, "complex64": 5e-5, "complex128": 1e-9,
}


def functions_of(plan, arrays, scalars):
    """A plan's function with its operands, as one of arrays."""
    count = len(arrays)

    def function(*operands):
        numbers = (weak(v, k) for v, k in zip(operands[count:], plan.scalars))
        return plan.fn(*operands[:count], *numbers)

    return function, [*map(np.asarray, arrays), *packed(plan.scalars, scalars)]


@contextlib.contextmanager
def watched(check):
    """Calls ``check(plan, arrays, scalars, results)`` for each plan that runs, each by itself, once."""
    run, deferred, seen = Plan.run, executor.DEFERRED, {}

    def checked(plan, arrays, scalars):
        results = run(plan, arrays, scalars)
        if id(plan) not in seen:
            seen[id(plan)] = plan
            check(plan, arrays, scalars, results)
        return results

    Plan.run, executor.DEFERRED = checked, False
    try:
        yield seen
    finally:
        Plan.run, executor.DEFERRED = run, deferred


def agree(plan, arrays, scalars, results):
    function, operands = functions_of(plan, arrays, scalars)
    closed = jax.make_jaxpr(function)(*operands)
    assert missing(closed.jaxpr) <= WITHOUT_RULE
    try:
        found = evaluate(closed, *operands, fallback=True)
    except Exception as error:  # those of the call, which PyTorch would raise, too, came before
        raise AssertionError(f"{plan}: {error!r}") from error
    for mine, theirs in zip(found, map(np.asarray, results), strict=True):
        assert isinstance(mine, np.ndarray), plan
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), plan
        if plan.name in CHOICE:
            continue
        tolerance = TOLERANCE.get(theirs.dtype.name, 0 if theirs.dtype.kind in "biu" else 0.1)
        if theirs.dtype.kind not in "biufc":
            mine, theirs = mine.astype(np.float32), theirs.astype(np.float32)
        finite = np.abs(np.where(np.isfinite(theirs), theirs, 0)) if theirs.dtype.kind in "fc" else 0
        scale = tolerance * max(float(np.max(finite, initial=0)), 0.01)
        np.testing.assert_allclose(mine, theirs, tolerance, scale, err_msg=repr(plan))


@pytest.mark.parametrize("name", NAMES)
def test_samples(name):
    """Forward, backward and (of the first sample) the backward's backward."""
    with watched(agree):
        for i, case in enumerate(registry.cases(name, limit=None if ALL else 2)):
            values = case.draw()
            with contextlib.suppress(RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
                if registry.OPS[name].differentiable and i < 3:
                    registry._differentiate(ft, case, values)
                    if i < 1:
                        registry._second_order(ft, case, values)
                else:
                    case.call(ft, [to_ftorch(v) for v in values])
