"""Products in Einstein's notation of operands of several dtypes, as S4's and RWKV's are, against PyTorch's."""

import pytest
import torch

import ftorch
from tests.oracle import LIBRARIES, assert_same, outcome

SIZES = dict(i=2, j=3, k=4, b=2, o=1)
EQUATIONS = [
    "i,i->i", "bi,i->bi", "bij,ij->bij", "i,j->ij", "ij,->ij", "ij,k->i", "ij,k->ijk", "bij,k->bk", "i,j,k->ijk",
    "ij,ij,ij->ij", "ij,jk->ik", "bij,bij->b", "i,i->", "ij,jk->", "io,ij->ij", "ij,oj->i", "o,o->", "i,o->", ",->",
    ",i->i", "ij,kj,j->ik",
]
DTYPES = [
    ("float32", "float64"), ("complex64", "float32"), ("float32", "complex64"), ("int64", "float32"),
    ("int32", "uint8"), ("bool", "float32"), ("float32", "bool"), ("float16", "bfloat16"), ("bfloat16", "float32"),
    ("bool", "bool"), ("int32", "int32"), ("complex64", "complex128"),
]


def operands(t, equation, dtypes):
    made = []
    for number, labels in enumerate(equation.split("->")[0].split(",")):
        shape = [SIZES[label] for label in labels]
        count = t.ones(shape).numel()
        made.append(t.arange(1, count + 1).reshape(shape).to(getattr(t, dtypes[number % 2])))
    return made


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("dtypes", DTYPES, ids="-".join)
def test_dtypes(equation, dtypes):
    (mine, own), (theirs, error) = (
        outcome(lambda t=t: t.einsum(equation, *operands(t, equation, dtypes))) for t in (ftorch, torch)
    )
    if error is None:
        assert own is None
        assert_same(mine, theirs)
    else:
        assert type(own) is type(error) and str(own) == str(error)


def test_gradients_have_the_operands_dtypes():
    found = []
    for t in (ftorch, torch):
        a = t.arange(6.0).reshape(2, 3).to(t.complex64).mul(1 + 2j).requires_grad_()
        b = t.arange(1.0, 7.0).reshape(2, 3).requires_grad_()
        c = t.arange(3.0, dtype=t.float64).requires_grad_()
        t.einsum("ij,ij,j->ij", a, b, c).abs().sum().backward()
        found.append([a.grad, b.grad, c.grad])
    for mine, theirs in zip(*found, strict=True):
        assert_same(mine, theirs)


def test_narrow_scalars_widen_on_the_host():
    """A number of bfloat16 that a step has made was none for the step after it."""
    x, y = (ftorch.full((), 3.0, dtype=getattr(ftorch, d)) for d in ("float16", "bfloat16"))
    assert ftorch.einsum(",->", x, y).item() == 9.0


_SIZES = dict(zip("ijklm", (2, 3, 4, 5, 2)))


@pytest.mark.parametrize(
    "equation",
    ["ij,jk->ki", "klm,k->lkm", "kim,i->mik", "kim,mj->kjim", "mkl,j->mlkj", "ki,im->mi", "kim,kjl->imk", "lk,jmi->mkji",
     "kil,jk->jl", "kil,jkm->jlm", "il,ijk->jl", "jk,kil->lj",
     "il,ik->li", "mi,jki->imk", "mj,im,klm,k->kjm", "i,ml,k->lmik", "ijm,ilm,imk->mij", "k,l,lim->il", "jlk,mi,l->kl"],
)
def test_strides_are_those_of_the_last_product(equation):
    def program(t):
        t.manual_seed(0)
        terms = equation.partition("->")[0].split(",")
        result = t.einsum(equation, *(t.rand([_SIZES[c] for c in term]) for term in terms))
        return tuple(result.shape), result.stride()

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
