"""Functions that write to arguments that are not differentiated, and Functions that return and save an input."""

import pytest

from tests.oracle import assert_shows_same


def _copied(x, y):
    y.copy_(x)
    return y


def _into_a_view(y, x, z):
    x[:2] = y
    return x**2 * z.sum()


CALLS = {
    "copied": lambda t, d: d(_copied, argnums=0)(t.arange(2.0), t.ones(2)),
    "into a view": lambda t, d: d(_into_a_view, argnums=(0, 2))(
        t.arange(2.0), t.ones(3), t.ones(2)
    ),
    "scaled": lambda t, d: d(lambda x, y: x * y.mul_(2), argnums=0)(t.arange(2.0), t.ones(2)),
    "captured": lambda t, d: (lambda y: d(lambda x: y.mul_(x))(t.arange(2.0)))(t.ones(2)),
}


@pytest.mark.parametrize("transform", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("call", CALLS)
def test_jacobians(call, transform):
    assert_shows_same(lambda t: CALLS[call](t, getattr(t.func, transform)))


def test_what_was_written_stays():
    def program(t):
        y, z = t.ones(2), t.ones(2)
        t.func.jacfwd(lambda x, y: x * y.mul_(2), argnums=0)(t.arange(2.0), y)
        second = t.func.hessian(lambda x, z: (x * x * z.mul_(3)).sum(), argnums=0)(t.arange(2.0), z)
        return y.tolist(), z.tolist(), second.tolist()

    assert_shows_same(program)


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("dirty", [True, False])
@pytest.mark.parametrize("kept", ["input", "output", "neither"])
@pytest.mark.parametrize("save", ["save_for_forward", "save_for_backward"])
def test_an_input_returned_as_it_is_cannot_be_saved(save, kept, dirty, requires_grad):
    def program(t):
        class Same(t.autograd.Function):
            @staticmethod
            def forward(x):
                return x

            @staticmethod
            def setup_context(ctx, inputs, output):
                if dirty:
                    ctx.mark_dirty(inputs[0])
                if kept != "neither":
                    getattr(ctx, save)(inputs[0] if kept == "input" else output)

            @staticmethod
            def backward(ctx, grad):
                return grad

            @staticmethod
            def jvp(ctx, tangent):
                return tangent.add_(0) if dirty else tangent.view_as(tangent)

        def found(call):
            try:
                return call().tolist()
            except RuntimeError as error:
                return str(error)

        def made():
            return t.tensor(2.0, requires_grad=requires_grad)

        with t.no_grad():
            alone = found(lambda: Same.apply(made())) if not dirty else None
        return (
            found(lambda: t.func.grad(lambda x: Same.apply(x.clone()))(made())),
            found(lambda: t.func.jvp(lambda x: Same.apply(x.clone()), (made(),), (made(),))[1]),
            found(lambda: Same.apply(made().clone())),
            alone,
        )

    assert_shows_same(program, show=lambda r: r)
