"""In-place operations: versions, errors, and gradients of what was overwritten."""

import copy

import pytest

from tests.oracle import both, both_with_text


def leaf(m, *shape):
    return m.arange(6.0).reshape(2, 3).requires_grad_()


ERRORS = {
    "leaf": lambda m: leaf(m).add_(1),
    "view of a leaf": lambda m: leaf(m)[0].mul_(2),
    "item of a leaf": lambda m: leaf(m).__setitem__(0, 1.0),
    "saved": lambda m: _saved(m),
    "shape": lambda m: m.ones(2, 3).add_(m.ones(4, 2, 3)),
    "dtype": lambda m: m.ones(2, dtype=m.int64).add_(1.5),
    "expanded": lambda m: m.ones(1).expand(3).add_(1),
    "overlap": lambda m: _overlap(m),
    "requires_grad of ints": lambda m: m.ones(2, dtype=m.int64).requires_grad_(),
    "out that is read": lambda m: m.kthvalue(x := m.ones(5), 2, out=(x, m.ones(1, dtype=m.int64))),
    "detached view, not a leaf": lambda m: setattr(leaf(m) * 2, "requires_grad", False),
}


def _saved(m):
    x = leaf(m)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def _overlap(m):
    x = m.arange(6.0)
    x[1:].add_(x[:-1])


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    """The exception and its text are PyTorch's."""
    both_with_text(ERRORS[name])


PROGRAMS = {
    "chain": lambda m, x: (x * 2).add_(1).mul_(x).sub_(3),
    "copy": lambda m, x: m.zeros(2, 3).copy_(x * x),
    "item": lambda m, x: _assign(m.zeros(2, 3), (0, slice(1, 3)), x[1, :2]),
    "mask": lambda m, x: _assign(x * 1, x.detach() > 2, 0.0),
    "index": lambda m, x: _assign(x * 1, ([0, 1], [2, 0]), x[0, :2] * 5),
    "fill": lambda m, x: _then(x * 3, lambda y: y[0].fill_(2)),
    "zero": lambda m, x: _then(x * 3, lambda y: y[:, 1].zero_()),
    "relu": lambda m, x: (x - 2).relu_() * x,
    "clamp": lambda m, x: (x * 1).clamp_(1, 4) * x,
    "transpose": lambda m, x: (x * 1).t_().mul_(2),
    "lerp": lambda m, x: (x * 1).lerp_(x * 2, 0.25),
    "masked_fill": lambda m, x: (x * 1).masked_fill_(x.detach() > 3, 1.0) * x,
    "index_add": lambda m, x: m.zeros(3, 3).index_add_(0, m.tensor([0, 2]), x),
    "scatter": lambda m, x: m.zeros(2, 4).scatter_(1, m.tensor([[0, 1, 2], [3, 1, 0]]), x),
}


def _assign(t, index, value):
    t[index] = value
    return t


def _then(t, change):
    change(t)
    return t


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient(name):
    """Values, versions and gradients of programs with writes."""

    def run(m):
        x = leaf(m)
        y = PROGRAMS[name](m, x)
        (y * y).sum().backward()
        return y.detach(), y._version, x.grad

    both(run)


def test_no_grad_and_data():
    def run(m):
        x = leaf(m)
        with m.no_grad():
            x.sub_(1)
            x[0] = 5
        version = x._version
        x.data.mul_(2)
        return x.detach(), version, x._version

    both(run)


def test_result_is_the_tensor_itself():
    def run(m):
        x = m.zeros(2)
        y = x
        y += 1
        return y is x, x.add_(1) is x, x

    both(run)


@pytest.mark.parametrize("call", [
    lambda x: x.unsqueeze_(dim=1), lambda x: x.transpose_(dim0=0, dim1=1), lambda x: x.transpose_(0, dim1=1),
    lambda x: x.swapaxes_(axis0=0, axis1=1), lambda x: x.squeeze_(dim=0), lambda x: x.t_(), lambda x: x.unsqueeze_(),
    lambda x: x.unsqueeze_(dim=0, other=1), lambda x: x.transpose_(0), lambda x: x.unsqueeze_(5),
])
def test_reshaping_in_place_takes_keywords(call):
    both(lambda lib: call(lib.ones(2, 3)), strides=True)


