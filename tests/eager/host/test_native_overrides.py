"""Rules that call the C++ kernels: the results of XLA, and no rule of NumPy's behind them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ftorch.eager.host import RULES, evaluate, native_calls
from ftorch.eager.host.interpret import form
from ftorch.eager.kernels.nn import rnn
from ftorch.eager.native import numpy_calls

pytestmark = pytest.mark.skipif(not native_calls.available, reason="without a compiler")


def rng():
    return np.random.default_rng(0)


def floats(*shape):
    return rng().normal(size=shape).astype(np.float32)


def by_index(x, index):
    return jnp.take_along_axis(x, jnp.broadcast_to(index[:, None], (len(index), x.shape[1])), 0, mode="clip")


CASES = {
    "conv": (
        lambda x, w: lax.conv_general_dilated(x, w, (2, 1), ((1, 1), (0, 2)), rhs_dilation=(1, 2)),
        floats(2, 3, 9, 11),
        floats(4, 3, 3, 2),
    ),
    "grouped": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1,), ((1, 1),), feature_group_count=4, dimension_numbers=("NCH", "OIH", "NCH")
        ),
        floats(2, 4, 30),
        floats(8, 1, 3),
    ),
    "one by one": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID"),
        floats(2, 8, 20, 20),
        floats(6, 8, 1, 1),
    ),
    "weight gradient": (
        lambda x, w: jax.grad(lambda w: lax.conv_general_dilated(x, w, (1, 1), "SAME").sum())(w),
        floats(2, 3, 8, 8),
        floats(4, 3, 3, 3),
    ),
    "input gradient": (
        lambda x, w: jax.grad(lambda x: lax.conv_general_dilated(x, w, (2, 2), "VALID").sum())(x),
        floats(2, 3, 9, 9),
        floats(4, 3, 3, 3),
    ),
    "gather": (by_index, floats(20, 6), rng().integers(0, 20, 31)),
    "gather along": (
        lambda x, i: jnp.take_along_axis(x, i, 1, mode="clip"),
        floats(90, 60),
        rng().integers(0, 60, (90, 50)),
    ),
    "scatter-add": (
        lambda x, i, u: x.at[i].add(u, mode="drop"),
        floats(20, 6),
        rng().integers(0, 20, 310),
        floats(310, 6),
    ),
    "cumsum": (lambda x: lax.cumsum(x, 1), floats(5, 40, 30)),
    "sort": (lambda x: lax.sort(x, dimension=0), rng().integers(-9, 9, (500, 40))),
    "top_k": (lambda x: lax.top_k(x, 5), floats(7, 90)),
    "product": (lambda x, y: jnp.einsum("bij,kjb->bik", x, y), floats(3, 6, 7), floats(9, 7, 3)),
    "sum": (lambda x: x.sum((0, 2)), floats(5, 6, 70)),
    "lstm": (
        lambda *given: rnn._LSTM.bind(*given, reverse=False),
        *(floats(5, 3, 16), floats(3, 4), floats(3, 4), floats(16, 4), rng().random((5, 3, 1)) < 0.7),
    ),
    "functions": (lambda x: jnp.tanh(x) * lax.logistic(x) + lax.erf(x) + jnp.sin(x), floats(300)),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_give_xlas_results(name):
    function, *arrays = CASES[name]
    closed = jax.make_jaxpr(function)(*arrays)
    found = evaluate(closed, *arrays)
    expected = jax.tree.leaves(jax.jit(function)(*arrays))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "name", ["conv", "one by one", "weight gradient", "gather along", "scatter-add", "top_k", "cumsum", "sort", "lstm"]
)
def test_rules_of_numpy_are_not_called(name, monkeypatch):
    function, *arrays = CASES[name]
    called, real = [], numpy_calls.call
    monkeypatch.setattr(numpy_calls, "call", lambda name, *rest: called.append(name) or real(name, *rest))
    closed = jax.make_jaxpr(lambda *given: function(*given))(*arrays)  # steps of its own: they know no calls
    evaluate(closed, *arrays)
    assert called, name


def test_other_dtypes_have_numpys_rules():
    for dtype in (np.float16, np.complex64, np.float64):
        x = floats(4, 5).astype(dtype)
        closed = jax.make_jaxpr(lambda x: lax.dot(x, x.T))(x)
        np.testing.assert_allclose(evaluate(closed, x)[0], x @ x.T, rtol=1e-2)


def test_what_has_a_kernel_for_one_dtype_alone_is_what_it_means_for_others():
    function, *arrays = CASES["lstm"]
    arrays = [x.astype(np.float64) if x.dtype == np.float32 else x for x in arrays]
    closed = jax.make_jaxpr(function)(*arrays)
    for mine, theirs in zip(evaluate(closed, *arrays), function(*arrays), strict=True):
        assert mine.dtype == theirs.dtype == np.float64
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_arrays_are_read_where_they_lie():
    origins = numpy_calls.ArrayOrigins()
    x = floats(2, 3, 4, 5)
    turned = x.transpose(0, 2, 1, 3)
    view = origins.get(turned, "transpose")
    assert view.params["permutation"] == (0, 2, 1, 3) and view.source.flags.c_contiguous
    assert origins.get(x, "transpose") is None
    view = origins.get(x[..., ::-1, ::-1], "rev")
    assert view.params["dimensions"] == (2, 3) and np.shares_memory(view.source, x)
    index = np.broadcast_to(np.arange(3)[:, None], (3, 7))
    array, steps = origins.where(index)
    assert steps == [1, 0] and np.shares_memory(array, index)
    assert origins.is_zeros(np.broadcast_to(np.float32(0), (3, 4)))
    assert not origins.is_zeros(np.zeros((3, 4), np.float32))


def test_every_override_has_a_rule_of_numpys():
    assert set(native_calls.OVERRIDES) <= set(RULES)
    aval = jax.make_jaxpr(lambda x: x)(floats(2)).jaxpr.invars[0]
    assert RULES["exp"].make({}, [form(aval)], [form(aval)])(floats(3)).shape == (3,)
