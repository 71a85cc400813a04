"""`make_fx` of gradients and of batched functions: the graphs are PyTorch's, node by node."""

from __future__ import annotations

import re

import pytest
import torch

import ftorch

GRADIENTS = """
x.tanh().sum()
x.relu().mean()
x.sigmoid().exp().log().sum()
x.max()
x.max(0)[0].sum()
(x ** 2).sum()
(2 ** x).sum()
(x ** x).sum()
(x * 2 / 3 - 1).sum(1).mean(0)
(x / x.sum()).sum()
x.clamp(0, 1).sum()
x.amax(1).sum()
x.std(0).sum()
x.var()
x.norm()
x.logsumexp(1).sum()
x.softmax(-1)[0, 0]
x[0, 1:].sum()
x.gather(1, torch.zeros(2, 1, dtype=torch.long)).sum()
x[torch.zeros(2, dtype=torch.long)].sum()
x.index_select(0, torch.tensor([0])).sum()
torch.where(x > 0, x, x * 2).sum()
x.masked_fill(x > 1, 0).sum()
torch.cat([x, x * 2]).sum()
torch.stack([x, x]).sum()
x.cumsum(0).sum()
torch.maximum(x, x * 2).sum()
x.repeat(2, 1).sum()
x.expand(4, 2, 3).sum()
x.t().reshape(-1).sum()
x.squeeze().unsqueeze(0).permute(2, 0, 1).sum()
x.sqrt().rsqrt().reciprocal().sum()
x.abs().sum()
x.sort()[0].sum()
x.topk(1)[0].sum()
x.tril().sum()
torch.erf(x).sum()
torch.lerp(x, x * 2, 0.3).sum()
torch.addcmul(x, x, x).sum()
F.pad(x, (1, 1)).sum()
x.flip(0).roll(1, 0).sum()
torch.outer(x[0], x[1]).sum()
x.diagonal().sum()
(x @ x.t()).sum()
F.gelu(x).sum()
F.leaky_relu(x).sum() + F.softplus(x).sum() + F.hardtanh(x).sum()
F.mse_loss(x, torch.zeros(2, 3))
F.smooth_l1_loss(x, torch.zeros(2, 3))
F.cross_entropy(x, torch.tensor([0, 1]))
F.layer_norm(x, (3,)).sum()
F.avg_pool2d(x[None], 2).sum()
F.adaptive_avg_pool2d(x[None], 1).sum()
F.conv2d(x[None, None], torch.ones(1, 1, 1, 1)).sum()
F.embedding(torch.tensor([0, 1]), x).sum()
""".strip().splitlines()

CALLS = """
torch.func.vmap(lambda y: y.sin().sum())(x)
torch.func.vmap(lambda y: (y * 2 + y.exp()).relu())(x)
x.split(1)
torch.cat([x, x]).chunk(2)
x.unbind(1)
x.expand(4, 2, 3).reshape(-1)
x * torch.tensor(3.)
torch.zeros(2, 3) + torch.ones(3, dtype=torch.long)
torch.where(x > 0, x, 0.)
(F.softmax(x, -1), F.log_softmax(x, 0))
F.layer_norm(x, (3,))
F.max_pool2d(x[None, None], 2)
(x.std(), x.var(0), x.movedim(0, 1))
(x[:, 0:2].add_(1), x[..., None])
x.detach() * 2
""".strip().splitlines()


def _code(library, text, graded):
    make_fx = __import__(f"{library.__name__}.fx.experimental.proxy_tensor", fromlist=["make_fx"]).make_fx
    scope = {"torch": library, "F": library.nn.functional}
    function = eval(f"lambda x: {text}", scope)
    traced = make_fx(library.func.grad(function) if graded else function)
    x = library.tensor([[0.2, 1.3, 0.7], [1.1, 0.4, 2.5]])
    graph = traced(x)
    # Nodes that keep a result away from autograd, whose place is PyTorch's own.
    lines = [line for line in graph.code.splitlines() if not re.search(r"\bdetach(_\d+)? = .*detach(_\d+)? = None$", line)]
    return "\n".join(lines), graph(x)


@pytest.mark.parametrize("text", GRADIENTS)
def test_gradients_are_pytorchs_graphs(text):
    (mine, value), (theirs, expected) = (_code(library, text, True) for library in (ftorch, torch))
    assert mine == theirs
    torch.testing.assert_close(torch.from_numpy(value.numpy()), expected)


@pytest.mark.parametrize("text", CALLS)
def test_calls_are_pytorchs_graphs(text):
    mine, theirs = (_code(library, text, False)[0] for library in (ftorch, torch))
    assert mine == theirs


def _network(library):
    """The graph of the gradients of a network's loss with respect to its parameters."""
    nn = library.nn
    library.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2, 3), nn.LayerNorm(3))
    parameters = dict(net.named_parameters())

    def loss(p, x, t):
        return nn.functional.cross_entropy(library.func.functional_call(net, p, (x,)), t)

    make_fx = __import__(f"{library.__name__}.fx.experimental.proxy_tensor", fromlist=["make_fx"]).make_fx
    x, t = library.ones(4, 1, 3, 3), library.tensor([0, 1, 2, 0])
    graph = make_fx(library.func.grad(loss))(parameters, x, t)
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function" and "detach" not in str(n.target)]


def test_a_networks_gradients_are_made_of_pytorchs_ops():
    assert _network(ftorch) == _network(torch)