@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 1), (3,)])
def test_addbmm_takes_the_shape_of_the_result(shape):
    """The target is resized; what shared its memory keeps its shape, and gradients flow."""

    def program(m):
        leaf = m.ones(shape, requires_grad=True)
        x = leaf * 2
        alias = x.detach()
        y = x.addbmm_(m.arange(12.0).reshape(2, 2, 3), m.arange(12.0).reshape(2, 3, 2))
        y.sum().backward()
        return x.detach(), y is x, x.stride(), alias, leaf.grad

    both(program)


def test_addbmm_keeps_within_memory():
    """A part of a larger tensor grows over what lies behind it, but not beyond the storage."""

    def program(m, at):
        base = m.ones(6)
        base[at].addbmm_(m.ones(2, 2, 3), m.ones(2, 3, 2))
        return base

    both(lambda m: program(m, 1))
    both(lambda m: program(m, 4))


def _custom(m):
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    return Double.apply


# What is done first with a view whose base has just come to require grad, by a write.
FIRST_USES = {
    "backward": lambda m, v: v.backward(m.ones(3)),
    "grad": lambda m, v: m.autograd.grad(v.sum(), v),
    "custom function": lambda m, v: _custom(m)(v).sum().backward(),
    "checkpoint": lambda m, v: m.utils.checkpoint.checkpoint(lambda a: a * a, v, use_reentrant=True).sum().backward(),
    "numpy": lambda m, v: v.numpy(),
    "dlpack": lambda m, v: v.__dlpack__(),
    "retain_grad": lambda m, v: (v.retain_grad(), v.sum().backward(), v.grad)[-1],
    "deepcopy": lambda m, v: copy.deepcopy(v),
    "copy": lambda m, v: copy.copy(v).requires_grad,
    "out": lambda m, v: m.add(m.ones(3), 1, out=v),
    "resize": lambda m, v: v.resize_(2),
    "is_leaf": lambda m, v: v.is_leaf,
    "autocast": lambda m, v: v.to(m.bfloat16).sum().backward(),
}


@pytest.mark.parametrize("name", FIRST_USES)
def test_a_view_requires_grad_by_a_write_to_its_base(name):
    """It does whatever is asked of it first."""
    def program(m):
        r, x = m.ones(1, requires_grad=True), m.arange(6.0)
        v = x[1:4]
        x.mul_(r + 1)
        return FIRST_USES[name](m, v), r.grad

    both(program)


def _expanded_writes(m):
    mask = m.tensor([[False, True, False, False], [False, False, False, True], [False] * 4])
    yield m.arange(3.0).view(3, 1).expand(3, 4).masked_fill_(mask, 9.0)
    for index, value in (
        ((slice(None), [1, 2]), m.arange(6.0).view(3, 2)), (([2, 0], [1, 3]), m.tensor([5.0, float("nan")])), ([1], 4.0),
    ):
        x = m.arange(3.0).view(3, 1).expand(3, 4)
        x[index] = value
        yield x
    yield m.arange(3.0).expand(2, 3).index_fill_(1, m.tensor([2]), 8)


def test_writes_by_index_into_expanded_tensors():
    """What was written last to one place in memory is there; PyTorch only deprecates it."""
    both(lambda m: list(_expanded_writes(m)))


@pytest.mark.parametrize("call", [
    lambda m, xs: m._foreach_mul_(xs, 2.0), lambda m, xs: m._foreach_sqrt_(xs), lambda m, xs: m._foreach_zero_(xs),
    lambda m, xs: m._foreach_add_(xs, [m.ones(3)] * len(xs)), lambda m, xs: m._foreach_lerp_(xs, xs[::-1], 0.5),
    lambda m, xs: m._foreach_copy_(xs, xs[::-1]), lambda m, xs: m._foreach_addcmul_(xs, xs, xs, 2.0),
])
@pytest.mark.parametrize("last", [
    lambda m: m.ones(3, requires_grad=True), lambda m: m.ones(2, 3, requires_grad=True)[0],
    lambda m: (m.ones(2, 3, requires_grad=True) * 1).unbind()[0], lambda m: m.ones(2, 3).unbind()[0],
])
def test_a_list_is_written_to_as_a_whole_or_not_at_all(call, last):
    def program(m):
        xs = [m.full((3,), 4.0), last(m)]
        try:
            call(m, xs)
        except RuntimeError as error:
            return str(error), xs[0], xs[0]._version
        return [x.detach() for x in xs], [x._version for x in xs]

    both(program)


