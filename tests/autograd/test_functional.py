"""``torch.autograd.functional``: values, structures and errors as in PyTorch."""

import pytest
import torch
import torch.autograd.functional  # noqa: F401

from ..oracle import assert_shows_same

FUNCTIONS = {
    "double": lambda t: lambda x: x * 2,
    "sum": lambda t: lambda x: x.sum(),
    "cubes": lambda t: lambda x: (x**3).sum(),
    "sine": lambda t: lambda x: x.sin() * x.sum(),
    "constant": lambda t: lambda x: t.ones(2),
    "pair": lambda t: lambda x: (x * 2, x.sum()),
    "number": lambda t: lambda x: 1,
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["jacobian", "hessian"])
def test_matrices(name, function, create_graph, strict):
    def program(t):
        x = t.tensor([1.0, 2.0])
        found = getattr(t.autograd.functional, name)(
            FUNCTIONS[function](t), x, create_graph=create_graph, strict=strict
        )
        leaves = found if isinstance(found, tuple) else (found,)
        return [leaf.detach() for leaf in leaves], [leaf.requires_grad for leaf in leaves]

    assert_shows_same(program)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
def test_products(name, function, strict):
    def program(t):
        x = t.tensor([1.0, 2.0])
        if name == "vjp" and function in ("sum", "cubes"):
            v = t.tensor(2.0)
        elif name == "vjp" and function == "pair":
            v = (t.tensor([3.0, 4.0]), t.tensor(5.0))
        else:
            v = t.tensor([3.0, 4.0])
        return getattr(t.autograd.functional, name)(FUNCTIONS[function](t), x, v, strict=strict)

    assert_shows_same(program)


@pytest.mark.parametrize("program", [
    lambda t, f, x: f.jacobian(lambda a, b: (a * b, b.sum()), (x, x)),
    lambda t, f, x: f.jacobian(lambda a, b: a * b, (x, x), vectorize=True),
    lambda t, f, x: f.jacobian(lambda a: a.sin(), x, vectorize=True),
    lambda t, f, x: f.jacobian(lambda a: a.sin(), x, vectorize=True, strategy="forward-mode"),
    lambda t, f, x: tuple(map(tuple, f.jacobian(
        lambda a, b: (a * b, b.sum()), (x, x), vectorize=True, strategy="forward-mode"))),
    lambda t, f, x: f.hessian(lambda a, b: (a * b).sum(), (x, x)),
    lambda t, f, x: f.hessian(lambda a: (a**3).sum(), x, vectorize=True),
    lambda t, f, x: f.hessian(lambda a: (a**3).sum(), x, vectorize=True,
                              outer_jacobian_strategy="forward-mode").detach(),
    lambda t, f, x: f.jacobian(lambda a: a, x, strategy="forward-mode"),
    lambda t, f, x: f.jacobian(lambda a: a, x, strategy="other", vectorize=True),
    lambda t, f, x: f.jacobian(lambda a: a, x, strict=True, vectorize=True),
    lambda t, f, x: f.jacobian(lambda a: a, 3),
    lambda t, f, x: f.jacobian(lambda a: a, [x, 3]),
    lambda t, f, x: f.vjp(lambda a: a * 2, x),
    lambda t, f, x: f.jvp(lambda a: a * 2, x),
    lambda t, f, x: f.vjp(lambda a: a * 2, x, t.ones(3)),
    lambda t, f, x: f.vjp(lambda a: a * 2, x, (x, x)),
    lambda t, f, x: f.vjp(lambda a, b: a * 2, (x, x), x, strict=True),
    lambda t, f, x: f.jvp(lambda a, b: (a * 2, b.sum()), (x, x), (x, x)),
    lambda t, f, x: f.hvp(lambda a, b: (a * b).sum(), (x, x), (x, x)),
    lambda t, f, x: f.vhp(lambda a, b: (a * b.exp()).sum(), (x, x), (x, x)),
])
def test_forms(program):
    assert_shows_same(lambda t: program(t, t.autograd.functional, t.tensor([1.0, 2.0])))


def test_results_can_be_differentiated():
    def program(t):
        x = t.tensor([1.0, 2.0], requires_grad=True)
        t.autograd.functional.jacobian(lambda a: a**3, x, create_graph=True).sum().backward()
        return x.grad

    assert_shows_same(program)


PRIVATE = {  # libraries import these (torchmin's Newton methods)
    "basis": "f._construct_standard_basis_for((x, y), (2, 3))",
    "tuples": "f._as_tuple(x), f._as_tuple([x]), f._as_tuple_nocheck(1), f._as_tuple(x, 'inputs', 'vjp')",
    "inputs": "[(a.requires_grad, a.is_leaf) for c in (True, False) for a in f._grad_preprocess((x, y), c, not c)]",
    "results": "f._grad_postprocess(((x * 2,), (x,)), False), f._grad_postprocess((x * 2,), True)",
    "unpacked": "f._tuple_postprocess(((x, y), (y, x)), (True, False)), f._tuple_postprocess((x,), False)",
    "gradients": "f._autograd_grad(((x * 2).sum(), y.sum()), (x,), create_graph=True)",
}


@pytest.mark.parametrize("program", PRIVATE.values(), ids=PRIVATE)
def test_parts(program):
    assert_shows_same(lambda t: eval(program, {
        "f": t.autograd.functional, "x": t.ones(2, requires_grad=True), "y": t.ones(1, 3)}))
