"""Nested transforms of functions of vectors, plain, compiled, mapped and differentiated."""

# ruff: noqa: E501

from __future__ import annotations

import re

_START = '''from torch.func import grad, vmap, jvp, vjp, jacfwd, jacrev, hessian, functional_call, linearize, grad_and_value
from torch.utils.checkpoint import checkpoint
torch.set_default_dtype(torch.float64)
class Square(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x): return x * x
    @staticmethod
    def setup_context(ctx, inputs, output): ctx.save_for_backward(*inputs); ctx.save_for_forward(*inputs)
    @staticmethod
    def backward(ctx, g): (x,) = ctx.saved_tensors; return 2 * x * g
    @staticmethod
    def jvp(ctx, t): (x,) = ctx.saved_tensors; return 2 * x * t
def written(x): y = x * 2; y[0] = x[1]; y[1:].mul_(x[2]); return y
def looped(x):
    y = x
    for i in range(3): y = torch.sin(y) + i * x
    return y
def put(x): return torch.zeros(3).index_add(0, torch.tensor([0, 2, 0]), x)
layer = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).requires_grad_(False)
A = torch.tensor([[2.0, 0.5, 0.1], [0.3, 1.5, -0.2], [0.0, 0.4, 1.0]])
t = torch.tensor([0.3, -0.5, 0.2])
'''
# Functions of a vector of three that give one.
VECTORS = [
    "x.sin()", "x * x.flip(0)", "A @ x", "x.cumsum(0)", "x.exp() / (1 + x * x)", "torch.where(x > 0, x * 2, x ** 3)", "x.sort()[0]", "written(x)", "looped(x)",
    "Square.apply(x)", "put(x)", "layer(x)", "x[torch.tensor([2, 0, 0])] * x", "F.softmax(x, 0)", "torch.linalg.solve(A, x)", "x.clamp(min=0.1).log()",
    "torch.outer(x, x).sum(1)", "torch.stack([x[0] * x[1], x[2].cos(), x.prod()])", "x.roll(1) - x.mean()", "F.layer_norm(x, (3,))", "x.view(3, 1).expand(3, 2).prod(1)",
    "torch.einsum('i,ij,j->i', x, A, x)", "x.masked_fill(x < 0.2, 1.0) * x", "torch.cat([x[1:], x[:1] ** 2])", "x.cumprod(0)", "torch.linalg.inv(A + torch.diag(x * 0.1)) @ x",
    "functional_call(layer, {'0.bias': torch.cat([x, x[:1]])}, (t,))", "F.conv1d(x.view(1, 1, 3), t.view(1, 1, 3), padding=1).view(3)", "x.detach() * x", "x.logcumsumexp(0)",
    "torch.atan2(x, t)", "x.scatter(0, torch.tensor([1]), x[:1].exp())", "x.gather(0, x.argsort())", "F.gelu(x) + F.silu(x)", "x.sigmoid().logit()", "torch.special.i0(x)",
    "x.unfold(0, 2, 1).sum(1).repeat(2)[:3]", "torch.tril(torch.outer(x, t)) @ x", "torch.fft.rfft(x).abs().sum() * x", "x.abs().sqrt()", "x.norm() * x",
    "torch.linalg.det(A + torch.diag(x)) * t", "torch.linalg.eigvalsh(A + A.T + torch.diag(x))", "x.maximum(t)", "x.topk(2)[0].sum() * t", "x.std() + x",
]
SCALARS = ["(V).sum()", "((V) * t).sum()", "(V).pow(2).mean()", "(V).norm()", "(V)[1]", "(V).logsumexp(0)", "(V).prod()", "F.mse_loss(V, t)", "(V).max()", "(V) @ (V)"]
# (what it takes, what it gives, text): V: a vector, S: a number, M: a matrix.
STEPS = [
    ("S", "V", "grad(F)(x)"), ("S", "V", "jacrev(F)(x)"), ("S", "V", "jacfwd(F)(x)"), ("S", "M", "hessian(F)(x)"), ("S", "V", "grad_and_value(F)(x)[0]"),
    ("S", "V", "jvp(grad(F), (x,), (t,))[1]"), ("S", "V", "vjp(F, x)[1](torch.tensor(2.0))[0]"), ("S", "S", "jvp(F, (x,), (t,))[1] + F(x)"), ("S", "S", "linearize(F, x)[1](t)"),
    ("V", "M", "jacrev(F)(x)"), ("V", "M", "jacfwd(F)(x)"), ("V", "V", "jvp(F, (x,), (t,))[1]"), ("V", "V", "vjp(F, x)[1](t)[0]"), ("V", "V", "linearize(F, x)[1](x)"),
    ("V", "V", "jvp(lambda z: vjp(F, z)[1](t)[0], (x,), (t * 2,))[1]"), ("V", "M", "vmap(F)(torch.stack([x, x * 2, t]))"), ("V", "M", "vmap(F, out_dims=1)(torch.stack([x, x.sin(), t], 1).T)"),
    ("V", "M", "vmap(lambda v: vjp(F, x)[1](v)[0])(A)"), ("V", "M", "vmap(lambda v: jvp(F, (x,), (v,))[1], in_dims=1)(A)"), ("S", "V", "vmap(grad(F))(torch.outer(t, x)).sum(0)"),
    ("S", "V", "vmap(F)(torch.outer(x, t))"), ("V", "M", "vmap(F, chunk_size=2)(A * x)"), ("M", "V", "F(x) @ x"), ("M", "V", "F(x).diagonal()"), ("M", "S", "F(x).pow(2).sum()"),
    ("M", "V", "vmap(lambda r: r * x.sum())(F(x)).sum(1)"), ("V", "S", "(F(x) * x).sum()"), ("V", "V", "checkpoint(F, x, use_reentrant=False)"), ("S", "V", "grad(lambda a, b: F(a * b) + b.sum(), 1)(x, t)"),
    ("V", "V", "F(x.detach()) + x"), ("S", "V", "torch.autograd.functional.jacobian(F, x, create_graph=True)"),
    ("V", "V", "jacrev(lambda a, b: F(a) * b, argnums=(0, 1))(x, t)[1].sum(0) + x"), ("S", "M", "jacfwd(jacrev(F))(x)"), ("S", "M", "jacrev(jacrev(F))(x)"), ("S", "M", "jacrev(jacfwd(F))(x)"),
]
ENDS = [
    "f(x)", "vmap(f)(X)", "vmap(f, in_dims=1)(X)", "x.grad if (f(x).sum().backward(), 1)[1] else 0", "torch.autograd.grad(f(x).sum(), x, create_graph=True)", "jvp(f, (x,), (t,))",
    "torch.autograd.grad(vmap(f)(X.requires_grad_()).sin().sum(), X)", "Made.by(f)(x)", "Made.by(f, backend='eager')(x)", "Made.by(vmap(f))(X)", "vmap(vmap(f))(torch.stack([X, X * 2]))",
    "torch.autograd.grad(Made.by(f)(x).sum(), x)", "Made.by(lambda v: torch.autograd.grad(f(v).sum(), v)[0])(x)",
]


def transforms(random):
    """The text of a program; values that PyTorch refuses are refused here, too."""
    first = random.choice(VECTORS)
    for _ in range(random.randint(0, 2)):
        first = f"(lambda x: {random.choice(VECTORS)})({first})"
    lines = [_START, "class Made:", "    def by(f, **how): return torch.compile(f, **how) if torch.__name__ == 'ftorch' else f",
             "x, X = torch.tensor([0.4, 1.2, -0.7]).requires_grad_(), torch.linspace(-1, 1.5, 9).view(3, 3)",
             f"f0 = lambda x: {first}"]
    kind, last = "V", 0
    for _ in range(random.randint(1, 4)):
        if kind == "V" and random.random() < 0.4:
            text, kind = random.choice(SCALARS).replace("V", f"f{last}(x)"), "S"
        else:
            _, kind, text = random.choice([s for s in STEPS if s[0] == kind])
            text = re.sub(r"\bF\b(?!\.)", f"f{last}", text)
        last += 1
        lines.append(f"f{last} = lambda x: {text}")
    lines.append(f"f = f{last}")
    lines += [f"r{n} = {end}" for n, end in enumerate(random.sample(ENDS, 4))]
    return "\n".join(lines) + "\n"
