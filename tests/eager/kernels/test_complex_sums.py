"""Reductions of complex numbers into a real dtype take the real parts, and JAX's warning of that is not the user's."""

import warnings

import pytest

import ftorch
from tests.oracle import both, said


@pytest.mark.parametrize("dtype", ["int64", "float32", "float16", "uint8"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod", "softmax", "log_softmax"])
def test_real_results(name, dtype):
    def program(t):
        dims = (0,) if "cum" in name or "soft" in name else ()
        return getattr(t, name)(t.tensor([1 + 2j, 3 - 1j]), *dims, dtype=getattr(t, dtype))

    assert not said(ftorch, program, DeprecationWarning)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(program)
