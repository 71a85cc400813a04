"""Backward passes as graphs (`ftorch._dynamo.compiled_autograd`), in both libraries."""

from __future__ import annotations

import pytest

import ftorch as torch
from ftorch._dynamo import compiled_autograd
from ftorch._dynamo.utils import counters
from tests.differential.observing import compare

_HEAD = """
import torch._dynamo
torch._dynamo.reset()
from torch._dynamo.compiled_autograd import _disable, _enable
"""

PROGRAMS = {
    "training": """
n = []
def cf(gm):
    n.append(len(list(gm.graph.nodes)) > 5)
    return gm
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2))
opt = torch.optim.SGD(m.parameters(), 1e-2)
losses = []
for k in range(3):
    x = torch.arange(4. * (k + 2)).reshape(-1, 4) / 10
    with _enable(cf):
        loss = F.cross_entropy(m(x), torch.zeros(k + 2, dtype=torch.int64))
        opt.zero_grad()
        loss.backward()
    opt.step()
    losses.append(loss.item())
losses
""",
    "hooks": """
log = []
def cf(gm):
    log.append("c")
    def run(*a):
        log.append("r")
        return gm(*a)
    return run
def pack(t):
    log.append("p"); return t * 2
def unpack(t):
    log.append("u"); return t / 2
x = torch.arange(3.).requires_grad_()
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = (x.sin() * x).sum()
with _enable(cf): y.backward()
x.grad
log
x.grad = None
z = x * 2
z.retain_grad()
h = z.register_hook(lambda g: g * 3)
z.grad_fn.register_prehook(lambda gs: log.append("pre"))
z.grad_fn.register_hook(lambda gi, go: log.append("post"))
x.register_post_accumulate_grad_hook(lambda p: log.append("acc"))
w = z[:2]
w.mul_(2)
with _enable(cf): (z.sum() + w.exp().sum()).backward(retain_graph=True)
x.grad, z.grad
log
with _enable(cf): r = torch.autograd.grad((z * z).sum(), [x, z], retain_graph=True)
r
with _enable(cf): r = torch.autograd.grad(z.sum(), [torch.ones(1, requires_grad=True)])
with _enable(cf): r = torch.autograd.grad(z.sum(), [torch.ones(1, requires_grad=True)], allow_unused=True)
with _enable(cf):
    with _disable(): torch.autograd.grad((x ** 3).sum(), x, create_graph=True)[0].sum().backward()
x.grad
""",
    "functions": """
class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, k):
        ctx.save_for_backward(x, y); ctx.k = k
        return x * y * k, x + y
    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y * ctx.k + h, None, None
caps = []
def cf(gm):
    caps.append(1); return gm
for k in range(1, 4):
    x = torch.ones(k + 1, requires_grad=True); y = torch.ones(k + 1, requires_grad=True)
    a, b = Fn.apply(x, y, float(k))
    with _enable(cf): (a * b).sum().backward()
    print(x.grad, y.grad)
caps
with _enable(cf):
    p = torch.ones(2, requires_grad=True)
    for dt in (torch.float32, torch.float64):
        q = torch.ones(2, requires_grad=True, dtype=dt)
        (p * q).sum().backward()
    p.grad, q.grad
len(caps)
bad = torch.ones(2, requires_grad=True)
s = bad * 1
t = s * s
s.add_(1)
with _enable(cf): t.sum().backward()
""",
    "convolution": """
with _enable(lambda gm: gm):
    m = nn.Conv2d(1, 2, 3)
    F.max_pool2d(m(torch.arange(50.).reshape(2, 1, 5, 5)), 2).sum().backward()
m.weight.grad
def bad(gm): raise ValueError("x")
with _enable(bad): nn.Linear(3, 1)(torch.ones(1, 3)).sum().backward()
with _enable(lambda gm: gm, dynamic=False): r = nn.Linear(1, 1)(torch.ones(1, 1)).sum().backward()
""",
}


@pytest.fixture(autouse=True)
def forgotten():
    yield
    compiled_autograd.reset()
    counters.pop("compiled_autograd", None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_agree(name):
    found = [
        d for d in compare(_HEAD + PROGRAMS[name]) if d[0] not in ("is_view", "version", "warning")
    ]
    assert not found, found


def test_one_graph_for_all_sizes():
    graphs = []
    with compiled_autograd._enable(lambda graph: graphs.append(graph) or graph):
        for n in (2, 3, 5):
            x = torch.ones(n, requires_grad=True)
            (x.sin() * x).sum().backward()
    assert len(graphs) == 1 == counters["compiled_autograd"]["captures"]
    names = [node.name for node in graphs[0].graph.nodes]
    assert {"sin_backward0", "mul_backward0", "add", "call_accumulate_grad"} < set(names)
    assert names[:5] == ["inputs", "sizes", "scalars", "hooks", "packed_data"]


def test_sizes_count_where_they_are_static():
    graphs = []
    with compiled_autograd._enable(lambda graph: graphs.append(graph) or graph, dynamic=False):
        for n in (2, 3, 3):
            torch.ones(n, requires_grad=True).sin().sum().backward()
    assert len(graphs) == 2


def test_compiled_graphs():
    def gradients(compiler):
        torch.manual_seed(0)
        layer, found = torch.nn.Linear(3, 2), []
        with compiler:
            for n in (1, 2, 2, 4):
                layer.zero_grad()
                layer(torch.ones(n, 3)).tanh().sum().backward()
                found.append(layer.weight.grad.clone())
        return found

    expected = gradients(compiled_autograd._disable())
    for backend in ("eager", "inductor"):
        got = gradients(compiled_autograd._enable(lambda g, b=backend: torch.compile(g, backend=b)))
        compiled_autograd.reset()
        assert all(torch.allclose(a, b) for a, b in zip(expected, got))


def test_setting():
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with torch._dynamo.config.patch(compiled_autograd=True):
        train = torch.compile(lambda m, x: m(x).sum().backward(), backend="eager")
        train(layer, x)
    assert counters["compiled_autograd"]["captures"] == 1
    assert torch.equal(layer.weight.grad, torch.ones(2, 2))
    layer(x).sum().backward()  # outside of the function
    assert counters["compiled_autograd"]["captures"] == 1
