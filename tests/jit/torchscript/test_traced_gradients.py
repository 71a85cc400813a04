"""Traces of functions with backward passes and transforms: the program computes what these give, for other inputs, too."""

import io

import pytest
import torch

import ftorch

LIBRARIES = (torch, ftorch)


def _retained(t, x):
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad * 1


def _accumulated(t, x):
    x = x * 1
    x.retain_grad()
    (x * x).sum().backward(retain_graph=True)
    (x * 3).sum().backward()
    return x.grad * 2


def _stored(t, x):
    found = []
    y = x * 2
    y.register_hook(lambda g: found.append(g * 3))
    t.autograd.grad((y * y * y).sum(), x)
    return found[0] + 1


def _replaced(t, x):
    y = x * 2
    y.register_hook(lambda g: g * x.detach())
    return t.autograd.grad((y * y).sum(), x)[0]


def _twice(t, x):
    first, = t.autograd.grad((x ** 3).sum(), x, create_graph=True)
    second, = t.autograd.grad((first * first).sum(), x)
    return first + second


def _weights(t):
    return t.tensor([[0.5, -1.0], [2.0, 0.25], [1.5, -0.75]])


def _layers(t, x):
    y = t.nn.functional.linear(x, _weights(t), t.tensor([0.1, 0.2, 0.3])).tanh()
    return t.autograd.grad((t.nn.functional.layer_norm(y, (3,)) * y).softmax(-1)[:, :2].sum(), x)[0]


def _rows(t, x):
    rows = _weights(t)[0] * x
    return t.autograd.grad(((x @ x.t()) @ (x @ rows[0])).sum() + (rows[1] @ x.t()).sum(), x)[0]


def _own(t, x):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * 3 * x

    return t.autograd.grad(Square.apply(x).sum(), x)[0]


def _written(t, x):
    y = x * 2
    y[0] = x[1] * 3
    y.mul_(2)
    return t.autograd.grad((y * y).sum(), x)[0]


def _forward(t, x):
    with t.autograd.forward_ad.dual_level():
        dual = t.autograd.forward_ad.make_dual(x, x.detach() * 2)
        return t.autograd.forward_ad.unpack_dual(dual.sin() * dual).tangent


