"""`torch.func`: modules' state as arguments, nested transforms, writes, and what they refuse."""

from __future__ import annotations

_START = '''import copy
from torch.func import *
from torch.func import functional_call
torch.set_default_dtype(torch.float64)
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(3, 3); self.b = nn.Linear(3, 2); self.b.bias = None if tied else self.b.bias
        self.register_buffer("n", torch.zeros(3)); self.scale = nn.Parameter(torch.ones(3))
    def forward(self, x, k=1.0):
        self.n.add_(1); return self.b(torch.tanh(self.a(x * k)) * self.scale + self.n)
tied = False
torch.manual_seed(1)
net = Net()
P, B = dict(net.named_parameters()), dict(net.named_buffers())
x, w = torch.linspace(-1, 1, 3), torch.linspace(0.5, 2, 6).view(2, 3)
X = torch.arange(12.0).view(4, 3) / 10
kept = []
def keep(t): kept.append(t); return t
def loss(p, x): return functional_call(net, p, (x,)).pow(2).sum()
def write(t): t = t.clone(); t[0] = 5; t.mul_(2); return t
def write_in(t): t.mul_(2); return t.sum()
def two(t): return t.sin().sum(), (t * 2, {"k": t.sum()})
def many(t): return t.sin(), {"c": t.cos(), "p": (t * t,)}
'''
_FUNCTIONS = (
    "lambda t: t.sin().sum()", "lambda t: (t ** 3).sum()", "lambda t: t.exp()", "lambda t: w @ t", "write", "lambda t: write(t).sum()", "write_in", "two", "many", "lambda t: t[0] * t[1]", "lambda t: keep(t).sum()", "lambda t: torch.tensor(3.0)", "lambda t: t.detach().sum()", "lambda t: t", "lambda t: 3", "lambda t: None", "lambda t: (t, t * 2)", "lambda t: x.sum()", "lambda t: t.prod() * x.sum()",
    "lambda t: torch.where(t > 0, t, t * 2).sum()", "lambda t: loss(P, t)", "lambda t: functional_call(net, P, (t,))", "lambda t: functional_call(net, (P, {'n': t}), (x,))", "lambda t: functional_call(net, {'a.bias': t}, (x,)).sum()", "lambda t: t.item()", "lambda t: float(t.sum())", "lambda t: t.sum() if t.sum() > 0 else -t.sum()", "lambda t: t.numpy()", "lambda t: t + torch.rand(3)", "lambda t: F.dropout(t, 0.5)", "lambda t: t.view(-1).cumsum(0)", "lambda t: t.nonzero()", "lambda t: t.expand(2, 3).sum(0)",
    "lambda t: t.sort().values", "lambda t: t.max()", "lambda t: t[t > 0].sum()", "lambda t: t.index_select(0, torch.tensor([0, 1])).sum()", "lambda t: t.abs().sqrt().sum()", "lambda t: t.norm()", "lambda t: t.mean(0)", "lambda t: torch.stack([t, t * 2]).sum()", "lambda t: t.long()", "lambda t: (t > 0).sum()", "lambda t: torch.zeros(3).copy_(t).sum()", "lambda t: x.add_(t).sum()", "lambda t: t.requires_grad_().sum()", "lambda t: torch.autograd.grad(t.sin().sum(), t)[0]", "lambda t: [t, {'a': t}]", "lambda t: 'a'", "lambda t, u: t * u", "lambda: x",
    "lambda t: t.to(torch.float32).sum()", "lambda t: (t * 1j).abs().sum()", "lambda t: t.data.sum()", "lambda t: torch.linalg.norm(t.outer(t))", "lambda t: grad(lambda u: (u * t).sin().sum())(t)", "lambda t: grad(lambda u: (u * t).sum())(x)", "lambda t: vmap(lambda u: u * t.sum())(t)", "lambda t: jvp(torch.sin, (t,), (t,))[1]", "lambda t: vjp(torch.sin, t)[1](t)[0]", "lambda t: torch.no_grad()(lambda: t.sin().sum())()", "lambda t: t.softmax(0)[0]",
)
_TRANSFORMS = (
    "grad({f})", "grad({f})", "grad({f}, has_aux=True)", "grad_and_value({f})", "grad_and_value({f}, has_aux=True)", "vmap({f})", "vmap({f})", "vmap({f}, in_dims=1)", "vmap({f}, in_dims=-1)", "vmap({f}, in_dims=None)", "vmap({f}, in_dims=(0,))", "vmap({f}, in_dims=(0, 0))", "vmap({f}, in_dims=5)", "vmap({f}, in_dims=[0])", "vmap({f}, in_dims='a')", "vmap({f}, out_dims=1)", "vmap({f}, out_dims=-1)", "vmap({f}, out_dims=None)", "vmap({f}, out_dims=(0, 1))", "vmap({f}, out_dims=7)", "vmap({f}, out_dims='a')", "vmap({f}, randomness='different')",
    "vmap({f}, randomness='same')", "vmap({f}, randomness='x')", "vmap({f}, chunk_size=2)", "vmap({f}, chunk_size=0)", "vmap({f}, chunk_size=-1)", "jacrev({f})", "jacrev({f}, has_aux=True)", "jacrev({f}, chunk_size=1)", "jacrev({f}, argnums=1)", "jacfwd({f})", "jacfwd({f}, has_aux=True)", "jacfwd({f}, randomness='different')", "hessian({f})", "grad({f}, argnums=(0,))", "grad({f}, argnums=1)", "grad({f}, argnums=(0, 0))", "grad({f}, argnums='a')", "grad({f}, argnums=-1)", "functionalize({f})", "functionalize({f}, remove='mutations_and_views')", "jacrev({f}, argnums=())", "functionalize({f}, remove='x')",
    "lambda t: vjp({f}, t)[0]", "lambda t: vjp({f}, t)[1](torch.ones_like(vjp({f}, t)[0]))", "lambda t: vjp({f}, t, has_aux=True)[2]", "lambda t: jvp({f}, (t,), (torch.ones_like(t),))", "lambda t: jvp({f}, (t,), (torch.ones_like(t),), has_aux=True)", "lambda t: jvp({f}, t, t)", "lambda t: jvp({f}, (t,), (t, t))", "lambda t: jvp({f}, (t,), (t[:1],))", "lambda t: linearize({f}, t)[1](t)", "lambda t: linearize({f}, t)[0]", "lambda t: jvp({f}, (), ())", "lambda t: vjp({f})", "lambda t: vjp({f}, t)[1](3)", "lambda t: vjp({f}, t)[1](t, t)",
)
_ARGUMENTS = ("x", "x", "X", "X", "x.clone().requires_grad_()", "x[0]", "x.float()", "b := x.long()", "x, x", "X, x", "3.0", "[x, x]", "{'a': x}", "x[:0]", "", "X.t()", "x.to(torch.complex128)", "None")
_STATEFUL = (
    "functional_call(net, P, (x,))", "functional_call(net, P, x)", "functional_call(net, {**P, 'zz': x}, (x,))", "functional_call(net, (P, B), (x,))", "functional_call(net, [P, {'n': x}], (x,))", "functional_call(net, P, (x,), {'k': 2.0})", "functional_call(net, {}, (x,))", "functional_call(net, P, (x,), {'z': 1})", "functional_call(net, {'scale': x, 'n': x.clone()}, (x,))", "functional_call(net, {'a.weight': torch.ones(3, 2)}, (x,))",
    "functional_call(net, {'scale': 3}, (x,))", "functional_call(net, {'scale': None}, (x,))", "functional_call(net, P, (x,), strict=True)", "functional_call(net, {**P, **B}, (x,), strict=True)", "functional_call(net, {**P, **B, 'q': x}, (x,), strict=True)", "functional_call(net, P)", "functional_call(lambda x: x, P, (x,))", "functional_call(net, 3, (x,))", "functional_call(net, P, None)", "functional_call(net, {k: v.detach() * 2 for k, v in P.items()}, (x,))", "net.n", "B['n']", "functional_call(net, {'n': B['n'].clone()}, (x,)); net.n",
    "grad(loss)(P, x)", "{k: v.sum() for k, v in grad(loss)({k: v.detach() for k, v in P.items()}, x).items()}", "vmap(loss, (None, 0))(P, X)", "vmap(lambda p, x: functional_call(net, (p, {'n': torch.zeros(3)}), (x,)), (None, 0))(P, X)", "vmap(grad(lambda p, x: functional_call(net, (p, {'n': torch.zeros(3)}), (x,)).sum()), (None, 0))({'scale': x}, X)", "ps, bs = stack_module_state([net, copy.deepcopy(net)])", "stack_module_state([])", "stack_module_state([net, nn.Linear(1, 1)])", "stack_module_state([net, copy.deepcopy(net).eval()])", "stack_module_state(net)", "stack_module_state([nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)])",
    "stack_module_state([nn.Linear(2, 2, bias=False), nn.Linear(2, 2)])", "'ps' in globals() and vmap(lambda p, b, x: functional_call(net, (p, b), (x,)), (0, 0, None))(ps, bs, x)", "'ps' in globals() and vmap(lambda p, b, x: functional_call(net, (p, b), (x,)))(ps, bs, X[:2])", "'ps' in globals() and [(k, v.requires_grad, v.is_leaf) for k, v in ps.items()]", "tied = True; net = Net(); P = dict(net.named_parameters())", "net.a.weight = net.b.weight", "net.eval()", "loss(P, x).backward(); net.scale.grad", "[p.grad is None for p in net.parameters()]", "net.zero_grad()", "kept", "kept and kept[-1] * 2",
    "net2 = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)); vmap(lambda x: net2(x[None]))(X)", "replace_all_batch_norm_modules_(nn.BatchNorm1d(3)).running_mean", "vmap(nn.BatchNorm1d(3, track_running_stats=False))(X.view(2, 2, 3))", "vmap(nn.BatchNorm1d(3))(X.view(2, 2, 3))", "vmap(nn.Dropout(0.5))(X)", "vmap(nn.Dropout(0.5), randomness='different')(X)", "vmap(nn.Dropout(0.5), randomness='same')(X)", "vmap(lambda a: torch.rand(2), randomness='same')(X)", "vmap(lambda a: torch.randn(2), randomness='different')(X)", "vmap(lambda a: torch.rand(2))(X)", "vmap(lambda a: torch.randperm(3), randomness='different')(X)",
    "vmap(lambda a: torch.bernoulli(a.sigmoid()), randomness='different')(X)", "vmap(lambda a: a.clone().normal_(), randomness='different')(X)", "vmap(lambda a: torch.zeros(3).normal_(), randomness='different')(X)", "vmap(lambda a: torch.multinomial(a + 1, 2), randomness='different')(X)", "vmap(lambda a: torch.rand_like(a), randomness='same')(X)", "vmap(lambda a: F.dropout(a, 0.5), randomness='same')(X)", "vmap(lambda a: torch.randint(5, (2,)), randomness='different')(X)", "vmap(lambda a, b: a.copy_(b), (None, 0))(x.clone(), X)", "vmap(lambda a, b: a.copy_(b))(X.clone(), X * 2)", "vmap(lambda a, b: a.add_(b), (0, None))(X.clone(), x)", "X.mul_(1.5)", "x = x * 0.5",
    "vmap(lambda a, b: (a, b), (0, {'k': 1}))(X, {'k': X.t()})", "vmap(lambda a, b: a + b['k'], (0, {'k': 1}))(X, {'k': X.t()})", "vmap(lambda a, b: a + b, (0, 1))(X, X)", "vmap(lambda a, *, k: a + k)(X, k=X)", "vmap(lambda a, k=None: a + k)(X, k=x)", "vmap(lambda a: a)(x[0])", "vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))(x, x)", "vmap(lambda a: vmap(lambda b: a * b)(x))(x)", "vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(X)", "vmap(lambda a: {'q': a}, out_dims={'q': 1})(X)", "vmap(lambda a: a, out_dims=(0, 0))(X)", "debug_unwrap(x) is x",
)


def functional_state(r):
    """Calls of transforms, nested up to three deep, and of modules with state that is handed in."""
    lines = [_START]
    for _ in range(r.randint(3, 8)):
        if r.random() < 0.5:
            lines.append(r.choice(_STATEFUL))
        else:
            call = r.choice(_FUNCTIONS)
            for _ in range(r.choices((1, 2, 3), (5, 4, 1))[0]):
                call = r.choice(_TRANSFORMS).format(f=call) if "{f}" not in call else call
                call = f"({call})"
            lines.append(f"{call}({r.choice(_ARGUMENTS)})")
    lines += ["x, X", "net.n"]
    return "\n".join(lines)
