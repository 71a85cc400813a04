"""Masked operations of sparse tensors and masks, and the names of ``torch.masked`` that libraries and tests use."""

import pytest

from tests.oracle import assert_prints_same

_START = """
M = torch.masked
x = torch.tensor([[0., 2., 0., -1.], [3., 0., 0., 4.], [0., 0., 0., 0.]])
m = torch.tensor([[False, True, False, True], [True, False, False, True], [False] * 4])
L = {"dense": lambda v: v, "coo": lambda v: v.to_sparse(), "csr": lambda v: v.to_sparse_csr()}
"""


@pytest.mark.parametrize("reduction", ["sum", "prod", "amax", "amin", "mean"])
def test_reductions(reduction):
    assert_prints_same(_START + f"""
op = "{reduction}"
for a in L:
    for b in (None, *L):
        for kw in ({{}}, {{"dim": 0}}, {{"dim": 1, "keepdim": True}}, {{"dim": (0, 1), "keepdim": True}},
                   {{"dim": 0, "keepdim": True}}):
            if a == "csr" and kw.get("dim") == 1 and op != "sum":
                continue  # PyTorch leaves a value behind the last one
            if op == "amin" and a == "coo" and b is None:
                continue  # PyTorch's message names amax
            if b is not None:
                kw = {{**kw, "mask": L[b](m)}}
            def call():
                found = getattr(M, op)(L[a](x), **kw)
                return found.layout, found.dtype, found.to_dense()
            t(call)
            if b and a == "coo" and op != "mean":
                t(lambda: getattr(M, op)(L[a](x.to(torch.int32)), **kw).to_dense())
""")


@pytest.mark.parametrize("name", ["softmax", "argmax", "var", "std", "norm", "median", "cumsum", "logsumexp", "normalize"])
def test_others_take_sparse_masks_only(name):
    assert_prints_same(_START + f"""
for a in L:
    args = (2., 0) if "{name}" == "normalize" else (0,)
    if a != "dense":
        t(lambda: M.{name}(L[a](x), *args))
    t(lambda: M.{name}(x, *args, mask=L[a](m)))
""")


@pytest.mark.parametrize("reduction", ["sum", "prod", "amax", "amin"])
def test_reductions_of_all_and_of_no_dimensions(reduction):
    assert_prints_same(f"""
M, op = torch.masked, "{reduction}"
m = torch.tensor([[True, False], [False, True]])
for x in (torch.tensor([[0., 2.], [3., 0.]]).to_sparse(), torch.tensor([[1., 2.], [3., 5.]]).to_sparse()):
    for d in ([], (), None, 0, [0, 1]):
        for k in (False, True):
            t(lambda: getattr(M, op)(x, dim=d, keepdim=k, mask=m.to_sparse()))
            if op == "sum":
                t(lambda: M.sum(x, dim=d, keepdim=k))
""")


def test_masks_of_inputs_and_outputs():
    assert_prints_same(_START + """
for a in L:
    for b in L:
        t(lambda: M._input_mask(L[a](x), mask=L[b](m)))
        t(lambda: M._input_mask(L[a](x), mask=L[b](m[:1])))
        t(lambda: M._combine_input_and_mask(M.sum, L[a](x), L[b](m)))
        if a == b:
            t(lambda: M._where(L[b](m), L[a](x), torch.tensor(7.)))
        for op in "sum norm mean softmax cumsum argmax median logsumexp normalize".split():
            for args in ((), (0,), (1,)):
                args = (2., *args) if op == "norm" else args
                if a == "dense" or op in ("softmax", "cumsum", "normalize"):
                    t(lambda: M._output_mask(getattr(M, op), L[a](x), *args, mask=L[b](m)))
t(lambda: M._input_mask(x))
t(lambda: M._output_mask(M.sum, x))
t(lambda: M._input_mask(x[0], mask=m))
t(lambda: M._input_mask(x, mask=m.float()))
t(lambda: M._output_mask(M.logaddexp, x, x, input_mask=m, other_mask=~m))
""")


def test_dimensions():
    assert_prints_same(_START + """
for d in (None, (), 0, -1, (0, -1), (0, 0), (1, 0), 5, [1, 0]):
    t(lambda: M._canonical_dim(d, 2))
t(lambda: M._canonical_dim(0, 0))
""")


def test_identities():
    assert_prints_same(_START + """
for op in "sum prod cumprod cumsum amax argmax logaddexp amin argmin mean norm median var std softmax".split():
    for dtype in (torch.float32, torch.float16, torch.int8, torch.uint8, torch.bool):
        args = (3.,) if op == "norm" else ()
        t(lambda: M._reduction_identity(op, torch.ones(2, dtype=dtype), *args))
t(lambda: M._reduction_identity("norm", x, float("-inf")))
""")


