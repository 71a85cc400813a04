"""Programs that once differed from PyTorch: each is run in both libraries, statement by statement."""

# ruff: noqa: E501

MENDED = [
    """
x = torch.zeros(2, 3)
r = torch.arange(0, 4, out=x.narrow(1, 1, 2))
""",
    """
x = torch.zeros(2, 4)
r = torch.arange(0, 4, out=x.narrow(1, 1, 2))
y = torch.zeros(4, 4)
torch.linspace(0, 1, 4, out=y.t()[1])
torch.logspace(0, 1, 4, out=y[:, 2])
torch.range(0, 3, out=y[::1, 3])
torch.arange(4, out=y.t()[::2].t()[0:2])
z = torch.zeros(3, 4)
torch.linspace(0, 1, 4, out=z[:, ::3][:2])
torch.eye(2, out=z[:2, ::2][:, :2])
torch.full((2, 2), 5., out=z[1:, 1:3])
torch.ones(2, 2, out=z[:2, 2:])
torch.randperm(4, out=torch.zeros(8, dtype=torch.int64)[::2])
w = torch.zeros(8, dtype=torch.int64)
torch.randperm(4, out=w[::2]).sum()
w.sum()
torch.add(torch.ones(3), 1, out=z[0, ::2])
z
""",
    """
from torch.func import grad
def f(x):
    with torch.no_grad():
        c = x ** 3
    return x ** 3 - c
r = grad(f)(torch.tensor(1.5))
def g(x):
    with torch.no_grad():
        shift = grad(lambda y: y ** 3)(x)
    return x ** 3 - shift
r2 = grad(g)(torch.tensor(1.5))
x = torch.tensor(1.5, requires_grad=True)
with torch.no_grad():
    r3 = grad(lambda y: y ** 3)(x)
""",
    """
from torch.func import grad
c = torch.zeros(3)
def f(x):
    c.add_(x)
    return (x * c).sum()
r = grad(f)(torch.ones(3))
c
""",
    """
import copy
x = torch.arange(3.)
y = copy.copy(x)
y[0] = 9
x
""",
    """
a = torch.ones(3, requires_grad=True) * 1
a.retain_grad()
a.mul_(2)
a.sum().backward()
a.grad
""",
    """
x = torch.ones(3, requires_grad=True)
y = x.expand(2, 3)
z = torch.as_strided(x, (2, 2), (1, 1))
z.sum().backward()
x.grad
b = torch.ones(4, requires_grad=True)
torch.as_strided(b.expand(3, 4), (3, 4), (0, 1)).sum().backward()
b.grad
e = torch.arange(3.).requires_grad_()
torch.as_strided(e.expand(3, 3), (2,2), (1,1)).sum().backward()
e.grad
""",
    """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(2))
    def forward(self, x):
        self.b = self.b + x
        return self.b * 2
m = M()
d = {"b": torch.ones(2)}
r = torch.func.functional_call(m, d, (torch.ones(2),))
d
m.b
""",
    """
w = torch.randn(4, 2, requires_grad=True)
i = torch.tensor([0, 1])
g = w.grad
""",
    """
inf = math.inf
torch.special.gammaincc(torch.tensor(inf), torch.tensor(inf))
torch.special.gammainc(torch.tensor(inf), torch.tensor(inf))
""",
    """
x = torch.tensor([-128., 127., -128.7, 255., 256., 300., -1., -0.5, 1e10, -1e10, 3e9, 2.**31, 2.**63, 1e20, -1e20, 70000., -70000.])
for d in [torch.uint8]:
    pass
x.to(torch.uint8)
x.to(torch.int8)
x.to(torch.int16)
x.to(torch.int32)
x.to(torch.int64)
x.double().to(torch.uint8)
x.double().to(torch.int8)
x.double().to(torch.int16)
x.double().to(torch.int32)
x.double().to(torch.int64)
x.to(torch.uint16)
x.to(torch.uint64)
x.half().to(torch.uint8)
x.half().to(torch.int32)
x.bfloat16().to(torch.int8)
y = torch.tensor([math.nan, math.inf, -math.inf])
y.to(torch.uint8)
y.to(torch.int8)
y.to(torch.int16)
y.to(torch.int32)
y.to(torch.int64)
y.double().to(torch.int64)
y.double().to(torch.int32)
y.half().to(torch.int64)
""",
    """
F.max_unpool1d(torch.ones(1, 1, 2), torch.tensor([[[0, 9]]]), 2)
""",
    """
src = torch.ones(3)
src.scatter_(0, torch.tensor([0, 1, 2]), src)
""",
    """
torch.all(torch.ones(2, 2), 0, out=torch.empty(2))
torch.sum(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.prod(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.any(torch.ones(2, 2), 0, out=torch.empty(2))
torch.any(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.uint8))
torch.all(torch.ones(2, 2), out=torch.empty((), dtype=torch.int64))
torch.mean(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.cumsum(torch.ones(2, 2), 0, out=torch.empty(2, 2, dtype=torch.int64))
torch.sum(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.amax(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.argmax(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int32))
torch.norm(torch.ones(2, 2), dim=0, out=torch.empty(2, dtype=torch.float64))
torch.std(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.nansum(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.logsumexp(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.count_nonzero(torch.ones(2))
""",
    """
torch.add(torch.ones(2), np.ones(2))
torch.mul(torch.ones(2), np.float32(2))
torch.add(torch.ones(2), np.ones(()))
""",
    """
from torch.func import vmap
""",
    """
m = nn.Linear(2, 1)
g = torch.autograd.grad(m(torch.ones(1, 2)).sum(), m.parameters())
""",
    """
from torch.autograd import gradcheck, gradgradcheck
x = torch.randn(3, dtype=torch.float64, requires_grad=True)
gradcheck(lambda x: x.sum(), x, fast_mode=True)
gradcheck(lambda x: x.prod(), (x,), fast_mode=True)
gradcheck(lambda x: (x.sum(), x * 2), (x,), fast_mode=True)
s = torch.eye(3, dtype=torch.float64).to_sparse().requires_grad_()
gradcheck(lambda s: s.to_dense(), s, masked=True)
gradcheck(lambda s: torch.sparse.mm(s, torch.ones(3, 2, dtype=torch.float64)), (s,), masked=True)
gradgradcheck(lambda x: x ** 3, (x,), check_fwd_over_rev=True)
gradcheck(lambda x: x ** 3, (x,), check_forward_ad=True, check_batched_grad=True)
""",
    """
x = torch.arange(25).reshape(5, 5)
x[[[0, 4], [2, 2]]]
y = torch.zeros(2, 3, 5)
y[[slice(None), slice(None), [1, 3]]] = 2
y
x[torch.tensor(2, dtype=torch.uint8)]
x[torch.tensor([True, False, True, False, True])]
x[[True, False, True, False, True]]
x[torch.tensor([1, 0, 1, 0, 1], dtype=torch.uint8)]
x[0.:2.]
x[1.5]
x[1j]
x[torch.tensor(1.)]
x[torch.tensor([1., 2.])]
class I:
    def __index__(self):
        return 2
x[I()]
x[I():]
x[[I(), 1]]
x[np.int64(1)]
x[np.array([1, 2])]
x[[np.int64(1), 2]]
x[torch.tensor(1):torch.tensor(3)]
x[(1, [2, 3])]
x[[1, 2], [True, False, False, True, False]]
x[True]
x[None, False]
x["a"]
x[[[1]]]
x[[]]
x[()]
x[..., [[0], [1]]]
x[[0, 1], ..., [2, 3]]
x[[[0, 1]], 1]
x[range(2)]
x[:, range(2)]
x[torch.tensor(True)]
x[[slice(0, 2)]]
x[[None, 1]]
x[[...]]
x[[0, slice(None)]]
x[[[0, 1], slice(None)]]
x[[True, 1]]
x[(True, 1)]
x[[torch.tensor(0), torch.tensor(1)]]
x[[torch.tensor([0, 1]), torch.tensor([1, 2])]]
x[::-1]
x[5]
x[0, 0, 0]
x[..., ...]
""",
    """
x = torch.ones(3)
try:
    x[torch.tensor([5])]
    a = 0
except IndexError as e:
    a = str(e)
try:
    i = torch.tensor([2]) * 3
    y = x[i]
    b = 0
except IndexError as e:
    b = str(e)
try:
    i = torch.tensor([2]) * 3
    y = torch.gather(x, 0, i)
    c = 0
except (IndexError, RuntimeError) as e:
    c = str(e)
try:
    y = F.embedding(torch.tensor([2]) * 3, torch.ones(3, 2))
    d = 0
except (IndexError, RuntimeError) as e:
    d = str(e)
try:
    y = F.nll_loss(torch.ones(1, 2), torch.tensor([2]) * 3)
    e = 0
except (IndexError, RuntimeError) as e:
    f = str(e)
try:
    y = x.index_select(0, torch.tensor([2]) * 3)
    g = 0
except (IndexError, RuntimeError) as e:
    g = str(e)
try:
    x[torch.tensor([2]) * 3] = 1
    h = 0
except (IndexError, RuntimeError) as e:
    h = str(e)
""",
    """
np.ones(2) / torch.ones(2)
np.ones((2, 2)) @ torch.ones(2, 2, dtype=torch.float64)
np.ones(2) - torch.ones(2)
np.ones(2) ** torch.ones(2)
np.ones(2) // torch.ones(2)
np.ones(2) % torch.ones(2)
np.ones(2, dtype=int) & torch.ones(2, dtype=torch.int64)
np.ones(2, dtype=int) << torch.ones(2, dtype=torch.int64)
np.float32(2) * torch.ones(2)
np.float64(2) / torch.ones(2)
np.float64(2) - torch.ones(2, requires_grad=True)
np.ones(2) * torch.ones(2, requires_grad=True)
np.int64(2) ** torch.arange(3)
np.ones(2) == torch.ones(2)
np.ones(2) < torch.ones(2)
np.float64(1) < torch.ones(2)
np.float64(1) == torch.ones(2)
torch.ones(2) / np.ones(2)
torch.ones(2) @ np.ones(2)
torch.ones(2) + np.ones(2)
torch.ones(2) ** np.ones(2)
torch.ones(2) == np.ones(2)
torch.ones(2) < np.float64(2)
torch.ones(2) & np.ones(2)
torch.ones(2) + np.float64(2)
""",
    """
w = torch.randn(4, 3)
""",
    """
g = torch.Generator()
g.set_state(g.get_state()) is g
g.manual_seed(2) is g
a = torch.ones(3, requires_grad=True)
b = a.exp()
a.grad_fn
torch.linalg.norm(torch.ones(2, 2), dim=(0, 1))
torch.linalg.vector_norm(torch.ones(2, 2), axis=0)
import pickle
torch.add(torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool), alpha=True)
torch.sub(torch.ones(2, dtype=torch.int64), torch.ones(2), alpha=1.5)
torch.add(torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64), alpha=1.5)
""",
    """
p = torch.zeros(2, requires_grad=True)
o = torch.optim.LBFGS([p], line_search_fn="strong_wolfe")
def c():
    o.zero_grad()
    l = (p * 0).sum()
    l.backward()
    return l
o.step(c)
p
o.state_dict()
""",
    """
x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
F.max_pool2d(x, 2)
F.avg_pool2d(x, 2)
F.adaptive_avg_pool2d(x, 2)
F.adaptive_max_pool2d(x, 2)
c = F.conv2d(x, torch.randn(5, 3, 3, 3)).is_contiguous(memory_format=torch.channels_last)
F.conv2d(x, torch.ones(5, 3, 3, 3)).stride()
nn.BatchNorm2d(3)(x)
nn.GroupNorm(3, 3)(x)
F.interpolate(x, scale_factor=2)
F.interpolate(x, scale_factor=2, mode="bilinear")
x.resize_(2, 3, 2, 2)
x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
x.double()
torch.empty_like(x).stride()
torch.empty_like(x, memory_format=torch.contiguous_format).stride()
x + 1
x + torch.ones(2, 3, 4, 4)
torch.ones(2, 3, 4, 4) + x
x + torch.ones(3, 1, 1)
x.resize_(2, 3, 2, 2, memory_format=torch.contiguous_format)
F.pixel_shuffle(torch.randn(1, 4, 2, 2).to(memory_format=torch.channels_last), 2)
F.relu(x)
F.dropout2d(x, 0.0)
torch.cat([x, x])
F.instance_norm(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))
""",
    """
torch.sparse.spdiags(torch.ones(2, 3), torch.tensor([0, 1]), (3, 3))
""",
    """
import copy
x = torch.arange(3.)
y = copy.copy(x)
y[0] = 9
x
p = nn.Parameter(torch.ones(2))
q = copy.copy(p)
q
q is p
m = nn.Linear(2, 2)
n = copy.copy(m)
n.weight is m.weight
a = torch.ones(3, requires_grad=True)
b = copy.copy(a)
b.requires_grad
c = copy.copy(x[1:])
c
x.foo = 3
copy.copy(x).foo
""",
    """
a = torch.ones(3, requires_grad=True) * 1
a.retain_grad()
a.mul_(2)
a.sum().backward()
a.grad
b = torch.ones(3, requires_grad=True) * 1
b.retain_grad()
v = b[:2]
v.mul_(3)
(b * b).sum().backward()
b.grad
c = torch.ones(3, requires_grad=True) * 1
v = c[:2]
v.retain_grad()
v.mul_(3)
(c * c).sum().backward()
v.grad
d = torch.ones(3, requires_grad=True) * 1
v = d[:2]
v.retain_grad()
d.mul_(3)
(v * v).sum().backward()
v.grad
e = torch.ones(3, requires_grad=True) * 1
e.retain_grad()
h = e.register_hook(lambda g: g * 2)
e.mul_(3)
h2 = e.register_hook(lambda g: g * 5)
e.sum().backward()
e.grad
f = torch.ones(2, requires_grad=True) * 2
f.retain_grad()
h = f.register_hook(lambda g: g * 7)
f.sum().backward()
f.grad
f.retains_grad
g = torch.ones(2, requires_grad=True)
g.retain_grad()
g.retains_grad
k = g * 2
k.retain_grad()
k.sum().backward(retain_graph=True)
k.sum().backward()
k.grad
l = g * 3
l.retain_grad()
l.detach_()
l.retains_grad
o = g * 3
o.retain_grad()
o.sum().backward(inputs=[o])
o.grad
s = (g * 3).sum()
s.retain_grad()
s.backward()
s.grad
with torch.no_grad():
    z = g * 1
z.retain_grad()
""",
    """
b = torch.ones(4, requires_grad=True)
torch.as_strided(b.expand(3, 4), (3, 4), (0, 1)).sum().backward()
b.grad
e = torch.arange(3.).requires_grad_()
torch.as_strided(e.expand(3, 3), (2,2), (1,1)).sum().backward()
e.grad
f = torch.arange(6.).requires_grad_()
torch.as_strided(f[2:], (2, 2), (1, 1), 1).sum().backward()
f.grad
f = torch.arange(6.).requires_grad_()
torch.as_strided(f.view(2, 3).t(), (2, 2), (1, 1), 1).pow(2).sum().backward()
f.grad
g = torch.arange(6.).requires_grad_()
(g.unfold(0, 3, 1).as_strided((2, 3), (1, 2)) * torch.arange(6.).view(2, 3)).sum().backward()
g.grad
h = torch.arange(6.).requires_grad_()
(h * 1).as_strided((2, 3), (1, 1)).pow(2).sum().backward()
h.grad
""",
    """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(2))
        self.w = nn.Parameter(torch.ones(2))
    def forward(self, x):
        self.b = self.b + x
        return self.b * self.w
m = M()
d = {"b": torch.ones(2)}
r = torch.func.functional_call(m, d, (torch.ones(2),))
d
m.b
d = {"b": torch.ones(2), "zz": torch.ones(1)}
r = torch.func.functional_call(m, d, (torch.ones(2),))
d
r = torch.func.functional_call(m, (d, {"w": torch.zeros(2)}), (torch.ones(2),))
d
r = torch.func.functional_call(m, {"w": torch.zeros(2), "q": torch.zeros(1)}, (torch.ones(2),), strict=True)
r = torch.func.functional_call(m, {"w": torch.zeros(2)}, (torch.ones(2),), strict=True)
bn = nn.BatchNorm1d(2)
s = {k: v.clone() for k, v in bn.state_dict().items()}
r = torch.func.functional_call(bn, s, (torch.arange(4.).view(2, 2),))
s
bn.running_mean
class T(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False)
        self.b = nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight
    def forward(self, x):
        return self.b(self.a(x))
t = T()
torch.func.functional_call(t, {"a.weight": torch.eye(2)}, (torch.ones(1, 2),))
torch.func.functional_call(t, {"b.weight": torch.eye(2)}, (torch.ones(1, 2),))
torch.func.functional_call(t, {"a.weight": torch.eye(2), "b.weight": torch.eye(2) * 2}, (torch.ones(1, 2),))
torch.func.functional_call(t, {"a.weight": torch.eye(2), "b.weight": torch.eye(2) * 2}, (torch.ones(1, 2),), tie_weights=False)
torch.func.functional_call(t, {"a.weight": torch.eye(2)}, (torch.ones(1, 2),), strict=True)
torch.func.functional_call(t, {"a.weight": 3}, (torch.ones(1, 2),))
torch.func.functional_call(t, {"c.weight": torch.ones(1)}, (torch.ones(1, 2),)).shape
torch.func.functional_call(nn.ReLU(), {}, torch.ones(2))
torch.func.functional_call(nn.ReLU(), {}, None, {"input": torch.ones(2)})
torch.nn.utils.stateless.functional_call(nn.ReLU(), {}, torch.ones(2))
""",
    """
w = torch.randn(4, 2, requires_grad=True)
i = torch.tensor([0, 1])
g = w.grad
(w * 2).sum().backward()
v = torch.randn(4, 2, requires_grad=True)
(v * 2).sum().backward()
g = v.grad
F.embedding(torch.tensor([2]), v, sparse=True).sum().backward()
v.grad is g
v.grad
""",
    """
from torch.func import grad, vjp, jvp, vmap, jacrev, jacfwd, hessian
def g(x):
    with torch.no_grad():
        shift = grad(lambda y: y ** 3)(x)
    return x ** 3 - shift
grad(g)(torch.tensor(1.5))
x = torch.tensor(1.5, requires_grad=True)
with torch.no_grad():
    r3 = grad(lambda y: y ** 3)(x)
    r5 = vjp(lambda y: y ** 3, x)
    r6 = r5[1](torch.tensor(1.))
    r7 = jvp(lambda y: y ** 3, (x,), (torch.tensor(1.),))
    r8 = jacrev(lambda y: y ** 3)(x)
    r9 = jacfwd(lambda y: y ** 3)(x)
    r10 = hessian(lambda y: y ** 3)(x)
    r11 = vmap(lambda y: y ** 3)(x[None])
    r12 = vmap(grad(lambda y: y ** 3))(x[None])
grad(grad(lambda y: y ** 3))(x).item()
def h(x):
    with torch.no_grad():
        a = grad(lambda y: (y ** 2).sum())(x)
        with torch.enable_grad():
            b = grad(lambda y: (y ** 2).sum())(x)
    return (a * x).sum() + (b * x).sum()
grad(h)(torch.ones(2))
vmap(grad(h))(torch.ones(2, 2))
jacrev(h)(torch.ones(2))
torch.set_grad_enabled(False)
q = grad(lambda y: (y ** 2).sum())(torch.ones(2, requires_grad=True))
torch.set_grad_enabled(True)
def k(x):
    torch.set_grad_enabled(False)
    y = x * x
    torch.set_grad_enabled(True)
    return (x * y).sum()
grad(k)(torch.ones(2))
w = torch.ones(2, requires_grad=True)
def c(x):
    with torch.no_grad():
        z = grad(lambda y: (y * w * x).sum())(x)
    return (z * x).sum()
grad(c)(torch.ones(2)).detach()
torch.is_grad_enabled()
def e(x):
    return torch.is_grad_enabled()
class S(torch.autograd.Function):
    @staticmethod
    def forward(x): return x * 2
    @staticmethod
    def setup_context(ctx, i, o): ctx.save_for_backward(*i)
    @staticmethod
    def backward(ctx, g): return g * 5
grad(lambda x: S.apply(x).sum())(torch.ones(2))
with torch.no_grad():
    s1 = grad(lambda x: S.apply(x).sum())(torch.ones(2, requires_grad=True))
def lev(x):
    def inner(y):
        with torch.no_grad():
            t = y * x
        return (t * y * x).sum()
    return grad(inner)(x).sum()
grad(lev)(torch.ones(2) * 3)
grad(lambda x: vjp(lambda y: (x * y).sum(), x)[1](torch.tensor(2.))[0].sum())(torch.ones(2))
""",
    """
from torch.func import grad, jvp, vmap, vjp
c = torch.zeros(3)
v = c[:2]
o = torch.ones(3)
grad(lambda x: (c.__setitem__(0, x[0]), (x * c).sum())[1])(o)
grad(lambda x: (c.view(3).add_(x), (x * c).sum())[1])(o)
grad(lambda x: (v.add_(1), (x * c).sum())[1])(o)
grad(lambda x: (c.fill_(1), (x * c).sum())[1])(o)
grad(lambda x: (c.normal_(), (x * c).sum())[1])(o)
grad(lambda x: (c.uniform_(), (x * c).sum())[1])(o)
grad(lambda x: (c.detach().mul_(2), (x * c).sum())[1])(o)
grad(lambda x: (x.mul_(2), (x * c).sum())[1])(o)
grad(lambda x: (c.copy_(x), (x * c).sum())[1])(o)
grad(lambda x: (c.index_add_(0, torch.tensor([0]), x[:1]), (x * c).sum())[1])(o)
grad(lambda x: (c.scatter_(0, torch.tensor([0]), 1.), (x * c).sum())[1])(o)
grad(lambda x: (c.masked_fill_(c == 0, 1.), (x * c).sum())[1])(o)
grad(lambda x: (c.zero_(), (x * c).sum())[1])(o)
grad(lambda x: (c.exp_(), (x * c).sum())[1])(o)
grad(lambda x: (c.clamp_(0), (x * c).sum())[1])(o)
jvp(lambda x: (c.zero_(), (x * c).sum())[1], (o,), (o,))
jvp(lambda x: x.mul_(2), (torch.ones(3),), (torch.ones(3),))
vjp(lambda x: (c.add_(x), (x * c).sum())[1], o)[0]
vmap(grad(lambda x: (c.add_(1), (x * c).sum())[1]))(torch.ones(2, 3))
c
def inside(x):
    a = torch.zeros(3)
    a[0] = x[0]
    a += x
    b = torch.empty_like(x)
    b.copy_(x)
    b.mul_(x)
    d = torch.zeros(2, 3)
    d[1].add_(x)
    e = x.clone()
    e.exp_()
    return (a * b).sum() + d.sum() + e.sum()
grad(inside)(o)
grad(lambda x: grad(inside)(x).sum())(o)
vmap(grad(inside))(torch.ones(2, 3))
def nested(x):
    a = torch.zeros(3)
    def f(y):
        a.add_(1)
        return (y * a).sum()
    return grad(f)(x).sum()
grad(nested)(o)
m = nn.BatchNorm1d(3)
p = dict(m.named_parameters())
m.eval()
""",
    """
x = torch.zeros(2, 6)
torch.arange(0, 3, out=x.narrow(1, 1, 2))
x
y = torch.zeros(2, 6)
torch.range(0, 2, out=y.narrow(1, 1, 2))
y
z = torch.zeros(2, 6)
torch.linspace(0, 2, 3, out=z.narrow(1, 1, 2))
z
z = torch.zeros(2, 6)
torch.logspace(0, 2, 3, out=z.narrow(1, 1, 2))
z
torch.eye(3, out=z[:, ::2])
z
torch.tril_indices(2, 2)
torch.arange(3, out=torch.empty(0))
torch.arange(3, out=torch.empty(0, 2))
torch.linspace(0, 1, 2, out=torch.empty(1, 2, 1))
torch.linspace(0, 1, 0, out=torch.empty(1, 2, 1))
torch.arange(0, 0, out=torch.empty(1, 0, 2))
torch.arange(3, out=torch.empty(5))
torch.randn(2, 2, out=z[:, 1:3]).shape
torch.empty(2, 2, out=z[:, 1:3]).shape
torch.rand(3, out=z[:, 1:3]).shape
torch.randint(3, (2, 2), out=z[:, 1:3]).shape
torch.normal(0., 1., (2, 2), out=z[:, 1:3]).shape
torch.normal(torch.zeros(2, 2), 1., out=z[:, 1:3]).shape
torch.bernoulli(torch.zeros(2, 2), out=z[:, 1:3])
torch.multinomial(torch.ones(2), 2, out=torch.zeros(4, dtype=torch.int64)[::2]).shape
torch.complex(torch.ones(2), torch.ones(2), out=torch.zeros(4, dtype=torch.complex64)[::2])
w = torch.zeros(3, 4)
torch.matmul(torch.ones(3, 2), torch.ones(2, 2), out=w[:, ::2])
torch.mm(torch.ones(2, 2), torch.ones(2, 3), out=w[:, 1:3].t())
torch.cat([torch.ones(2), torch.ones(1)], out=w[:, 0])
torch.stack([torch.ones(3), torch.ones(3)], 1, out=w[:, 1:3])
torch.sum(torch.ones(3, 4), 1, out=w[:, 3])
torch.sort(torch.rand(3), out=(w[:, 3], torch.zeros(6, dtype=torch.int64)[::2]))
torch.max(torch.eye(3), 1, out=(w[:, 3], torch.zeros(6, dtype=torch.int64)[::2]))
torch.add(torch.ones(2), 1, out=w[0])
w
torch.where(torch.ones(3) > 0, torch.ones(3), torch.zeros(3), out=w[:, 1])
torch.gather(torch.ones(3), 0, torch.tensor([0, 1, 2]), out=w[:, 2])
torch.index_select(torch.ones(3), 0, torch.tensor([0, 1, 2]), out=w[:, 2])
torch.nonzero(torch.ones(3), out=torch.zeros(6, 2, dtype=torch.int64)[::2, :1])
torch.unsqueeze_copy(torch.ones(3), 0, out=w.t()[:1, :3])
torch.bmm(torch.ones(1, 3, 2), torch.ones(1, 2, 2), out=w[:, ::2].unsqueeze(0))
torch.addmm(torch.ones(2), torch.ones(3, 2), torch.ones(2, 2), out=w[:, ::2])
torch.cumsum(torch.ones(3), 0, out=w[:, 2])
torch.diag(torch.ones(3), out=w[:, :3])
torch.linalg.inv(torch.eye(3), out=w[:, :3])
torch.linalg.qr(torch.eye(3), out=(w[:, :3], torch.zeros(3, 3).t()))
torch.clamp(torch.ones(3), 0, 2, out=w[:, 2])
torch.tril(torch.ones(3, 3), out=w[:, :3])
torch.roll(torch.ones(3), 1)
torch.take(torch.ones(3), torch.tensor([0, 1, 2]), out=w[:, 2])
w
w.expand(2, 3, 4)
torch.add(torch.ones(2, 3), 1, out=torch.zeros(3).expand(2, 3))
torch.arange(3, out=torch.zeros(1).expand(3))
a = torch.ones(3, requires_grad=True)
torch.arange(3, out=a)
torch.zeros(3, out=a)
torch.add(a, 1, out=torch.zeros(3))
torch.add(torch.ones(3), 1, out=a)
""",
    """
torch.all(torch.ones(2, 2), 0, out=torch.empty(2))
torch.any(torch.ones(2, 2), 0, out=torch.empty(2))
torch.any(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.uint8))
torch.all(torch.ones(2, 2), out=torch.empty((), dtype=torch.int64))
torch.all(torch.ones(2, 2), (0, 1), out=torch.empty((), dtype=torch.int64))
torch.sum(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.sum(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.bool))
torch.prod(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.prod(torch.ones(2, 2), 0, dtype=torch.float64, out=torch.empty(2, dtype=torch.int64))
torch.mean(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.mean(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.cumsum(torch.ones(2, 2), 0, out=torch.empty(2, 2, dtype=torch.int64))
torch.cumprod(torch.ones(2, 2), 0, out=torch.empty(2, 2, dtype=torch.float64))
torch.sum(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.sum(torch.ones(2, 2), 0, dtype=torch.float32, out=torch.empty(2, dtype=torch.float64))
torch.sum(torch.ones(2, 2, dtype=torch.int32), 0, out=torch.empty(2, dtype=torch.int32))
torch.prod(torch.ones(2, 2, dtype=torch.int32), 0, out=torch.empty(2, dtype=torch.int32))
torch.amax(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.argmax(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int32))
torch.norm(torch.ones(2, 2), dim=0, out=torch.empty(2, dtype=torch.float64))
torch.linalg.vector_norm(torch.ones(2, 2), dim=0, out=torch.empty(2, dtype=torch.int64))
torch.std(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.var(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.nansum(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.logsumexp(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.float64))
torch.logsumexp(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.int64))
torch.max(torch.ones(2, 2), out=torch.empty((), dtype=torch.float64))
torch.max(torch.ones(2, 2), 0, out=(torch.empty(2, dtype=torch.float64), torch.empty(2, dtype=torch.int64)))
torch.aminmax(torch.ones(2, 2), dim=0, out=(torch.empty(2, dtype=torch.float64), torch.empty(2)))
torch.count_nonzero(torch.ones(2))
torch.logical_and(torch.ones(2), torch.ones(2), out=torch.empty(2))
torch.isin(torch.ones(2), torch.ones(2))
torch.eq(torch.ones(2), 1, out=torch.empty(2))
torch.eq(torch.ones(2), 1, out=torch.empty(2, dtype=torch.uint8))
torch.add(torch.ones(2), 1, out=torch.empty(2, dtype=torch.int64))
torch.sin(torch.ones(2), out=torch.empty(2, dtype=torch.int64))
torch.sin(torch.ones(2), out=torch.empty(2, dtype=torch.complex64))
torch.abs(torch.ones(2, dtype=torch.complex64), out=torch.empty(2))
torch.angle(torch.ones(2), out=torch.empty(2, dtype=torch.float64))
torch.clamp(torch.ones(2), 0, out=torch.empty(2, dtype=torch.float64))
torch.floor(torch.ones(2), out=torch.empty(2, dtype=torch.int64))
torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=torch.empty(2, 2, dtype=torch.float64))
torch.addmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2), out=torch.empty(2, 2, dtype=torch.float64))
torch.bmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2), out=torch.empty(1, 2, 2, dtype=torch.float64))
torch.index_select(torch.ones(2), 0, torch.tensor([0]), out=torch.empty(1, dtype=torch.int64))
torch.gather(torch.ones(2), 0, torch.tensor([0]), out=torch.empty(1, dtype=torch.int64))
torch.cat([torch.ones(2)], out=torch.empty(2, dtype=torch.int64))
torch.stack([torch.ones(2)], out=torch.empty(1, 2, dtype=torch.int64))
torch.tril(torch.ones(2, 2), out=torch.empty(2, 2, dtype=torch.int64))
torch.sort(torch.ones(2), out=(torch.empty(2, dtype=torch.int64), torch.empty(2, dtype=torch.int64)))
torch.topk(torch.ones(2), 1, out=(torch.empty(2), torch.empty(2, dtype=torch.int32)))
torch.bincount(torch.ones(2, dtype=torch.int64))
torch.linalg.inv(torch.eye(2), out=torch.empty(2, 2, dtype=torch.float64))
torch.linalg.inv(torch.eye(2), out=torch.empty(2, 2, dtype=torch.int64))
torch.linalg.solve(torch.eye(2), torch.ones(2), out=torch.empty(2, dtype=torch.float64))
torch.linalg.det(torch.eye(2), out=torch.empty((), dtype=torch.float64))
torch.bernoulli(torch.ones(2), out=torch.empty(2, dtype=torch.int64))
torch.normal(torch.ones(2), 1., out=torch.empty(2, dtype=torch.float64)).shape
torch.multinomial(torch.ones(2), 1, out=torch.empty(1))
torch.softmax(torch.ones(2), 0, out=torch.empty(2, dtype=torch.float64))
torch.cdist(torch.ones(2, 2), torch.ones(2, 2))
torch.searchsorted(torch.ones(2), torch.ones(2), out=torch.empty(2))
torch.round(torch.ones(2), out=torch.empty(2, dtype=torch.int64))
torch.addcmul(torch.ones(2), torch.ones(2), torch.ones(2), out=torch.empty(2, dtype=torch.int64))
torch.lerp(torch.ones(2), torch.ones(2), .5, out=torch.empty(2, dtype=torch.float64))
torch.pow(torch.ones(2), 2, out=torch.empty(2, dtype=torch.int64))
torch.floor_divide(torch.ones(2), 2, out=torch.empty(2, dtype=torch.int64))
torch.bitwise_and(torch.ones(2, dtype=torch.int64), 1, out=torch.empty(2))
torch.complex(torch.ones(2), torch.ones(2), out=torch.empty(2))
torch.real(torch.ones(2))
torch.arange(3, out=torch.empty(3, dtype=torch.complex64))
torch.add(torch.ones(2), 1, out=None)
torch.add(torch.ones(2), 1, out=(torch.ones(2),))
torch.max(torch.ones(2), 0, out=(torch.ones(2),))
torch.max(torch.ones(2), 0, out=[torch.ones(2), torch.ones(2, dtype=torch.int64)])
""",
    """
torch.lu_solve(torch.ones(2, 1), torch.eye(2), torch.tensor([0, 0], dtype=torch.int32))
torch.lu_solve(torch.ones(2, 1), torch.eye(2), torch.tensor([1, 3], dtype=torch.int32))
torch.lu_solve(torch.ones(2, 1), torch.eye(2), torch.tensor([1, 2]))
torch.linalg.lu_solve(torch.eye(2), torch.tensor([0, 0], dtype=torch.int32), torch.ones(2, 1))
torch.lu_unpack(torch.eye(2), torch.tensor([0, 0], dtype=torch.int32))
torch.lu_unpack(torch.eye(2), torch.tensor([1, 3], dtype=torch.int32))
torch.sparse_coo_tensor([[0]], torch.ones(1, 3), (2, 2))
torch.sparse_coo_tensor([[0, 1]], torch.ones(1), (2,))
torch.sparse_coo_tensor([[5]], torch.ones(1), (2,))
torch.sparse_coo_tensor([[-1]], torch.ones(1), (2,))
torch.sparse_coo_tensor([0], torch.ones(1), (2,))
torch.sparse_coo_tensor([[0.]], torch.ones(1), (2,))
torch.sparse_coo_tensor([[0]], torch.ones(1), (2, 2))
torch.sparse_coo_tensor([[0]], torch.ones(1), (2, -2))
torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1, 2), (2, 2))
torch.sparse_coo_tensor([[0]], 3., (2,))
torch.sparse_csr_tensor([0, 1], [0], [1.], (2, 2))
torch.sparse_csr_tensor([0, 1, 3], [0], [1.], (2, 2))
torch.sparse_csr_tensor([0, 1, 1], [5], [1.], (2, 2))
torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.], (2, 2))
F.max_unpool1d(torch.ones(1, 1, 2), torch.tensor([[[0, 9]]]), 2)
F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.tensor([[[[0, 1], [2, 99]]]]), 2)
F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.tensor([[[[0, 1], [2, -9]]]]), 2)
F.max_unpool3d(torch.ones(1, 1, 1, 2, 2), torch.tensor([[[[[0, 1], [2, 99]]]]]), 2)
F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), 2)
F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 1, dtype=torch.int64), 2)
torch.add(torch.ones(2), np.ones(2))
torch.mul(torch.ones(2), np.float32(2))
torch.add(torch.ones(2), np.ones(()))
torch.add(np.ones(2), torch.ones(2))
torch.matmul(torch.ones(2), np.ones(2))
torch.sin(np.ones(2))
torch.cat([torch.ones(2), np.ones(2)])
torch.stack([np.ones(2)])
torch.maximum(torch.ones(2), np.ones(2))
torch.dot(torch.ones(2), np.ones(2))
torch.ones(2).mul(np.float64(2))
torch.ones(2).copy_(np.ones(2))
F.relu(np.ones(2))
F.linear(torch.ones(2), np.ones((2, 2)))
nn.Linear(2, 2)(np.ones(2, dtype=np.float32))
torch.full((2,), np.float32(2))
torch.zeros(np.int64(2))
torch.zeros((np.int64(2), 1))
torch.ones(2).view(np.int64(2), 1)
torch.arange(np.int64(3))
torch.arange(np.float32(3))
torch.tensor([np.float32(1), np.float64(2)])
torch.tensor([torch.tensor(1), 2.])
torch.clamp(torch.ones(2), np.float32(2))
torch.add(torch.ones(2), 1, alpha=np.float32(2))
torch.add("a", 1)
torch.add(torch.ones(2), "a")
torch.add(torch.ones(2), None)
torch.add(torch.ones(2), [1, 2])
torch.add(torch.ones(2), 1, 2, 3)
torch.add(torch.ones(2), 1, beta=2)
""",
    """
torch.tensor([np.float32(1), np.float64(2)])
torch.tensor([np.float64(2)])
torch.tensor(np.float64(2))
torch.tensor([np.int32(2)])
torch.tensor([1, np.float32(2)])
torch.tensor([1., np.float64(2)])
torch.tensor(np.complex64(2))
torch.ones(2) == np.ones(2)
torch.ones(2) != np.ones(2)
torch.lu_solve(torch.ones(2, 1), torch.eye(2), torch.tensor([0, 0], dtype=torch.int32))
torch.ones(3).copy_(torch.arange(3))
torch.all(torch.ones(2, 2), 0, out=torch.empty(2, dtype=torch.bool))
torch.all(torch.ones(2, 2, dtype=torch.uint8), 0, out=torch.empty(2, dtype=torch.uint8))
torch.all(torch.ones(2, 2, dtype=torch.uint8), 0)
torch.sum(torch.ones(2, 2) * 1.5, 0, out=torch.empty(2, dtype=torch.int64))
torch.clamp(torch.ones(2), torch.zeros(2), out=torch.zeros(2, dtype=torch.float64))
torch.clamp(torch.ones(2), 0, out=torch.zeros(2, dtype=torch.float64))
torch.clamp(torch.ones(2, dtype=torch.int64), 0, out=torch.zeros(2, dtype=torch.float64))
import copy
x = torch.arange(3.)
y = copy.copy(x)
y[0] = 9
x
""",
    """
from torch.func import vmap
m = nn.Linear(3, 2)
p = dict(m.named_parameters())
torch.func.vmap(torch.func.grad(lambda p, x, y: F.mse_loss(torch.func.functional_call(m, p, (x,)), y)), (None, 0, 0))(p, torch.ones(4, 3), torch.ones(4, 2))["weight"].shape
""",
    """
m = nn.Linear(2, 1)
g = torch.autograd.grad(m(torch.ones(1, 2)).sum(), m.parameters())
g = torch.autograd.grad((t for t in [m(torch.ones(1, 2)).sum()]), list(m.parameters()))
torch.autograd.backward((t for t in [m(torch.ones(1, 2)).sum()]))
torch.autograd.backward(m(torch.ones(1, 2)).sum(), inputs=m.parameters())
torch.autograd.backward(m(torch.ones(1, 2)).sum(), inputs=[])
torch.autograd.backward(m(torch.ones(1, 2)).sum(), inputs=list(m.parameters()))
g = torch.autograd.grad([m(torch.ones(1, 2)).sum()], m.weight)
nn.utils.clip_grad_norm_(m.parameters(), 1.)
nn.utils.clip_grad_value_(m.parameters(), .1)
nn.utils.parameters_to_vector(m.parameters())
torch.autograd.grad(m(torch.ones(1, 2)).sum(), m.weight, torch.ones(2))
torch.autograd.grad(m(torch.ones(1, 2)), m.weight, torch.ones(1, 1))
torch.autograd.grad(m(torch.ones(2, 2)), m.weight)
torch.autograd.grad(m(torch.ones(2, 2)).sum(), torch.ones(1))
torch.autograd.grad(m(torch.ones(2, 2)).sum(), torch.ones(1, requires_grad=True))
torch.autograd.grad(m(torch.ones(2, 2)).sum(), torch.ones(1, requires_grad=True), allow_unused=True)
torch.autograd.grad(m(torch.ones(2, 2)).sum(), torch.ones(1, requires_grad=True), materialize_grads=True)
torch.autograd.grad(torch.ones(1), m.weight)
""",
    """
from torch.autograd import gradcheck, gradgradcheck
x = torch.randn(3, dtype=torch.float64, requires_grad=True)
gradcheck(lambda x: x.sum(), x, fast_mode=True)
gradcheck(lambda x: x.prod(), (x,), fast_mode=True)
gradcheck(lambda x: (x.sum(), x * 2), (x,), fast_mode=True)
gradcheck(lambda x: x.sum() * torch.tensor(2.), (x,))
s = torch.eye(3, dtype=torch.float64).to_sparse().requires_grad_()
gradcheck(lambda s: s.to_dense(), s, masked=True)
gradcheck(lambda s: torch.sparse.mm(s, torch.ones(3, 2, dtype=torch.float64)), (s,), masked=True)
gradcheck(lambda s: s.to_dense(), s, masked=False)
gradcheck(lambda s: torch.sparse.sum(s), (s,), masked=True)
gradgradcheck(lambda x: x ** 3, (x,), check_fwd_over_rev=True)
gradgradcheck(lambda x: x.sin().sum(), (x,), fast_mode=True)
gradcheck(lambda x: x ** 3, (x,), check_forward_ad=True, check_batched_grad=True)
gradcheck(lambda x: x ** 3, (x,), check_forward_ad=True, fast_mode=True)
gradcheck(lambda x: x ** 3, (x,), check_forward_ad=True, check_backward_ad=False)
gradcheck(lambda x: x ** 3, (x,), check_forward_ad=True, check_undefined_grad=False, check_batched_forward_grad=True)
gradcheck(lambda x: x.detach() * x, (x,))
gradcheck(lambda x: x.detach() * x, (x,), raise_exception=False)
gradcheck(lambda x: x.detach() * x, (x,), fast_mode=True, raise_exception=False)
gradcheck(lambda x: x, (torch.randn(3),))
gradcheck(lambda x: x.detach(), (x,))
gradcheck(lambda a, b: a @ b, (torch.randn(2, 2, dtype=torch.float64, requires_grad=True), torch.randn(2, dtype=torch.float64, requires_grad=True)), fast_mode=True)
gradcheck(torch.linalg.det, torch.randn(3, 3, dtype=torch.float64, requires_grad=True), fast_mode=True)
gradcheck(torch.Tensor.exp, x)
gradcheck(lambda x: torch.stack([x, x]).max(0)[0], x, fast_mode=True)
gradcheck(lambda a: a.to_sparse().to_dense(), torch.randn(2, 2, dtype=torch.float64, requires_grad=True), masked=True)
""",
    """
x = torch.arange(25).reshape(5, 5)
x[[[0, 4], [2, 2]]]
y = torch.zeros(2, 3, 5)
y[[slice(None), slice(None), [1, 3]]] = 2
y
x[torch.tensor(2, dtype=torch.uint8)]
x[torch.tensor([True, False, True, False, True])]
x[[True, False, True, False, True]]
x[torch.tensor([1, 0, 1, 0, 1], dtype=torch.uint8)]
x[0.:2.]
x[1.5]
x[1j]
x[torch.tensor(1.)]
x[torch.tensor([1., 2.])]
class I:
    def __index__(self):
        return 2
x[I()]
x[I():]
x[[I(), 1]]
x[np.int64(1)]
x[np.array([1, 2])]
x[[np.int64(1), 2]]
x[torch.tensor(1):torch.tensor(3)]
x[(1, [2, 3])]
x[[1, 2], [True, False, False, True, False]]
x[True]
x[None, False]
x["a"]
x[[[1]]]
x[[]]
x[()]
x[..., [[0], [1]]]
x[[0, 1], ..., [2, 3]]
x[[[0, 1]], 1]
x[range(2)]
x[:, range(2)]
x[torch.tensor(True)]
x[[slice(0, 2)]]
x[[None, 1]]
x[[...]]
x[[0, slice(None)]]
x[[[0, 1], slice(None)]]
x[[True, 1]]
x[(True, 1)]
x[[torch.tensor(0), torch.tensor(1)]]
x[[torch.tensor([0, 1]), torch.tensor([1, 2])]]
x[::-1]
x[5]
x[0, 0, 0]
x[..., ...]
y[[0, [1]]]
y[[[0]], 1] = 3
y[[torch.tensor(0), 1]] = 4
y[[None]].shape
y[[[0, 1], [1, 2]]] = 7
y
x[[1.5]]
x[[[1.5]]]
x[[[0, 1], [2]]]
x[[torch.tensor([0, 1])]]
x[torch.tensor(1, dtype=torch.uint8)]
x[torch.tensor(0, dtype=torch.uint8)]
x[torch.tensor([[1, 0, 0, 0, 0]] * 5, dtype=torch.uint8)].shape
x[np.array([True, False, True, False, True])]
x[np.array([[0, 1]])]
x[np.float64(1)]
x[{0: 1}]
x[{1}]
x[b"a"]
x[1:3, [True, False, True, False, True]]
x[torch.tensor(1):]
x[torch.tensor([1, 2]):]
x[:, torch.tensor([1, 2], dtype=torch.int32)]
x[:, torch.tensor([1, 2], dtype=torch.int16)]
x[:, torch.tensor([1, 2], dtype=torch.int8)]
x[-6]
x[torch.tensor([-6])]
x[torch.tensor([5])]
x[:, 7]
x[0, [0, 1], [0, 1]]
x[None, None, 0]
x[[True, False]]
x[torch.tensor([True, False])]
x[torch.zeros(5, 5, dtype=torch.bool)]
x[torch.zeros(2, 2, dtype=torch.bool)]
x[..., 0, ...]
x[::0]
x[::-2]
x[5:2]
x[10:20].shape
x[-100:2]
x[:, None, [0, 1]].shape
x[[0, 1], :, None].shape
torch.tensor(5)[0]
torch.tensor(5)[...]
torch.tensor(5)[None]
torch.tensor(5)[()]
torch.tensor(5)[True]
torch.tensor(5)[[]]
torch.tensor(5)[:]
x[0] = 5.7
x[0] = torch.tensor(5.7)
x[torch.tensor([0, 1])] = torch.ones(5)
x[torch.tensor([0, 1])] = torch.ones(5, dtype=torch.int64)
x[x > 3] = torch.tensor([1])
x[x > 3] = torch.tensor([1, 2, 3])
x[x > 3] = 1.5
x[7] = 1
x[:, 9] = 1
x.__setitem__(0, 3)
len(x)
2 in x
"a" in x
list(x)[0]
""",
    """
x = torch.ones(3)
w = torch.ones(3, 2)
out = []
for f in [lambda i: x[i], lambda i: x.gather(0, i), lambda i: F.embedding(i, w), lambda i: F.nll_loss(torch.ones(1, 2), i), lambda i: F.cross_entropy(torch.ones(1, 2), i), lambda i: x.index_select(0, i), lambda i: x.__setitem__(i, 1), lambda i: x.take(i), lambda i: x.scatter(0, i, 1.), lambda i: x.index_add(0, i, torch.ones(1)), lambda i: x.index_fill(0, i, 1.), lambda i: x.index_copy(0, i, torch.ones(1)), lambda i: x.put_(i, torch.ones(1)), lambda i: F.one_hot(i, 3), lambda i: torch.bincount(i - 9), lambda i: x[i, ], lambda i: w[0, i], lambda i: w[i, 0], lambda i: x.scatter_add(0, i, torch.ones(1)), lambda i: F.embedding_bag(i[None], w), lambda i: torch.repeat_interleave(x, -i), lambda i: x.scatter_reduce(0, i, torch.ones(1), "sum"), lambda i: torch.take_along_dim(x, i, 0), lambda i: x.index_put((i,), torch.ones(1)), lambda i: F.multi_margin_loss(torch.ones(1, 2), i), lambda i: torch.bernoulli(i.float()), lambda i: torch.multinomial(-i.float(), 1), lambda i: torch.normal(0., -i.float()), lambda i: torch.poisson(-i.float()), lambda i: F.nll_loss(torch.ones(1, 2, 1), i[None])]:
    try:
        f(torch.tensor([2]) * 3)
        out.append("nothing")
    except Exception as e:
        out.append(type(e).__name__ + str(e))
out
""",
    """
x = torch.ones(3, requires_grad=True)
y = x * 2
y.sum().backward()
y.sum().backward()
z = x / 2
z.sum().backward()
z.sum().backward()
w = (x + 2).sum()
w.backward()
w.backward()
torch.autograd.grad(x.sum(), [])
torch.set_grad_enabled(1)
""",
    """
class Ident(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 5
class Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x[:1]
    @staticmethod
    def backward(ctx, g):
        return torch.ones(2)
x = torch.ones(2, requires_grad=True)
i = Ident.apply(x)
i.add_(1)
i[0].add_(1)
Part.apply(x).add_(1)
with torch.no_grad():
    j = Ident.apply(x * 1)
j.add_(1)
i.sum().backward()
x.grad
""",
    """
torch.tensor([torch.tensor(1), torch.tensor(2.)])
torch.tensor([torch.tensor([1]), torch.tensor([2])])
torch.tensor([torch.ones(2), torch.ones(2)])
torch.tensor([torch.tensor(1, dtype=torch.int32), torch.tensor(2, dtype=torch.int8)])
torch.tensor([torch.tensor(True), 2.5])
torch.tensor(2**63)
torch.tensor(2**63, dtype=torch.uint64)
torch.tensor([2**63], dtype=torch.uint64)
torch.tensor(["a"])
torch.tensor([[1, 2], 3])
""",
    """
import torch.autograd.forward_ad as fw
with fw.dual_level():
    fw.make_dual(torch.ones(3), torch.ones(2))
fw.exit_dual_level()
torch.is_anomaly_check_nan_enabled()
from torch.distributions import Beta, ContinuousBernoulli, Uniform, kl_divergence
kl_divergence(Uniform(0., 1.), ContinuousBernoulli(.3))
kl_divergence(Uniform(.1, .9), ContinuousBernoulli(.3))
kl_divergence(Uniform(torch.tensor([.1, -1.]), .9), ContinuousBernoulli(.3))
""",
    """
[type(x).__name__ for x in torch.ones(2, 2).as_subclass(type("Sub", (torch.Tensor,), {}))]
class Foreign:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print(func.__name__, [t.__name__ for t in types], len(args), kwargs)
        return "handled"
f = Foreign()
f + torch.ones(2)
torch.ones(2)[f]
torch.multiply(f, 2)
F.relu(f)
nn.init.uniform_(f)
""",
    """
import torch.fx as fx
from torch.fx import subgraph_rewriter
g = fx.symbolic_trace(lambda x: torch.mm(x, x))
fx.Interpreter(g).run(torch.ones(2))
fx.Interpreter(g).run()
subgraph_rewriter.replace_pattern(g, lambda a: torch.mm(a, a), lambda a, b: a + b)
print(fx.symbolic_trace(lambda x: F.linear(torch.split(x, 2)[0], F.gelu(x))).code)
print(fx.symbolic_trace(lambda x, w: F.conv2d(F.avg_pool2d(x, 2), w)).code)
""",
    """
from torch.func import functional_call, jacrev
functional_call(3, {}, torch.ones(2))
jacrev(lambda x: x.to(torch.complex64))(torch.ones(2))
jacrev(lambda x: x.real)(torch.ones(2, dtype=torch.complex64))
""",
    """
x = torch.arange(60.).view(3, 4, 5)
y = x[False, True, torch.tensor([3], dtype=torch.int32)].shape
x[-3, True] = torch.tensor(2)
x[True, 4:] = torch.tensor(2)
x[False, 1] = torch.tensor(2)
x[True, ...] = torch.tensor(2)
x[True, 1] = 7
x[0:, -3, torch.tensor([True, True, False, True, True])] = torch.tensor(2)
x[slice(3, None), :-3, [True, False, True, True, True]] = torch.tensor(2)
x[torch.tensor(True), torch.tensor(False)].shape
x[torch.tensor(True), :, 1] = 3.
x
""",
    """
import warnings
warnings.simplefilter("ignore")
seen = []
for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adamax", "RMSprop", "NAdam", "RAdam", "Rprop", "ASGD", "Adadelta"):
    p, q = (torch.tensor([1., -2., .5], requires_grad=True) for _ in range(2))
    o = getattr(torch.optim, name)([p, q, p], lr=.1)
    for _ in range(3):
        o.zero_grad()
        (p.exp().sum() + (q * q).sum()).backward()
        o.step()
    seen += [name, p.detach().clone(), q.detach().clone(), sorted(o.state_dict()["state"]), o.state_dict()["param_groups"][0]["params"]]
seen
""",
    """
from torch.utils.checkpoint import checkpoint
class Made:
    def by(f, **how): return torch.compile(f, **how) if torch.__name__ == "ftorch" else f
layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
def f(x, reentrant): return checkpoint(layer, x * 1.0, use_reentrant=reentrant).pow(2).sum()
for reentrant in (False, True):
    Made.f = staticmethod(Made.by(f))
    for i in range(3):
        x = torch.ones(3, 4, requires_grad=True); Made.f(x, reentrant).backward(); print(x.grad, torch.rand(1))
def g(x):
    with torch.random.fork_rng(): a = torch.rand(2)
    with torch.random.fork_rng(): torch.manual_seed(5); b = torch.rand(1)
    return x + a + 10 * torch.rand(2), b, torch.rand(1)
Made.g = staticmethod(Made.by(g))
for i in range(3): print(Made.g(torch.zeros(2)))
Made.g = staticmethod(Made.by(g, backend="eager"))
for i in range(3): print(Made.g(torch.zeros(2)))
""",
    """
torch.set_default_dtype(torch.float64)
def run(name, **options):
    w = nn.Parameter(torch.arange(1.0, 7).reshape(2, 3)); u = nn.Parameter(torch.zeros(3, 2)); z = nn.Parameter(torch.ones(2))
    u.data = w.data.t(); v = nn.Parameter(w.data[0, 1:])
    optimizer = getattr(torch.optim, name)([w, z, u, v], lr=0.1, **options)
    def step():
        optimizer.zero_grad(); loss = (w * torch.arange(6.0).reshape(2, 3)).sum() + (u ** 2).sum() + z.sum() - v.sum()
        loss.backward(); optimizer.step(); return loss.item()
    return [step() for _ in range(4)], w.tolist()
run("SGD", momentum=0.9, weight_decay=0.1)
run("AdamW", eps=0.01)
run("ASGD")
run("Rprop")
run("Adam", foreach=True, eps=0.01)
""",
    """
torch.set_default_dtype(torch.float64)
def run(name, **options):
    p = nn.Parameter(torch.ones(2, dtype=torch.float32)); optimizer = getattr(torch.optim, name)([p], lr=0.1, **options)
    for i in range(3): p.grad = (p.detach() * (i + 1)).sin(); optimizer.step()
    return optimizer.state[p]
run("Adam"), run("ASGD"), run("NAdam"), run("Rprop"), run("Adagrad")
run("Adam", fused=True), run("Adagrad", fused=True)
""",
    """
x = torch.ones(3)
torch.autograd.grad(x, [])
torch.autograd.grad(x.requires_grad_() * 2, [])
torch.ones(3).backward(inputs=[])
(x * 2).backward(inputs=[])
""",
    """
import functools
class Options:
    def scale(self, x): return 3
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by): return x * 3
    @staticmethod
    def backward(ctx, g): return g * 3, None
class Made:
    def by(f): return torch.compile(f, backend="eager") if torch.__name__ == "ftorch" else f
for by in (nn.Sequential(nn.Linear(2, 2)), Options().scale, functools.partial(max, 1), torch.Tensor.add, torch.relu):
    def f(x):
        y = Scaled.apply(x, by)
        return y + 1 if y.sum().item() > 0 else y
    print(Made.by(f)(torch.ones(2)))
""",
    """
torch.set_default_dtype(torch.float64)
from torch.func import vmap, jvp, grad, jacrev, jacfwd, hessian
x = torch.tensor([0.4, 1.2, -0.7], requires_grad=True)
jacrev(jacfwd(lambda x: (x.exp() / (1 + x * x)).norm()))(x).detach()
torch.autograd.grad(jacfwd(lambda x: (x[torch.tensor([2, 0, 0])] * x).pow(2).mean())(x).sum(), x)
def w1(x): y = x * 2; y[1:].mul_(x[2]); return y
def w2(x): y = x * 2; y[0] = x[1]; y[1:].add_(x[2]).mul_(x[:1]); return y * x
def w3(x): y = x * 2; y.mul_(x[1]); y[1:].mul_(x[2]); return y
X = torch.linspace(-1, 1.5, 9).view(3, 3).requires_grad_()
for w in (w1, w2, w3):
    print(torch.autograd.grad(vmap(w)(X).sin().sum(), X))
    print(torch.autograd.grad(jvp(w, (X[0],), (X[1],))[1].sin().sum(), X))
    print(torch.autograd.grad(jvp(vmap(w), (X,), (X * 2,))[1].sin().sum(), X))
    print(torch.autograd.grad(vmap(lambda r: jvp(w, (r,), (r * 2,))[1])(X).sin().sum(), X))
""",
    """
from torch.func import vmap, jvp, grad, jacrev, jacfwd, hessian
class Square(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x): return x * x
    @staticmethod
    def setup_context(ctx, inputs, output): ctx.save_for_backward(*inputs); ctx.save_for_forward(*inputs); ctx.scale = 2
    @staticmethod
    def backward(ctx, g): (x,) = ctx.saved_tensors; return ctx.scale * x * g
    @staticmethod
    def jvp(ctx, t): (x,) = ctx.saved_tensors; return ctx.scale * x * t
f, X = Square.apply, torch.arange(8.).view(2, 2, 2)
vmap(vmap(f))(X), vmap(vmap(vmap(f)))(X), vmap(vmap(f, in_dims=1), in_dims=2)(X).contiguous(), vmap(lambda x: vmap(lambda y: f(x) + y)(X[0]))(X)
grad(lambda x: vmap(vmap(f))(x).sum())(X), vmap(grad(lambda x: vmap(f)(x).sum()))(X), vmap(vmap(grad(lambda x: f(x).sum())))(X)
jvp(vmap(vmap(f)), (X,), (X,)), vmap(lambda x: jvp(vmap(f), (x,), (x,)))(X), vmap(vmap(lambda x: jvp(f, (x,), (x,))))(X)
jacrev(lambda x: vmap(vmap(f))(x).sum(0))(X), jacfwd(lambda x: vmap(vmap(f))(x).sum(0))(X), hessian(lambda x: vmap(f)(x).sum())(X[0])
Y = X.clone().requires_grad_()
torch.autograd.grad(vmap(vmap(f))(Y).sum(), Y)
""",
    """
from torch.func import vmap, jvp, grad
class Named(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x, k): return x * k
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.saved, ctx.marked, ctx.attributes, ctx.real, ctx.saved_dims = inputs[1], 3, {"a": 1}, 5, "d"
        ctx.save_for_backward(inputs[0]); ctx.save_for_forward(inputs[0])
    @staticmethod
    def backward(ctx, g): return g * ctx.saved + 0 * ctx.saved_tensors[0] + ctx.marked + ctx.attributes["a"] + ctx.real + len(ctx.saved_dims), None
    @staticmethod
    def jvp(ctx, t, _): return t * ctx.saved * ctx.marked
f, X = lambda x: Named.apply(x, 2), torch.arange(4.).view(2, 2)
grad(lambda X: vmap(f)(X).sum())(X), grad(lambda X: vmap(vmap(f))(X).sum())(X)
jvp(vmap(f), (X,), (X,)), jvp(vmap(vmap(f)), (X,), (X,))
""",
    """
from torch.utils._python_dispatch import TorchDispatchMode
seen = []
class Mode(TorchDispatchMode):
    sees_aten = False
    def functionalized(self, *args): raise AssertionError
    def __torch_dispatch__(self, func, types, args=(), kwargs=None): seen.append(str(func)); return func(*args, **(kwargs or {}))
class Wrapper(torch.Tensor):
    sees_aten = True
    @staticmethod
    def __new__(cls, t): return torch.Tensor._make_wrapper_subclass(cls, t.shape, dtype=t.dtype)
    def __init__(self, t): self.t = t
    def functionalized(self, *args): raise AssertionError
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None): return func(*(a.t if isinstance(a, Wrapper) else a for a in args), **(kwargs or {}))
mode = Mode()
with mode:
    with mode: x = torch.zeros(2) + 1
print(seen)
y = Wrapper(torch.ones(2)) + 1
x = torch.arange(6.).view(2, 3)
x._level, x._inner, x._bdim, x._tangent = 3, 1, 2, "q"
x.t_(), x.resize_(2, 2), x.clone(memory_format=torch.contiguous_format), x.set_(torch.zeros(4), 0, (2, 2))
torch.vmap(lambda a: a + x)(torch.ones(2, 2, 2)), torch.func.grad(lambda z: (z * x).sum())(x)
def laid_out(how):
    t = how(torch._to_functional_tensor(torch.ones(1, 2, 3, 3)), memory_format=torch.channels_last)
    torch._sync(t)
    return t.stride(), torch._from_functional_tensor(t)
laid_out(torch.clone), laid_out(torch.Tensor.contiguous)
""",
    """
g = torch.Generator().manual_seed(3)
torch.rrelu(-torch.ones(4), 0.1, 0.3, True, g), torch.rrelu_(-torch.ones(4), training=True, generator=g), g.get_state().sum()
torch.rand(1)
""",
    """
P = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))]
opt = torch.optim.LBFGS(P[:1])
opt.add_param_group({"params": P[1:], "lr": 0.5})
def closure():
    opt.zero_grad(); loss = sum((p * p).sum() for p in P); loss.backward(); return loss
opt.step(closure)
P
""",
    """
P = [torch.nn.Parameter(torch.ones(2))]
class Mine(torch.optim.Adam): pass
torch.optim.SGD(P).step(1, 2)
torch.optim.AdamW(P).step(1, 2)
Mine(P).step(1, 2)
opt = torch.optim.RMSprop(P)
h = opt.register_step_pre_hook(lambda o, args, kwargs: 3)
opt.step()
torch.optim.SGD.step.__qualname__, torch.optim.AdamW.step.__qualname__
""",
    """
n = torch.zeros(3)
def counted(x): n.add_(1); return (x * n).sum()
torch.vmap(counted, out_dims="a")(torch.ones(2, 3))
torch.vmap(counted, out_dims=(0, "a"))(torch.ones(2, 3))
n
torch.func.stack_module_state(torch.nn.Linear(1, 1))
torch.func.stack_module_state(torch.nn.Linear(1, 1) for _ in range(2))
torch.utils.data.default_collate(torch.ones(2, 2))
torch.utils.data.default_collate(np.ones(2)[::-1])
""",
    """
log = []
class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log.append(func.__name__)
        with torch._C.DisableTorchFunctionSubclass(): return func(*args, **(kwargs or {}))
class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented if any(issubclass(t, Loud) for t in types) else 5
class Plain(torch.Tensor): pass
x = torch.ones(2)
def calls(t, d):
    p, w, texts = x.as_subclass(Plain), torch.ones(2, requires_grad=True), []
    for call in (lambda: torch.add(t, d), lambda: torch.equal(t, d), lambda: torch.allclose(t, d), lambda: torch.add(d, 1),
                 lambda: torch.sum(d), lambda: torch.stack([d])):
        try: texts.append(str(call()))
        except TypeError as error: texts.append(str(error))
    log.clear()
    return (texts, type(torch.tensor(t)), type(torch.tensor(p)), list(log), type(torch.autograd.grad((w * p).sum(), w)[0]),
            type(torch.autograd.grad(iter([(w * p).sum()]), {"w": w})["w"]))
calls(x.as_subclass(Loud), Duck())
calls(x, Duck())
""",
    """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("last", torch.zeros(2), persistent=False)
        self.register_buffer("cache", torch.zeros(2))
    def forward(self, x):
        self.count = self.count + 1
        self.last = x.sum(0)
        self.cache.copy_(x.sum(0))
        y = x * 1
        z = y.t().flatten()
        z.add_(1)
        return y + self.count, z
ep = torch.export.export(M(), (torch.ones(3, 2),))
__m = [ep.module(), ep.run_decompositions().module()]
x = torch.arange(6.).view(3, 2)
[(f(x), f(x), dict(f.named_buffers()), list(f.state_dict())) for f in __m]
[s.arg.name for s in ep.graph_signature.input_specs]
ep.graph_module.code
""",
    """
class M(torch.nn.Module):
    def forward(self, x, y, z=None): return x * 2, y.sum()
D = torch.export.Dim
def ranges(shapes, *given):
    try: return str(torch.export.export(M(), given, dynamic_shapes=shapes).range_constraints)
    except Exception as error: return type(error).__name__, str(error)
x, one = torch.ones(5, 4), torch.ones(1, 4)
n = D("n", min=2, max=30)
[ranges(({0: n}, {0: 2 * n + 1}), x, torch.ones(11, 4)), ranges(({0: n}, {0: n}), x, one)]
[ranges(({0: D.AUTO(min=6)}, None), x, x), ranges(({0: D.DYNAMIC}, {0: D.AUTO}), one, one), ranges(({0: D("n")}, {0: D("m")}), one, x)]
[ranges(({0: 4}, None), x, x), ranges(({0: "a"}, None), x, x), ranges({"x": D.AUTO, "y": None}, x, x), ranges([[D.AUTO], None], x, x)]
[ranges({"x": {0: n}}, x, x), ranges(({0: n},), x, x), ranges(({0: D("a", max=9)}, {0: D("a", max=8)}), x, x)]
""",
    """
class M(torch.nn.Module):
    def forward(self, x, k=2.0, *, y):
        z = x.clone()
        z.chunk(2, 1)[0].add_(1)
        z.t().tensor_split(2)[1].sub_(1)
        z.narrow(1, 1, 2).mul_(3)
        z.unbind(1)[1].add_(2)
        return z, y[0] * k
N = torch.export.Dim("n", min=3, max=30)
x = torch.arange(20.).view(5, 4)
ep = torch.export.export(M(), (x, 2.0), {"y": [torch.ones(6, 4)]}, dynamic_shapes={"x": {0: N}, "k": None, "y": [{0: N + 1}]})
[f(x, 2.0, y=[torch.ones(6, 4)])[0] for f in (ep.module(), ep.run_decompositions().module())]
class Plain(torch.nn.Module):
    def forward(self, x, k, *, y): return x + 1, y[0] * k
ep = torch.export.export(Plain(), (x, 2.0), {"y": [torch.ones(6, 4)]}, dynamic_shapes={"x": {0: N}, "k": None, "y": [{0: N + 1}]})
__u = torch.export.unflatten(ep)
def call(n, m, k=4, factor=2.0):
    try: return __u(torch.ones(n, 4), factor, y=[torch.ones(m, k)])[0].sum().item()
    except RuntimeError as error: return str(error)
call(4, 5), call(35, 36), call(2, 3), call(5, 7), call(5, 6, 3), call(5, 6, 4, 3.0)
""",
]
