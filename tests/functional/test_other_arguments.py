"""Arguments that a transform does not differentiate: what the transforms around know of them stays."""

import pytest
import torch as reference

import ftorch

FIRST = "lambda a, b: (a * b).sin().sum()"
CALLS = [
    "jvp(lambda a: grad(f, 1)(a, b), (a,), (t.ones(2),))", "jvp(lambda b: grad(f)(a, b), (b,), (t.ones(2),))",
    "jvp(lambda a, b: grad(f, 1)(a, b), (a, b), (t.ones(2), t.zeros(2)))", "jacfwd(grad(f, 1), 0)(a, b)",
    "jvp(lambda a: grad_and_value(f, 1)(a, b), (a,), (t.ones(2),))", "jacfwd(jacrev(f, 1), 0)(a, b)",
    "vmap(lambda a: jvp(lambda a: grad(f, 1)(a, b), (a,), (t.ones(2),)))(t.stack([a, b]))",
    "jvp(lambda a: vmap(lambda b: grad(f, 1)(a, b))(t.stack([a, b])), (a,), (t.ones(2),))",
    "jvp(lambda a: grad(lambda b, *, a: f(a, b))(b, a=a), (a,), (t.ones(2),))",
    "jacrev(grad(f), 1)(a, b)", "jacrev(jacrev(f, 1), 0)(a, b)", "grad(lambda b: grad(f)(a, b).sum())(b)",
    "grad(lambda c: vjp(lambda b: b.sin(), b)[1](c)[0].sin().sum())(a)",
]


@pytest.mark.parametrize("call", CALLS)
def test_second_derivatives(call):
    def told(t):
        a, b = t.tensor([1., 2.]), t.tensor([3., 4.])
        found = eval(call, {**vars(t.func), "t": t, "f": eval(FIRST), "a": a, "b": b})
        found = t.utils._pytree.tree_leaves(found)
        return [x.detach().numpy().round(4).tolist() for x in found], [x.requires_grad for x in found]

    assert str(told(ftorch)).replace("-0.0", "0.0") == str(told(reference)).replace("-0.0", "0.0")


def test_weights_from_outside_stay_in_the_graph():
    def told(t):
        w, a, b = t.tensor([2., 3.], requires_grad=True), t.tensor([1., 2.]), t.tensor([3., 4.])
        found = t.func.grad(lambda b: t.func.grad(lambda a, b: (a * b * w).sin().sum())(a, b).sum())(b)
        return t.autograd.grad(found.sum(), w)[0].numpy().round(3).tolist()

    assert told(ftorch) == told(reference)
