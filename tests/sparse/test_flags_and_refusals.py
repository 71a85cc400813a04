"""What is known of the places of coordinates after each operation, and what sparse tensors refuse."""

import warnings

import pytest
import torch as reference

import ftorch


def tensors(t):
    index = t.tensor
    return {
        "none": t.sparse_coo_tensor(t.zeros(2, 0, dtype=t.long), t.zeros(0), (2, 3)),
        "one": t.sparse_coo_tensor(index([[1], [2]]), index([.5]), (2, 3)),
        "two": t.sparse_coo_tensor(index([[1, 0], [2, 1]]), index([.5, .25]), (2, 3)),
        "twice": t.sparse_coo_tensor(index([[1, 0, 1], [2, 1, 2]]), index([.5, .25, .125]), (2, 3)),
        "hybrid": t.sparse_coo_tensor(index([[1, 0]]), t.ones(2, 3), (2, 3)),
    }


def told(t, call, x, y):
    scope = {"t": t, "x": x, "y": y, "c": x.coalesce(), "h": tensors(t)["hybrid"], "m": t.tensor([[1., 0, 0, 2], [0, 0, 0, 0]]),
             "e": lambda *size: t.sparse_coo_tensor(size)}
    if "i." in call:
        scope["i"] = t.sparse_csr_tensor(t.tensor([0, 1, 2]).int(), t.tensor([1, 0]).int(), t.tensor([1., 2.]), (2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = eval(call, scope)
        except (RuntimeError, IndexError, TypeError, NotImplementedError, ValueError) as error:
            return type(error).__name__, str(error).split("\n")[0].partition(" backend.")[0]
    if not isinstance(made, t.Tensor):
        return made if isinstance(made, (bool, tuple)) and not isinstance(made, t.Size) else str(made)
    if made.layout is not t.sparse_coo:
        return str(made.layout), str(made.dtype), made.to_dense().tolist()
    return (tuple(made.shape), str(made.dtype), made.is_coalesced(), made.sparse_dim(), made._indices().tolist(),
            made._values().tolist())


@pytest.mark.parametrize("name", ["none", "one", "two", "twice", "hybrid"])
@pytest.mark.parametrize("call", [
    "x", "x.t()", "c.t()", "x.permute(1, 0)", "c.permute(dims=(0, 1))", "x.unsqueeze(0)", "c.unsqueeze(1)", "c.unsqueeze(2)",
    "t.cat([x, x])", "t.cat([c, c])", "x.mul(y)", "c.mul(y)", "x.mul(c)", "c * c", "c * 2", "c.mul_(2)", "c.div_(2)",
    "x._coalesced_(False)", "x.clone()._coalesced_(False).neg()", "x.index_select(0, t.tensor([0]))", "x.sum(0)", "c.sum(())",
    "t.sparse.sum(c, (0, 0))", "t.sparse_coo_tensor(x._indices(), x._values(), x.shape, is_coalesced=False)", "bool(c)",
    "c.narrow(9, 0, 1)", "c.narrow(0, 0, 9)", "c.narrow(0, 0, 1)", "x.new(2, 3)", "x.new(t.Size([2, 3]))", "x.new((2, 3))",
    "x.new()", "x.new(t.tensor([[0], [1]]), t.tensor([3.]))", "x.new_ones(2)", "x.new_full((2,), 1.)", "c.norm(dim=0)",
    "(x._dimI(), x._dimV())", "x.is_same_size(c)", "c // c", "c.floor_divide(t.ones(2, 3))", "c / c", "t.zeros((4, 3), out=x)",
    "x.resize_as_(t.zeros(2))", "t.zeros(2, 3).resize_as_(x)", "c.relu_()", "x.sin_()", "x.sqrt_()", "x.neg_()", "x.pow_(2)",
    "x.positive()", "x.abs()",
])
def test_calls(name, call):
    got, wanted = (told(t, call, tensors(t)[name], tensors(t)[name]) for t in (ftorch, reference))
    assert got == wanted


@pytest.mark.parametrize("call", [
    "h.copy_(c)", "c.copy_(h)", "c.copy_(e(2, 3, 4))", "e(2, 3).copy_(c)", "c.copy_(e(1, 3))", "h + e(2, 3)", "e(2, 3) + h",
    "h + c", "h * c", "h * e(2, 3)", "c * t.ones(2, 2, 3)", "x.mul(t.ones(2, 2, 3))", "c.add_(c.double())",
    "c.mul_(c.double())", "c.angle()", "c.norm(dtype=t.float64)", "c.norm(p='nuc')", "t.bmm(e(0, 2, 3), t.ones(0, 3, 4))",
    "t.bmm(e(2, 2, 0), t.ones(2, 0, 4))", "c.sum(0, keepdim=True)", "c.sum((0, 1), keepdim=True)",
    "t.ones(3, 2, 4).to_sparse_csr()[1]", "t.ones(3, 2, 4).to_sparse_csc()[1]", "m.to_sparse_csc().sum(0, keepdim=True)",
    *[f"m.to_sparse(layout=t.sparse_{a}, blocksize=(2, 2)).to_sparse(layout=t.sparse_{b}, blocksize={c})"
      for a in ("bsr", "bsc") for b in ("bsr", "bsc", "csr") for c in (None, (2, 2), (1, 2)) if b != "csr" or c is None],
    *[f"m.to_sparse(layout=t.sparse_{a}).to_sparse(layout=t.sparse_bsr)" for a in ("coo", "csr", "csc")],
    *[f"t.zeros(*{size}).to_sparse(layout=t.sparse_{a}, blocksize=(2, 2)).shape" for a in ("bsr", "bsc")
      for size in ((0, 4), (2, 0))],
    *[f"i.to_sparse(layout=t.sparse_{a}{b}).{c}_indices().dtype" for a, b, c in (
        ("csc", "", "ccol"), ("bsr", ", blocksize=(1, 2)", "crow"), ("bsc", ", blocksize=(1, 2)", "ccol"))],
    "t.sin(c, out=t.zeros(2, 3))", "t.mul(c, 2, out=t.zeros(2, 3))", "t.sqrt(c, out=t.zeros(2, 3))",
    "t.zeros_like(t.ones(2), layout=t.sparse_coo)", "t.zeros_like(t.ones(2, 2), layout=t.sparse_csr)",
    "t.empty_like(t.ones(2), layout=t.sparse_coo)", "t.ones_like(t.ones(2), layout=t.sparse_coo)",
    "bool(t.sparse_coo_tensor((0,)))", "t.sparse.spdiags(t.ones(0, 3), t.zeros(0, dtype=t.long), (3, 3))",
])
def test_other_calls(call):
    found = []
    for t in (ftorch, reference):
        x = tensors(t)["two"]
        found.append(told(t, call, x, x))
    if found[1][0] == "RuntimeError" and "INTERNAL ASSERT" in found[1][1]:
        assert found[0][0] == "RuntimeError"
    else:
        assert found[0] == found[1]
