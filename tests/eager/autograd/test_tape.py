"""The tape: leaves, hooks, graphs kept and freed, and gradients of gradients."""

import gc
import threading
import weakref

import pytest

import ftorch as ft
from tests.oracle import both, both_with_text


def leaf(m, n=3):
    return m.arange(1.0, n + 1).requires_grad_()


PROGRAMS = {
    "accumulates": lambda m, x: ((x * 2).sum().backward(), (x * x).sum().backward(), x.grad)[2],
    "retain_grad": lambda m, x: _retain(m, x),
    "gradient": lambda m, x: ((x * 2).backward(m.tensor([1.0, 2.0, 3.0])), x.grad)[1],
    "inputs": lambda m, x: _inputs(m, x),
    "grad of grad": lambda m, x: m.autograd.grad(
        m.autograd.grad((x**3).sum(), x, create_graph=True)[0].sum(), x
    )[0],
    "unused": lambda m, x: m.autograd.grad((x * 2).sum(), [x, leaf(m)], allow_unused=True),
    "materialized": lambda m, x: m.autograd.grad(
        (x * 2).sum(), [x, leaf(m)], allow_unused=True, materialize_grads=True
    ),
    "batched": lambda m, x: m.autograd.grad(x * x, x, m.eye(3), is_grads_batched=True)[0],
    "hook": lambda m, x: _hook(m, x),
    "names": lambda m, x: _names((x * 2).sum().exp()),
    "no_grad": lambda m, x: _flags(m, x),
    "detach": lambda m, x: ((x * x.detach()).sum().backward(), x.grad)[1],
    "broadcast": lambda m, x: ((x[:, None] * m.ones(3, 4)).sum().backward(), x.grad)[1],
    "shared": lambda m, x: _shared(x),
    "function": lambda m, x: _function(m, x),
    "saved by functions": lambda m, x: _saved_by_functions(m, x),
    "a gradient of two leaves": lambda m, x: _gradient_of_two_leaves(m, x),
    "a gradient that a hook keeps": lambda m, x: _kept_gradient(m, x, _keep_by_hook),
    "a gradient that a function keeps": lambda m, x: _kept_gradient(m, x, _keep_by_function),
    "a gradient that is a constant": lambda m, x: _kept_gradient(m, x, _give_constant),
    "a gradient seen through a view": lambda m, x: _kept_gradient(m, x, _keep_view),
}


def _gradient_of_two_leaves(m, x):
    y = leaf(m)
    (x + y).sum().backward()
    y.grad.mul_(5)
    return x.grad, y.grad


def _kept_gradient(m, x, keep):
    """Writes to a leaf's gradient and looks at what others kept of it."""
    kept = []
    (keep(m, x, kept) * m.tensor([1.0, 2.0, 3.0])).sum().backward()
    x.grad.add_(100)
    return x.grad, kept


def _keep_by_hook(m, x, kept):
    x.register_hook(kept.append)
    return x


def _saver(m, kept, keep):
    class Identity(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return keep(grad * 2, kept)

    return Identity.apply


def _keep_by_function(m, x, kept):
    return _saver(m, kept, lambda grad, kept: kept.append(grad) or grad)(x)


def _keep_view(m, x, kept):
    return _saver(m, kept, lambda grad, kept: kept.append(grad[1:]) or grad)(x)


def _give_constant(m, x, kept):
    kept.append(m.ones(3))
    return _saver(m, kept, lambda grad, kept: kept[0])(x)


def _retain(m, x):
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, x.grad


def _inputs(m, x):
    y = leaf(m)
    (x * y).sum().backward(inputs=[y])
    return x.grad, y.grad


def _hook(m, x):
    y = x * 2
    seen = []
    handle = y.register_hook(lambda g: (seen.append(g.clone()), g * 10)[1])
    (y * y).sum().backward()
    handle.remove()
    return seen, x.grad


def _names(y):
    names, node = [], y.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def _flags(m, x):
    with m.no_grad():
        a = x * 2
        with m.enable_grad():
            b = x * 2
    with m.set_grad_enabled(False):
        c = x * 2
    return a.requires_grad, b.requires_grad, c.requires_grad, m.is_grad_enabled()


def _shared(x):
    y = x * 2
    z = y + y * y + y.sin()
    z.sum().backward()
    return x.grad


def _function(m, x):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    first = m.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)[0]
    return first.detach(), m.autograd.grad(first.sum(), x)[0]


def _saved_by_functions(m, x):
    """Whether what a function saved is itself in backward, with its place in the graph."""
    seen = []

    class Product(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b, out := a * b)
            return out

        @staticmethod
        def backward(ctx, grad):
            a, b, out = ctx.saved_tensors
            seen.append([(t.requires_grad, t.is_leaf, t is x, t is twice) for t in (a, b, out)])
            return grad * b, grad * a

    twice = x * 2
    out = Product.apply(twice, x)
    out.sum().backward(retain_graph=True)
    m.autograd.grad(out.sum(), x, create_graph=True)
    return seen, x.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    both(lambda m: PROGRAMS[name](m, leaf(m)))


ERRORS = {
    "not scalar": lambda m: (leaf(m) * 2).backward(),
    "no graph": lambda m: m.ones(1).sum().backward(),
    "twice": lambda m: [y.backward() for y in [leaf(m).exp().sum()] * 2],
    "unused": lambda m: m.autograd.grad((leaf(m) * 2).sum(), leaf(m)),
    "shape of the gradient": lambda m: (leaf(m) * 2).backward(m.ones(4)),
    "numpy": lambda m: leaf(m).numpy(),
    "deepcopy": lambda m: __import__("copy").deepcopy(leaf(m) * 2),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    both_with_text(ERRORS[name])


def _saved_then(write):
    """``write`` after a square has saved ``x`` and a view of it; the error names what wrote."""

    def run(m, saves_the_view):
        x = leaf(m) * 2
        view = x[:2]
        y = (view if saves_the_view else x) ** 2
        write(m, x, view)
        y.sum().backward()

    return run


def _without_grad(m, x):
    with m.no_grad():
        x.add_(1)


WRITES = {
    "the tensor": lambda m, x, view: x.add_(1),
    "a view": lambda m, x, view: view.mul_(2),
    "a view of a view": lambda m, x, view: view[:1].exp_(),
    "an assignment": lambda m, x, view: x.__setitem__(0, 5.0),
    "without a history": lambda m, x, view: _without_grad(m, x),
    "a history, then none": lambda m, x, view: (x.exp_(), _without_grad(m, x)),
}


@pytest.mark.parametrize("saves_the_view", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_a_saved_tensor_was_written_to(name, saves_the_view):
    both_with_text(lambda m: _saved_then(WRITES[name])(m, saves_the_view))


def test_a_saved_result_was_written_to():
    def run(m):
        y = leaf(m).exp()
        y.add_(1)
        y.sum().backward()

    both_with_text(run)


def test_a_saved_constant_was_written_to():
    def run(m):
        w, constant = leaf(m), m.ones(3)
        y = w * constant
        constant.add_(w)
        y.sum().backward()

    both_with_text(run)


def test_a_graph_of_100000_nodes():
    x = ft.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.item() == 1
    del y  # nor does freeing it recurse


def test_graphs_are_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        x = ft.ones(3, requires_grad=True)
        y = x.exp() * 2
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


def test_backward_from_several_threads():
    x = ft.ones(2, requires_grad=True)

    def work():
        for _ in range(10):
            (x * x).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.tolist() == [80, 80]
