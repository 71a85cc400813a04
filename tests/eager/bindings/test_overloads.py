"""Names with several overloads: what is remembered for types must hold for other values of them."""

import jax
import numpy as np
import pytest
import torch

import ftorch
from tests.oracle import both, both_with_text

# Each list: calls of one name, whose arguments are of the same types but for what the test is about.
CALLS = {
    "one integer or several": [
        lambda lib, x: x.view(6), lambda lib, x: x.view(-1), lambda lib, x: x.view(3, 2),
        lambda lib, x: x.view(2, -1), lambda lib, x: x.view((3, 2)), lambda lib, x: x.view([2, 3]),
        lambda lib, x: x.view(2, 4), lambda lib, x: x.view(lib.int32),
    ],
    "dimensions": [
        lambda lib, x: x.sum(0), lambda lib, x: x.sum(1), lambda lib, x: x.sum(5),
        lambda lib, x: x.sum((0, 1)), lambda lib, x: x.sum((0, 7)), lambda lib, x: x.sum([1]),
        lambda lib, x: x.sum(dim=1, keepdim=True), lambda lib, x: x.sum(dim=0, keepdim=False),
        lambda lib, x: x.sum(axis=1, keepdims=True), lambda lib, x: x.sum(1, dtype=lib.float64),
        lambda lib, x: x.sum(()), lambda lib, x: x.sum([]),
    ],
    "a tensor for a number": [
        lambda lib, x: x.sum(lib.tensor(1)), lambda lib, x: x.sum(lib.tensor(0)),
        lambda lib, x: x.clamp(lib.tensor(0.5)), lambda lib, x: x.clamp(lib.ones(3)),
        lambda lib, x: x.clamp(0.5), lambda lib, x: x.clamp(0.5, 1), lambda lib, x: x.clamp(max=1),
        lambda lib, x: x.clamp(lib.ones(2)),
    ],
    "tensors among integers": [
        lambda lib, x: x.view(lib.tensor(3), -1), lambda lib, x: x.view(lib.tensor(2), lib.tensor(3)),
        lambda lib, x: x.repeat(lib.tensor(2), 1), lambda lib, x: x.view(lib.tensor(3.0), -1),
        lambda lib, x: x.permute(lib.tensor(1), 0),
    ],
    "one tensor for all sizes": [
        lambda lib, x: x[0].repeat(lib.tensor(2)),
        lambda lib, x: x[0].repeat(lib.tensor([2])),
        lambda lib, x: x[0].repeat(lib.tensor([2, 3])),
        lambda lib, x: x[0].repeat(lib.tensor(2.0)),
        lambda lib, x: x.view(lib.tensor(6)),
        lambda lib, x: x.view(lib.tensor([6])),
        lambda lib, x: x.view(lib.tensor([3]), 2),
        lambda lib, x: x.reshape(lib.tensor([[6]])),
        lambda lib, x: x.tile(lib.tensor(2)),
        lambda lib, x: x.flip(lib.tensor([1])),
        lambda lib, x: x[:1, 0].expand(lib.tensor(4)),
        lambda lib, x: x[0].permute(lib.tensor(0)),
        lambda lib, x: x[0].clone().resize_(lib.tensor(2)),
        lambda lib, x: x.clone().resize_(lib.tensor([3]), lib.tensor(2)),
        lambda lib, x: x[0].repeat([lib.tensor([2]), 3]),
        lambda lib, x: lib.max(x[0], lib.tensor([3])),
    ],
    "tensors for fractions": [
        lambda lib, x: lib.isclose(x, x + 1, atol=lib.tensor(1.5)),
        lambda lib, x: lib.isclose(x, x + 1, atol=lib.tensor(2)),
        lambda lib, x: lib.isclose(x, x + 1, atol=1.5),
        lambda lib, x: lib.nn.functional.leaky_relu(-x, lib.tensor(0.5)),
        lambda lib, x: lib.nn.functional.softplus(x, lib.tensor(2)),
        lambda lib, x: lib.nn.functional.pad(x, (1, 1), value=lib.tensor(7)),
        lambda lib, x: lib.manual_seed(0) and lib.normal(lib.tensor(1.0), 2.0, (3,)),
        lambda lib, x: lib.lerp(x, x * 2, lib.tensor([0.5])),
    ],
    "three forms": [
        lambda lib, x: x.max(), lambda lib, x: x.max(1), lambda lib, x: x.max(1, True),
        lambda lib, x: x.max(dim=0, keepdim=True), lambda lib, x: x.max(x.flip(0)),
        lambda lib, x: lib.max(x, other=x * 2), lambda lib, x: x.max(3), lambda lib, x: x.max("0"),
    ],
    "a keyword of Python": [
        lambda lib, x: lib.manual_seed(0) and x.random_(**{"from": 3, "to": 9}),
        lambda lib, x: lib.manual_seed(1) and x.random_(**{"from": 3, "to": 9}),
    ],
    "elements of lists": [
        lambda lib, x: x.permute(1, 0), lambda lib, x: x.permute((0, 1)), lambda lib, x: x.permute(0, 0),
        lambda lib, x: x.repeat(2, 1), lambda lib, x: x.repeat(2, 1, 1), lambda lib, x: x.repeat(*[1] * 10),
        lambda lib, x: x.roll(1, 0), lambda lib, x: x.roll((1, 2), (0, 1)), lambda lib, x: x.roll((1, 2.0), (0, 1)),
    ],
    "results into": [
        lambda lib, x: lib.sum(x, 0, out=lib.empty(3)), lambda lib, x: lib.sum(x, 1, out=None),
        lambda lib, x: lib.sum(x, 1, out=lib.empty(2)),
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_remembered_overload_asks_what_types_do_not_say(name):
    for _ in range(3):  # the first call chooses, the second compiles
        for call in CALLS[name]:
            both(lambda lib, call=call: call(lib, lib.arange(6.0).reshape(2, 3)))


def test_errors_of_remembered_overloads():
    for _ in range(3):
        both_with_text(lambda lib: lib.ones(2, 3).sum(7))
        both_with_text(lambda lib: lib.ones(2, 3).view(4))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.0, 2.5, True, 1j])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "int64", "uint8", "bool"])
