"""``torch.Tensor(x)`` and its like of a tensor are views: gradients flow through them (PINA's labelled tensors)."""

import pytest
import torch as reference

import ftorch

CALLS = ("t.Tensor(x)", "S(x)", "t.FloatTensor(x)", "x.new(x)", "S(S(x))", "t.Tensor(x * 2)", "t.Tensor(t.ones(2))",
         "t.ones(1).new(t.ones(2))", "t.LongTensor(t.arange(2))", "t.Tensor(x.detach())")


@pytest.mark.parametrize("call", CALLS)
def test_views(call):
    def told(t):
        scope = {"t": t, "S": type("S", (t.Tensor,), {}), "x": t.ones(2, requires_grad=True)}
        y = eval(call, scope)
        if y.requires_grad:
            y.mul(3).sum().backward()
        grad = scope["x"].grad
        return (type(y).__name__, y.requires_grad, y.is_leaf, type(y.grad_fn).__name__, y._is_view(), str(y.dtype),
                None if grad is None else grad.tolist())

    assert told(ftorch) == told(reference)
