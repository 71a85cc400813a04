"""Elementwise rules whose operands have dimensions of size 1, or none: what a jaxpr and a size class may give them."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from jax import lax
from jax.extend.core import primitives

from ftorch.eager.host import RULES
from ftorch.eager.host.rules import Form

FLOATS, INTEGERS = ("float32", "bfloat16"), ("int32", "uint8")
NUMBERS = (*FLOATS, *INTEGERS, "complex64")
# {primitive: (number of operands, dtypes)}
EACH = {
    **dict.fromkeys(("add", "add_any", "sub", "mul", "div", "eq", "ne"), (2, NUMBERS)),
    **dict.fromkeys(("max", "min", "lt", "le", "gt", "ge", "rem", "lt_to", "le_to", "eq_to"), (2, FLOATS + INTEGERS)),
    **dict.fromkeys(("and", "or", "xor"), (2, ("bool", *INTEGERS))),
    **dict.fromkeys(("shift_left", "shift_right_arithmetic", "shift_right_logical"), (2, INTEGERS)),
    **dict.fromkeys(("atan2", "nextafter"), (2, FLOATS)),
    **dict.fromkeys(("igamma", "igammac", "polygamma", "zeta"), (2, ("float32",))),
    "pow": (2, (*FLOATS, "complex64")), "mulhi": (2, ("int32", "uint8")), "complex": (2, ("float32", "float64")),
    "clamp": (3, FLOATS + INTEGERS), "regularized_incomplete_beta": (3, ("float32",)),
    "select_n": (3, ("bool", *NUMBERS)),
}
SIZES = ((2, 2, 3), (1, 2, 3), (2, 1, 3), ())


def primitive_of(name):
    known = "add_jaxvals" if name == "add_any" else name
    return getattr(primitives, f"{known}_p", None) or getattr(lax, f"{known}_p")


def operands_of(name, dtype, shapes):
    rng, dtype = np.random.default_rng(len(name)), jax.numpy.dtype(dtype)
    arrays = []
    for shape in shapes:
        values = rng.integers(1, 6, shape) if dtype.kind in "iu" else rng.uniform(0.1, 0.9, shape)
        if name in ("polygamma", "zeta"):
            values = np.round(values * 3) + 2
        arrays.append(np.asarray(values < 0.5 if dtype.kind == "b" else values).astype(dtype))
    return [np.asarray(rng.random(shapes[0]) < 0.5), *arrays[1:]] if name == "select_n" else arrays


def results(rule, arrays, params, expected):
    inputs = [Form(x.dtype, x.ndim) for x in arrays]
    run = rule.make(params, inputs, [Form(expected.dtype, expected.ndim)])
    with np.errstate(all="ignore"):
        return run(*arrays)


@pytest.mark.parametrize("name", EACH)
def test_operands_are_broadcast(name):
    """By the rule that calls a kernel, and by NumPy's: the results are XLA's for operands of one shape."""
    count, dtypes = EACH[name]
    primitive = primitive_of(name)
    installed = RULES[name]
    rules = [installed, *([installed.make.rule] if hasattr(installed.make, "rule") else [])]
    params = {"rounding_mode": None} if name == "div" else {}
    for dtype, shapes in itertools.product(dtypes, itertools.product(SIZES, repeat=count)):
        whole = np.broadcast_shapes(*shapes)
        if whole != SIZES[0]:
            continue
        arrays = operands_of(name, dtype, shapes)
        expected = np.asarray(primitive.bind(*[np.broadcast_to(x, whole).copy() for x in arrays], **params))
        for rule in rules:
            found = results(rule, arrays, params, expected)
            assert (found.dtype, found.shape) == (expected.dtype, whole), (dtype, shapes)
            a, b = (x if x.dtype.kind in "biuc" else x.astype(np.float64) for x in (found, expected))
            np.testing.assert_allclose(a, b, rtol=0.02 if dtype == "bfloat16" else 2e-5, err_msg=f"{dtype} {shapes}")


@pytest.mark.parametrize("shapes", [((), (1, 3), (2, 3)), ((2, 3), (1, 3)), ((), (2, 1), (1, 3), (2, 3))])
def test_choices_of_other_numbers(shapes):
    whole = np.broadcast_shapes(*shapes)
    which, *cases = (np.arange(np.prod(s), dtype=np.float32).reshape(s) + 10 * i for i, s in enumerate(shapes))
    which = which.astype(np.int32) % len(cases)
    rule = RULES["select_n"]
    expected = np.choose(np.broadcast_to(which, whole), [np.broadcast_to(c, whole) for c in cases])
    np.testing.assert_array_equal(results(rule, [which, *cases], {}, expected), expected, strict=True)


def test_no_rule_of_several_operands_is_forgotten():
    """What NumPy broadcasts for one example has to be listed above."""
    x = np.ones((2, 3), np.int32)
    found = set()
    for name in RULES:
        for y in (x, x.astype(np.float32)):
            for count in (2, 3):
                try:
                    run = RULES[name].make({}, [Form(y.dtype, 2)] * count, [Form(y.dtype, 2)])
                    if isinstance(run, np.ufunc) and (run.nin, run.nout) == (count, 1):
                        found.add(name)
                except Exception:  # noqa: BLE001, S112 - a rule of something else
                    continue
    assert len(found) > 10
    assert found <= set(EACH)