def test_names_of_operators():
    assert_prints_same("""
import torch.masked.maskedtensor.binary as b
import torch.masked.maskedtensor.reductions as r
import torch.masked.maskedtensor.unary as u
print(u.UNARY_NAMES, sorted(u.INPLACE_UNARY_NAMES), u.UNARY_NAMES_UNSUPPORTED)
print(b.BINARY_NAMES, sorted(b.INPLACE_BINARY_NAMES), r.REDUCE_NAMES)
print([str(f) for f in u.NATIVE_UNARY_FNS], sorted(map(str, b.NATIVE_INPLACE_BINARY_FNS)))
from torch.masked.maskedtensor.core import _masks_match, _tensors_match
M = torch.masked
x = M.masked_tensor(torch.ones(2), torch.tensor([True, False]))
y = M.masked_tensor(torch.ones(2), torch.tensor([True, True]))
print(_masks_match(x, x), _masks_match(x, y), _masks_match(x, torch.ones(2)))
a = torch.tensor([[0., 1.], [2., 0.]])
for f in (lambda v: v, torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr):
    print(_tensors_match(f(a).coalesce() if f(a).layout is torch.sparse_coo else f(a),
                         f(a).coalesce() if f(a).layout is torch.sparse_coo else f(a)))
t(lambda: _tensors_match(a, a.to_sparse()))
print(_tensors_match(a, a.double()), _tensors_match(a, a + 1e-9, exact=False))
""")


_SPARSE = _START + """
d = torch.tensor([[0., 2., 0.], [3., 0., -4.]])
m = torch.tensor([[True, True, False], [True, False, True]])
def make(layout, grad=False):
    k = L[layout](m)
    k = k.coalesce() if layout == "coo" else k
    return M.masked_tensor(d if layout == "dense" else d.sparse_mask(k), k, requires_grad=grad)
for layout in ("coo", "csr"):
    x = make(layout)
"""


def test_sparse_masked_tensors_are_shown():
    assert_prints_same(_SPARSE + """
    t(lambda: x)
    t(lambda: (x.layout, x.is_sparse, x.is_sparse_coo(), x.is_sparse_csr(), x.shape, x.dtype))
    t(lambda: (x.get_data(), x.get_mask()))
    t(lambda: (x.to_dense(), x.to_dense().layout, x.clone().layout, x.double().layout))
    t(lambda: (make("dense").to_sparse(), make("dense").to_sparse_csr().layout))
""")


def test_calls_on_sparse_masked_tensors():
    assert_prints_same(_SPARSE + """
    for name in ("sin", "abs", "exp", "isnan", "sign", "sqrt"):
        t(lambda: getattr(torch, name)(x))
    for name in ("add", "mul", "sub", "div", "eq", "maximum", "atan2"):
        t(lambda: getattr(torch, name)(x, x))
        t(lambda: getattr(torch, name)(x, make("dense")))
        t(lambda: getattr(torch, name)(x, x.get_data()))
    t(lambda: (x + 2, x * 2., x ** 2, x / 4))
    for name in ("sum", "mean", "amax", "amin", "prod", "var"):
        t(lambda: getattr(x, name)())
    t(lambda: x[0])
    try:
        x.sum(dim=0)
    except TypeError:
        print("refused")
""")


def test_gradients_of_sparse_masked_tensors():
    assert_prints_same(_SPARSE + """
    for f in (lambda y: y.to_dense(), lambda y: y * y, torch.sin):
        def call():
            y = make(layout, True)
            z = f(y)
            (z if z.layout is torch.strided else z.to_dense()).sum().backward()
            return y.grad, y.grad.layout
        t(call)
    def through():
        y = make("dense", True)
        (y.to_sparse() if layout == "coo" else y.to_sparse_csr()).to_dense().sum().backward()
        return y.grad
    t(through)
""")


def test_what_sparse_masked_tensors_are_not_made_of():
    assert_prints_same(_START + """
d, m = x, x != 0
i = torch.tensor([[0, 1], [0, 2]])
for a, b in (
    (d.to_sparse_csc(), m.to_sparse_csc()), (d.to_sparse(), m),
    (torch.sparse_coo_tensor(i, torch.ones(2), (2, 3)), torch.sparse_coo_tensor(i.flip(0), torch.ones(2) > 0, (2, 3))),
    (torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1., 2.]), torch.sparse_csr_tensor([0, 2, 2], [0, 1], [True, True])),
    (d.to_sparse(), L["coo"](x > 2)),
):
    t(lambda: M.masked_tensor(a, b))
k = torch.sparse_coo_tensor(i, torch.tensor([True, False]), (3, 4)).coalesce()
y = M.masked_tensor(d.sparse_mask(k), k)
t(lambda: (y, y.sum(), y.get_mask(), y.to_dense()))
""")
