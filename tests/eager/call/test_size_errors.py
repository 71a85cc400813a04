"""Errors about sizes are PyTorch's, and cost no tracing for sizes that are new."""

from __future__ import annotations

import jax
import pytest
import torch as reference

import ftorch as torch
from ftorch.eager.call import planning, size_errors

CASES = {
    "matmul": lambda lib, n: lib.ones(3, 4) @ lib.ones(n, 4),
    "mm": lambda lib, n: lib.mm(lib.ones(3, n), lib.ones(4, 4)),
    "linear": lambda lib, n: lib.nn.functional.linear(lib.ones(2, n), lib.ones(3, 4), lib.ones(3)),
    "conv2d": lambda lib, n: lib.nn.functional.conv2d(lib.ones(1, n, 9, 9), lib.ones(4, 5, 3, 3)),
    "cat": lambda lib, n: lib.cat([lib.ones(3, 4), lib.ones(3, n)]),
}


@pytest.mark.parametrize("name", CASES)
def test_new_sizes_are_not_traced(name, monkeypatch):
    function = CASES[name]
    for n in (9, 10):  # a class of errors is known from its first on
        with pytest.raises(RuntimeError):
            function(torch, n)
    traced = []
    for tracer in ("eval_shape", "make_jaxpr"):
        real = getattr(jax, tracer)
        monkeypatch.setattr(jax, tracer, lambda *a, real=real, **k: traced.append(1) or real(*a, **k))
    with pytest.raises(RuntimeError):
        function(torch, 31)  # its arguments are made by classes, which may be traced
    traced.clear()
    with pytest.raises(RuntimeError) as ours:
        function(torch, 31)
    with pytest.raises(RuntimeError) as theirs:
        function(reference, 31)
    assert str(ours.value) == str(theirs.value)
    assert not traced


def test_checks_compute_nothing():
    computed = []

    def kernel(x):
        computed.append("checked")
        jax.numpy.arange(5) + 1
        computed.append("computed")
        raise RuntimeError("behind what is computed")

    size_errors.raise_early(kernel, [torch.ones(3)._ftorch_geometry], [], lambda: None)
    assert computed == ["checked"]
    assert int(jax.numpy.arange(3)[2]) == 2


@pytest.mark.parametrize("name", CASES)
def test_what_was_refused_at_other_sizes_is_not_planned(name, monkeypatch):
    function = CASES[name]
    for n in (9, 10, 31):
        with pytest.raises(RuntimeError):
            function(torch, n)
    refused, promotion_of = [], planning.promotion_of
    names = ("matmul", "mm", "linear", "conv2d", "cat")

    def noting(op, *rest):
        if op.name in names:
            refused.append(op)
        return promotion_of(op, *rest)

    monkeypatch.setattr(planning, "promotion_of", noting)
    for n in (33, 47):
        with pytest.raises(RuntimeError) as ours:
            function(torch, n)
        with pytest.raises(RuntimeError) as theirs:
            function(reference, n)
        assert str(ours.value) == str(theirs.value)
    assert not refused


def test_a_class_of_which_some_sizes_fit():
    """A kernel may be larger than its input or not: the class is the same."""

    def run(lib, n):
        try:
            return lib.nn.functional.conv2d(lib.ones(1, 5, n, 9), lib.ones(4, 5, 7, 4)).shape
        except RuntimeError as error:
            return str(error)

    for n in (6, 11, 10, 6, 13, 8, 15, 6):
        assert run(torch, n) == run(reference, n)


@pytest.mark.parametrize("given", [(3,), (1,), (0,), (3, 2), (2, 3), (1, 3), (2, 1, 3)])
@pytest.mark.parametrize("shape", [(), (3,), (1,), (0,), (2, 3), (1, 3), (2, 1, 3), (2, 0)])
def test_copies_say_which_sizes_do_not_fit(shape, given):
    said = []
    for lib in (torch, reference):
        try:
            said.append(tuple(lib.zeros(shape).copy_(lib.ones(given)).shape))
        except RuntimeError as error:
            said.append(str(error))
    assert said[0] == said[1]