DETACHED_HISTORIES = {
    "set_": lambda m, x: (x * 2).set_(m.zeros(4)),
    "set_ to what requires grad": lambda m, x: m.zeros(4).set_(x * 2),
    "bernoulli": lambda m, x: x.bernoulli(0.5),
    "squeeze_": lambda m, x: (x.view(1, 4) * 1).squeeze_(),
    "squeeze_ of one": lambda m, x: (x.view(1, 4) * 1).squeeze_(0),
    "squeeze_ of some": lambda m, x: (x.view(1, 4) * 1).squeeze_((0, 1)),
    "as_strided_": lambda m, x: _reshaped_quietly(m, (x * 1).view(2, 2)),
    "a view of no_grad": lambda m, x: _quiet_view(m, x),
    "a view of no_grad is used": lambda m, x: _quiet_view(m, x) * x,
}


def _reshaped_quietly(m, view):
    with m.no_grad():
        view.as_strided_((2,), (1,))
    return view


def _quiet_view(m, x):
    with m.no_grad():
        return x.view(-1)


@pytest.mark.parametrize("name", DETACHED_HISTORIES)
def test_histories_that_lead_nowhere(name):
    """Nodes of operators without a derivative refuse gradients; views that no graph knows require grad all the same."""
    def program(m):
        x = m.arange(1.0, 5.0).requires_grad_()
        y = DETACHED_HISTORIES[name](m, x)
        return y.requires_grad, y.grad_fn and y.grad_fn.name(), x

    def backward(m):
        x = m.arange(1.0, 5.0).requires_grad_()
        DETACHED_HISTORIES[name](m, x).sum().backward()
        return x.grad

    both(program)
    both(backward)


CHOOSING = {
    "max": lambda m, x: x.max(), "sort": lambda m, x: x.sort()[0], "topk": lambda m, x: x.topk(2)[0],
    "clamp": lambda m, x: x.clamp(1, 3), "maximum": lambda m, x: m.maximum(x, m.ones(4)), "amax": lambda m, x: x.amax(),
    "masked_fill": lambda m, x: x.masked_fill(x > 2, 0.0), "median": lambda m, x: x.median(), "relu": lambda m, x: x.relu(),
    "square": lambda m, x: x * x,
}


@pytest.mark.parametrize("name", CHOOSING)
def test_gradients_of_what_chooses_elements(name):
    """They require grad as the result's gradient does: what was chosen by is a constant."""
    def program(m):
        x = m.arange(1.0, 5.0).requires_grad_()
        y = CHOOSING[name](m, x)
        first = m.autograd.grad(y.sum(), x, create_graph=True)[0]
        return first.requires_grad, m.autograd.grad((y * y).sum(), x, create_graph=True)[0].requires_grad, first

    both(program)


PAIRS = {
    "flat complex": lambda m, x: m.view_as_complex(x).reshape(8),
    "row of pairs": lambda m, x: m.view_as_complex(x[1, 1:]),
    "conjugate": lambda m, x: m.view_as_complex(x)[:, 1:].conj(),
    "pairs again": lambda m, x: m.view_as_real(m.view_as_complex(x)[1:])[..., 0],
}


@pytest.mark.parametrize("name", PAIRS)
def test_writes_into_complex_views_of_pairs(name):
    """The gradient of what is written is found in the real gradient of the pairs."""

    def run(m):
        x = m.arange(16.0).double().reshape(2, 4, 2).requires_grad_()
        whole = x.clone()
        view = PAIRS[name](m, whole)
        view.mul_(3)
        (view * view.detach().clone()).sum().abs().backward(retain_graph=True)
        (whole * whole).sum().backward()
        return view.detach().resolve_conj(), x.grad

    both(run)