PROGRAMS = {
    "grad": lambda t, x: t.autograd.grad((x * x).sum(), x)[0],
    "graph": lambda t, x: t.autograd.grad((x * x * x).sum(), x, create_graph=True)[0] * 2,
    "batched": lambda t, x: t.autograd.grad(x.sin().sum(1), x, t.eye(2), is_grads_batched=True)[0] + 1,
    "jacobian": lambda t, x: t.autograd.functional.jacobian(lambda y: y * y, x),
    "hessian": lambda t, x: t.autograd.functional.hessian(lambda y: (y * y * y).sum(), x),
    "retained": _retained, "accumulated": _accumulated, "stored": _stored, "replaced": _replaced, "twice": _twice,
    "layers": _layers, "rows": _rows, "own": _own, "written": _written, "forward": _forward,
    "func.grad": lambda t, x: t.func.grad(lambda y: (y * y).sum())(x),
    "func.hessian": lambda t, x: t.func.hessian(lambda y: (y * y * y).sum())(x),
    "func.jacrev": lambda t, x: t.func.jacrev(lambda y: y.sin() * 2)(x),
    "func.jvp": lambda t, x: t.func.jvp(lambda y: y.sin() * y, (x,), (x * 2,))[1] * 2,
    "func.vjp": lambda t, x: t.func.vjp(lambda y: y.sin() * y, x)[1](x * 3)[0],
    "vmap": lambda t, x: t.func.vmap(lambda y: y.sin() * y)(x),
    "vmap.split": lambda t, x: t.func.vmap(lambda y: y.split(1)[0] * y.unbind(0)[1])(x),
    "vmap.softmax": lambda t, x: t.func.vmap(lambda y: (_weights(t) @ y).softmax(-1), in_dims=1, out_dims=1)(x),
    "vmap.grad": lambda t, x: t.func.vmap(t.func.grad(lambda y: (y * y).prod()))(x),
    "vmap.written": lambda t, x: t.func.vmap(lambda y: (y * 1).mul_(2).add_(y))(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_transforms_are_computed_by_the_program(name):
    function = PROGRAMS[name]
    first, other = [[0.5, -1.0], [2.0, 0.25]], [[-0.3, 1.25], [0.75, -1.5]]
    needs_grad = not name.startswith(("func", "vmap", "forward"))

    def given(t, rows):
        return t.tensor(rows, requires_grad=needs_grad)

    traced = ftorch.jit.trace(lambda x: function(ftorch, x), given(ftorch, first), check_trace=False)
    for rows in (first, other):
        expected = function(torch, given(torch, rows))
        found = traced(given(ftorch, rows))
        torch.testing.assert_close(torch.tensor(found.detach().numpy()), expected.detach())


@pytest.mark.parametrize("name", ["grad", "graph", "twice", "written", "replaced", "rows"])
def test_programs_with_gradients_are_saved(name):
    traced = ftorch.jit.trace(lambda x: PROGRAMS[name](ftorch, x), ftorch.ones(2, 2, requires_grad=True), check_trace=False)
    file = io.BytesIO()
    ftorch.jit.save(traced, file)
    rows = [[-0.3, 1.25], [0.75, -1.5]]
    expected = PROGRAMS[name](torch, torch.tensor(rows, requires_grad=True)).detach()
    for t in LIBRARIES:
        file.seek(0)
        found = t.jit.load(file)(t.tensor(rows, requires_grad=True))
        torch.testing.assert_close(torch.tensor(found.detach().numpy()), expected)


@pytest.mark.parametrize("name", ["grad", "graph", "stored", "vmap"])
@pytest.mark.filterwarnings("ignore")  # of PyTorch: that vmap asks for sizes
def test_graphs_of_gradients_have_pytorchs_operators(name):
    def look(t):
        x = t.ones(2, 2, requires_grad=name != "vmap")
        graph = t.jit.trace(lambda x: PROGRAMS[name](t, x), x, check_trace=False).inlined_graph
        return sorted(n.kind().rstrip("_") for n in graph.nodes() if n.kind().startswith("aten::") and n.kind() != "aten::to")

    theirs, ours = map(look, LIBRARIES)
    assert ours == theirs


def test_the_force_of_an_energy_is_traced():
    """A module that gives the gradient of another's result, with the weights that it has when it is called."""
    def force(t):
        class Force(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.energy = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.SiLU(), t.nn.Linear(3, 1))
                with t.no_grad():
                    for p in self.parameters():
                        p.copy_(t.linspace(-1, 1, p.numel()).reshape(p.shape))

            def forward(self, x):
                return -t.autograd.grad(self.energy(x).sum(), x, create_graph=True)[0]

        return Force()

    model, reference = force(ftorch), force(torch)
    traced = ftorch.jit.trace(model, ftorch.ones(4, 2, requires_grad=True), check_trace=False)
    for m, t in ((model, ftorch), (reference, torch)):
        with t.no_grad():
            m.energy[0].weight.mul_(2)
    found = traced(ftorch.full((4, 2), 0.3, requires_grad=True))
    expected = reference(torch.full((4, 2), 0.3, requires_grad=True))
    torch.testing.assert_close(torch.tensor(found.detach().numpy()), expected.detach())
    found.sum().backward()
    expected.sum().backward()
    for p, q in zip(model.parameters(), reference.parameters()):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(torch.tensor(p.grad.numpy()), q.grad)


def test_what_no_step_computes_is_no_constant():
    layer = ftorch.nn.LSTM(2, 3).requires_grad_(False)

    def f(x):  # the gradient reads what the layer kept inside
        return ftorch.autograd.grad(layer(x)[0].sum(), x)[0]

    with pytest.raises(RuntimeError, match="computed in the trace, but by no operator of TorchScript"):
        ftorch.jit.trace(f, ftorch.ones(2, 2, requires_grad=True), check_trace=False)
    w = ftorch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        ftorch.jit.trace(lambda x: ftorch.autograd.grad((x * w).sum(), x)[0], ftorch.ones(2, requires_grad=True))


def test_compiled_functions_are_not_traced():
    for t in LIBRARIES:
        c = t.compile(lambda x: x.sin(), backend="eager")
        for f in (c, lambda x: c(x) + 1, t.nn.Sequential(t.compile(t.nn.Linear(3, 3), backend="eager"))):
            with pytest.raises(RuntimeError, match="torch.jit.trace a dynamo-optimized function"):
                t.jit.trace(f, t.ones(3))
        assert t.jit.trace(t.compile(lambda x: x + 1, disable=True), t.ones(3))(t.zeros(3)).tolist() == [1, 1, 1]


def _sum(a, b, c=None):
    return a - b


@pytest.mark.parametrize("given", [
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, {}, {"a": 1, "b": 2, "d": 3}, {"a": 1, "b": None}, [1, 2], None,
])
@pytest.mark.parametrize("is_module", [False, True])
def test_example_kwarg_inputs(given, is_module):
    def look(t):
        class Difference(t.nn.Module):
            def forward(self, a, b, c=None):
                return a - b

        f = Difference() if is_module else _sum
        of = {k: 3 if v is None else t.full((2,), float(v)) for k, v in given.items()} if isinstance(given, dict) else given
        try:
            traced = t.jit.trace(f, example_kwarg_inputs=of, check_inputs=[of])
        except Exception as error:  # noqa: BLE001
            return type(error).__name__, str(error)[:80] if not isinstance(given, list) else ""
        return traced(a=t.ones(2), b=t.zeros(2)).tolist(), traced(t.ones(2), t.zeros(2)).tolist()

    assert look(ftorch) == look(torch)