def test_powers_by_numbers(exponent, dtype):
    def power(lib):
        x = lib.tensor([0, 1, 2, 3]).to(getattr(lib, dtype))
        return x**exponent, x.pow(exponent), lib.pow(x, exponent)

    both(power)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5])
def test_gradients_of_powers(exponent):
    def slopes(lib):
        x = lib.tensor([0.0, -1.0, 2.0, float("nan")], requires_grad=True)
        y = x**exponent
        (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        second = lib.autograd.grad(first.sum(), x, allow_unused=True)[0] if first.requires_grad else None
        assert y.grad_fn.name() == "PowBackward0"
        x.data.pow_(exponent)
        return y, first, second if exponent not in (0, 1) else None, x

    both(slopes)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.5, -1.0])
@pytest.mark.parametrize("kind", ["tensor of one", "tensor"])
def test_gradients_of_gradients_of_powers(exponent, kind):
    """The derivative of a power of zero is zero."""
    found = []
    for t in (torch, ftorch):
        n = t.tensor(exponent) if kind == "tensor of one" else t.full((3,), exponent)
        x = t.tensor([0.0, 1.0, -2.0], dtype=t.float64, requires_grad=True)
        result = x**n
        for _ in range(3):
            result, = t.autograd.grad(result.sum(), x, create_graph=True)
            found.append(result.tolist())
    assert found[3:] == [pytest.approx(v, nan_ok=True) for v in found[:3]]


def test_common_powers_are_products():
    def text(exponent):
        return str(jax.make_jaxpr(lambda a: (ftorch.from_jax(a) ** exponent).jax())(np.ones(3)))

    assert " pow " not in text(2) and " mul " in text(2)
    assert " pow " in text(2.5)


def test_other_powers_share_a_program():
    x = ftorch.ones(5)
    for exponent in (2.5, 3.5, 4.5, 5.5):
        (x**exponent).sum().item()
    ftorch.jit.stats.reset()
    (x**6.5).sum().item()
    assert ftorch.jit.stats.compilations == 0


_N = np.int64(4)
_SIZES = {
    "view": lambda t: t.arange(24.0).view(-1, _N), "reshape": lambda t: t.arange(24.0).reshape(2, 3, _N),
    "narrow": lambda t: t.arange(24.0).narrow(0, np.int64(1), _N), "unfold": lambda t: t.arange(24.0).unfold(0, _N, _N),
    "unflatten": lambda t: t.arange(24.0).unflatten(0, (6, _N)), "repeat": lambda t: t.arange(3.0).repeat(_N),
    "select": lambda t: t.arange(24.0).view(4, 6).select(np.int64(1), _N), "expand": lambda t: t.ones(1, 2).expand(_N, 2),
    "as_strided": lambda t: t.arange(24.0).as_strided((_N, 2), (np.int64(2), np.int64(1)), _N),
}


@pytest.mark.parametrize("name", _SIZES)
def test_numbers_of_numpy_are_sizes(name):
    x, expected = _SIZES[name](ftorch), _SIZES[name](torch)
    assert x[0].tolist() == expected[0].tolist() and x.stride() == expected.stride()
    assert {type(n) for n in (*x.shape, *x.stride(), x.storage_offset())} == {int}
