"""Masked tensors: what calls give and print, and their gradients, in ftorch as in PyTorch."""

import pytest

from tests.differential.observing import compare

_START = """
import warnings; warnings.simplefilter("ignore")
import torch.masked as M
x = M.masked_tensor(torch.arange(4.).view(2, 2), torch.tensor([[True, False], [True, True]]))
i = M.masked_tensor(torch.arange(4).view(2, 2), torch.tensor([[True, False], [True, True]]))
one = M.masked_tensor(torch.tensor(1.), torch.tensor(True))
y = M.masked_tensor(torch.ones(2, 2), torch.ones(2, 2, dtype=torch.bool))
def show(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, str(e)[:28])
"""

_CALLS = [
    "x, i, one, M.masked_tensor(torch.tensor([True, False]), torch.tensor([True, False]))",
    "x.sum(), x.sum(0), x.sum(1, keepdim=True), x.mean(), x.mean(0), x.amax(), x.amax(1), x.amin(0)",
    "x.prod(), x.prod(1), x.argmax(), x.argmax(1), x.std(), x.std(0), x.var(1), x.all(), torch.sum(x, 0)",
    "M.sum(x), M.sum(x, 0), M.amax(x, 1), M.prod(x, 0)",
    "x.max()",
    "x.cumsum(0)",
    "x + x, x + 1, 1 + x, x + torch.ones(2, 2), x * 2, x - 2, x / 2, 2 / x, x ** 2, -x, abs(x), ~i",
    "x + y",
    "x == x, x > 1, x < x",
    "x.exp(), torch.exp(x), x.sigmoid(), x.round(), x.isnan()",
    "x.sin_(), x.add_(x), x.mul_(2)",
    "torch.where(x.get_mask(), x, y)",
    "x.softmax(0), torch.softmax(x, 1)",
    "x.get_data(), x.get_mask(), x.to_tensor(5)",
    "x.view(4), x.reshape(4), x[0], x[0, 0], x[:, 1], x.t()",
    "x.transpose(0, 1), x.unsqueeze(0), x.expand(2, 2, 2), x.clone(), x.detach(), x.contiguous(), x.flatten()",
    "x.double(), x.to(torch.float64).dtype, torch.ones_like(x)",
    "x.permute(1, 0)",
    "x.tolist()",
    "x.numpy()",
    "torch.cat([x, x]), torch.stack([x, x]), torch.chunk(x, 2), x.split(1)",
    "torch.mm(x, x)",
    "torch.zeros_like(x)",
    "x.shape, x.dtype, x.dim(), x.numel(), x.device, len(x), one.item(), float(one), bool(one)",
    "M.is_masked_tensor(x), M.is_masked_tensor(3), isinstance(x, torch.Tensor)",
    "torch.maximum(x, x), torch.clamp(x, 0, 1)",
    "M.MaskedTensor(torch.ones(2), torch.ones(2))",
    "M.MaskedTensor(torch.ones(2), torch.ones(3, dtype=torch.bool))",
    "M.MaskedTensor(3, torch.ones(3))",
    "M.MaskedTensor(torch.ones(3), 3)",
    "M.MaskedTensor(x, x.get_mask())",
    "M.masked_tensor(torch.ones(1) * 1j, torch.tensor([True]))",
]


@pytest.mark.parametrize("call", _CALLS)
def test_calls(call):
    program = f"{_START}\nshow(lambda: ({call}))\n"
    assert [d for d in compare(program) if d[0] == "printed"] == []


def test_gradients():
    program = (
        _START
        + """
def leaf(): return M.masked_tensor(torch.arange(1., 5.), torch.tensor([True, False, True, False]), requires_grad=True)
for f in (lambda b: (b * b).sum(), lambda b: b.exp().mean(), lambda b: b.prod(), lambda b: b.amax(), lambda b: b[0:3].sum()):
    b = leaf()
    f(b).backward()
    print(b.is_leaf, b.grad)
a = torch.arange(4., requires_grad=True)
m = M.as_masked_tensor(a, torch.tensor([True, False, True, False]))
m.sum().backward()
print(m.requires_grad, m.is_leaf, a.grad)
x = torch.tensor([-10., -5, 0, 5, 100])
mask = x < 0
mx = M.masked_tensor(x, mask, requires_grad=True)
my = M.masked_tensor(torch.ones_like(x), ~mask, requires_grad=True)
s = torch.where(mask, torch.exp(mx), my).sum()
s.backward()
print(s, mx.grad)
"""
    )
    assert [d for d in compare(program) if d[0] in ("printed", "raises")] == []
