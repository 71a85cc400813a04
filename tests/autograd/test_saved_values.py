"""What nodes show of their calls, and hooks on saved tensors: the same programs in both libraries."""

import importlib
import pickle

import pytest

import ftorch
from tests.differential.observing import compare
from tests.oracle import both

_IGNORED = {"version"}

PROGRAMS = {
    "settings": """
x = torch.randn(2, 3, requires_grad=True)
x.sum(0).grad_fn._saved_dim, x.sum(-1, keepdim=True).grad_fn._saved_dim, x.sum(-1, True).grad_fn._saved_keepdim
x.add(x, alpha=3).grad_fn._saved_alpha
x.view(6).grad_fn._saved_self_sym_sizes, x.unsqueeze(-1).grad_fn._saved_dim
F.softmax(x, -1).grad_fn._saved_dim, x.clamp(0, 1).grad_fn._saved_min
x.exp().grad_fn.nope
""",
    "layers": """
x, w, b = torch.rand(2, 3), torch.ones(4, 3), torch.ones(4, requires_grad=True)
def shown(f): return [(n, getattr(f, n)) for n in dir(f) if n.startswith("_saved")]
shown(F.linear(x, w, b).grad_fn), shown(F.linear(x, w.requires_grad_(), b).grad_fn), shown(F.linear(x, w).grad_fn)
shown(F.linear(x.requires_grad_(), w, b).grad_fn), shown(F.linear(x, w).grad_fn), shown(F.linear(x, w.detach(), b).grad_fn)
y = F.linear(x, w, b)
y.grad_fn._raw_saved_mat1.register_hooks(lambda t: t * 2, lambda t: t)
y.sum().backward()
w.grad, y.grad_fn._saved_alpha
y.grad_fn._saved_mat1
""",
    "tensors": """
x = torch.tensor([1., 2.], requires_grad=True)
(x * 2).grad_fn._saved_self, (x * x).grad_fn._saved_self is x, x.exp().grad_fn._saved_result
z = x * x
z.sum().backward()
z.grad_fn._saved_self
""",
    "raw": """
x = torch.ones(3, requires_grad=True)
y = x.exp()
y.grad_fn._raw_saved_result.register_hooks(lambda t: t * 2, lambda t: t)
y.sum().backward()
x.grad
""",
    "inputs": """
x = torch.randn(3, requires_grad=True)
def inputs(t): return [None if n is None else n.name() for n, _ in t.grad_fn.next_functions]
inputs(x * 2), inputs(x + 1), inputs(x ** 2), inputs(x / 2), inputs(1 - x), inputs(x - 1)
inputs(torch.gather(x, 0, torch.tensor([0]))), inputs(torch.where(x > 0, x, 0.)), inputs(x.masked_fill(x > 0, 1.))
inputs(torch.cat([x, x.detach()])), inputs(torch.layer_norm(x, (3,), None, None))
""",
    "hooks": """
log = []
x = torch.ones(2, requires_grad=True)
y = x * 2
h = y.grad_fn.register_hook(lambda gi, go: log.append((len(gi), len(go))))
y.sum().backward()
log
h = x.register_hook(lambda g: torch.ones(3))
(x * 2).sum().backward()
h.remove()
h = x.register_hook(lambda g: 3)
(x * 2).sum().backward()
""",
    "packing": """
def pack(t):
    print("pack", t)
    return t.detach()
a, b, c = [torch.full((2, 2), float(i + 1), requires_grad=True) for i in range(3)]
with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: print("unpack", t) or t): y = a * (b * 2)
y.sum().backward()
with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t): y = torch.lerp(a, b, c), a.exp()
with torch.autograd.graph.saved_tensors_hooks(lambda t: 3, lambda t: t): y = a.exp()
y.sum().backward()
""",
    "several gradients": """
a = torch.rand(2, 3, requires_grad=True)
b = torch.rand(2, 3, requires_grad=True)
c, d = a * b, a * b
h = torch.autograd.graph.register_multi_grad_hook((a, b, c, d), lambda g: print([x is not None for x in g]))
c.sum().backward(retain_graph=True)
c.sum().backward(inputs=(a,), retain_graph=True)
(c + d).sum().backward()
""",
    "edges": """
edge = torch.autograd.graph.get_gradient_edge
x = torch.ones(2, requires_grad=True)
z = x * 3
w = (z * z).sum()
torch.autograd.grad(edge(w), x, retain_graph=True)
torch.autograd.grad(w, edge(z), retain_graph=True)
torch.autograd.backward(edge(w))
x.grad
torch.autograd.grad(edge(x * 2), x)
""",
    "layout": """
p = torch.zeros(2, 3, 4).permute(2, 0, 1).requires_grad_()
(p * 2).sum().backward()
p.grad.stride()
u = torch.ones(2, 3, requires_grad=True)
u.backward(torch.ones(3, 2).t())
u.grad.stride()
""",
    "no setup_context": """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
torch.func.grad(lambda x: Double.apply(x).sum())(torch.ones(2))
""",
    "not differentiable": """
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x
    @staticmethod
    def backward(ctx, g): return g
Same.apply(torch.ones(2, requires_grad=True)).requires_grad
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_pytorch(name):
    assert [d for d in compare(PROGRAMS[name]) if d[0] not in _IGNORED] == []


def test_dir_lists_what_is_saved():
    node = ftorch.ones(2, requires_grad=True).exp().grad_fn
    assert {"_saved_result", "_raw_saved_result"} <= set(dir(node))


@pytest.mark.parametrize("path", ["nn.functional.gelu", "linalg.inv", "add", "Tensor.add", "fft.fft", "special.erf"])
def test_functions_are_pickled_by_name(path):
    function = ftorch
    for part in path.split("."):
        function = getattr(function, part)
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("program", [
    "torch.tensor(300, dtype=torch.uint8)", "torch.tensor([-1], dtype=torch.uint8)",
    "torch.tensor([float('nan')], dtype=torch.int32)", "torch.tensor(1j, dtype=torch.float32)",
    "torch.tensor([1j], dtype=torch.int32)", "torch.tensor([[1, 2], [3, 400]], dtype=torch.int8)",
    "torch.tensor({1: 2})", "torch.tensor(np.array([300]), dtype=torch.uint8)", "torch.tensor(b'a')",
    "int(torch.tensor(1j))", "float(torch.tensor(1j))", "float(torch.tensor(2 + 0j))",
    "F.binary_cross_entropy(torch.tensor([2.]), torch.ones(1))",
])
def test_numbers(program):
    assert compare(program) == []


@pytest.mark.parametrize("library", ["torch", "ftorch"])
def test_gradients_that_go_nowhere_have_any_shape(library):
    """torchdyn's functions return one for times that require none."""
    torch = importlib.import_module(library)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, t):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, torch.ones(2)

    x = torch.ones(3, requires_grad=True)
    Double.apply(x, torch.ones(3)).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="invalid gradient at index 1"):
        Double.apply(x, torch.ones(3, requires_grad=True)).sum().backward()


@pytest.mark.filterwarnings("ignore")
def test_stacked_models_are_apart_from_theirs():
    for library in ("torch", "ftorch"):
        torch, functorch = importlib.import_module(library), importlib.import_module(
            "functorch" if library == "torch" else "ftorch.functorch"
        )
        _, parameters, buffers = functorch.combine_state_for_ensemble([torch.nn.BatchNorm1d(2) for _ in range(3)])
        assert [(tuple(p.shape), p.requires_grad) for p in (*parameters, *buffers)] == [
            ((3, 2), False), ((3, 2), False), ((3, 2), False), ((3, 2), False), ((3,), False),
        ]


def test_a_leaf_that_hooks_gave_is_a_leaf():
    def program(t):
        x = t.arange(3.0, requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda v: v * 2, lambda v: v / 2 + 1):
            y = x * x.exp()
        saved = y.grad_fn._saved_self
        (saved * 3).sum().backward()
        with t.no_grad():
            other = y.grad_fn._saved_other
        found = [type(other.grad_fn).__name__, saved.is_leaf, saved.grad_fn is None, saved.grad is None]
        return found, saved, repr(saved), x.grad

    both(program)
