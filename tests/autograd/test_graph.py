"""``autograd.graph``: hooks of saved tensors, and writes to what was saved."""

import collections

import pytest

import ftorch as ft
from tests.oracle import LIBRARIES, both, both_with_text, outcome


def _hooked(m, function, power):
    x = m.tensor([1.0, 2.0], requires_grad=True)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = (function(x) ** power).sum()
    (first,) = m.autograd.grad(y, x, create_graph=True)
    return first.detach(), m.autograd.grad(first.sum(), x, allow_unused=True)


@pytest.mark.parametrize("power", [2, 3])
@pytest.mark.parametrize("function", [lambda x: x, lambda x: x * 3])
def test_backward_uses_what_hooks_give(function, power):
    """Also for a leaf, and in the gradient's own graph."""
    both(lambda m: _hooked(m, function, power))


def _results(m):
    x = m.ones(2, 3, requires_grad=True)
    y = x.clone()
    z = (y**2).sum()
    y.sin_()
    z.backward()
    return x.grad


def _leaf(m):
    x = m.ones(3, requires_grad=True)
    y = (x**3).sum()
    with m.no_grad():
        x.add_(1)
    (first,) = m.autograd.grad(y, x, create_graph=True)
    return first.detach(), m.autograd.grad(first.sum(), x)


def _saved_result(m):
    x = m.ones(3, requires_grad=True)
    y = (x * 2).exp()
    product = y * y
    y.add_(1)
    return m.autograd.grad((product + y).sum(), x)


def _views(m):
    x = m.arange(3.0).requires_grad_()
    base = x * 2
    view = base[:2]
    out = (view**2).sum() + base.exp().sum()
    base.mul_(3)
    view.add_(1)
    return m.autograd.grad(out, x, retain_graph=True), m.autograd.grad(base.sum(), x)


def _constant(m):
    x, constant = m.ones(3, requires_grad=True), m.arange(3.0)
    y = (x * constant).sum()
    constant.zero_()
    return m.autograd.grad(y, x)


@pytest.mark.parametrize("program", [_results, _leaf, _saved_result, _views, _constant])
def test_saved_tensors_may_be_written_to(program):
    def run(m):
        with m.autograd.graph.allow_mutation_on_saved_tensors():
            return program(m)

    both(run)


def _saved_before(m):
    y = m.ones(3, requires_grad=True).clone()
    z = (y**2).sum()
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        y.sin_()
        z.backward()


def _backward_outside(m):
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        y = (m.ones(3, requires_grad=True) ** 2).sum()
    y.backward()


def _backward_after_clear(m):
    with m.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = (m.ones(3, requires_grad=True) ** 2).sum()
        context.clear()
        y.backward()


def _nested(m):
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        with m.autograd.graph.allow_mutation_on_saved_tensors():
            pass


@pytest.mark.parametrize("program", [_saved_before, _backward_outside, _backward_after_clear, _nested])
def test_errors(program):
    both_with_text(program)
    both(_nothing)  # and the next context works


def _nothing(m):
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        return _results(m)


def test_what_was_saved_goes_with_the_graph():
    with ft.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = (ft.ones(3, requires_grad=True) ** 2).sum()
        assert len(context._kept) == 1
        del y
        assert not context._kept


_INPUTS = {
    "dict": lambda m, x, y: {"x": x, "y": y}, "unused": lambda m, x, y: {"x": x, "z": m.ones(1, requires_grad=True)},
    "empty": lambda m, x, y: {}, "ordered": lambda m, x, y: collections.OrderedDict(x=x),
    "of lists": lambda m, x, y: {"x": [x]}, "numbers": lambda m, x, y: [x, 3], "none": lambda m, x, y: {"x": None},
    "without gradients": lambda m, x, y: {"x": x, "y": m.ones(1)}, "a generator": lambda m, x, y: (v for v in (x, y)),
}


@pytest.mark.parametrize("inputs", list(_INPUTS))
def test_gradients_of_a_dict(inputs):
    """They are a dict of its keys (`torchopt`); other mappings are refused, as is what is no tensor."""

    def found(m, **more):
        x, y = m.tensor([1.0, 2.0], requires_grad=True), m.tensor([3.0, 4.0], requires_grad=True)
        return m.autograd.grad((x * y).sum(), _INPUTS[inputs](m, x, y), **more)

    def accumulated(m):
        x, y = m.tensor([1.0, 2.0], requires_grad=True), m.tensor([3.0, 4.0], requires_grad=True)
        m.autograd.backward((x * y).sum(), inputs=_INPUTS[inputs](m, x, y))
        return x.grad, y.grad

    for call in (found, lambda m: found(m, allow_unused=True), lambda m: found(m, materialize_grads=True), accumulated):
        (both if outcome(call, LIBRARIES[1])[1] is None else both_with_text)(call)
