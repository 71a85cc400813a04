"""What ``TorchDispatchMode`` sees of functions that ATen composes of other ops; nothing else is different there."""

from __future__ import annotations

import numpy as np
import pytest
import torch as pt
import torch.utils._python_dispatch as pt_dispatch

import ftorch as ft
import ftorch.utils._python_dispatch as ft_dispatch

EXPRESSIONS = """
    F.interpolate(im,scale_factor=2)
    F.interpolate(im,size=(3,3),mode='bilinear')
    F.interpolate(im,size=3,mode='bilinear',align_corners=True)
    F.interpolate(s,scale_factor=2,mode='linear')
    F.interpolate(im,size=3,mode='bicubic')
    F.interpolate(im,size=3,mode='nearest-exact')
    F.interpolate(im,size=3,mode='bilinear',antialias=True)
    torch.einsum('ij,jk->ik',x,x)
    torch.einsum('ij,ij->i',x,x)
    torch.einsum('bij,bjk->bik',im[0],im[0])
    torch.einsum('i,j->ij',x[0],x[1])
    torch.einsum('ij,j',x,x[0])
    torch.einsum('bhid,bhjd->bhij',q,q)
    F.scaled_dot_product_attention(q,q,q)
    F.scaled_dot_product_attention(q,q,q,is_causal=True)
    torch.fft.fft(x)
    torch.fft.ifft(x)
    torch.fft.rfft(x)
    torch.fft.irfft(c)
    torch.fft.fft2(x)
    torch.fft.rfft2(x)
    torch.fft.fft(c)
    torch.fft.fftshift(x)
    torch.fft.fftn(c)
    torch.linalg.svd(x)
    torch.linalg.svdvals(x)
    torch.linalg.eigh(x)
    torch.linalg.eigvalsh(x)
    torch.linalg.eigvals(x)
    torch.linalg.solve(x,x)
    torch.linalg.slogdet(x)
    torch.det(x)
    torch.linalg.inv(x)
    torch.inverse(x)
    torch.linalg.cholesky(x@x.T+torch.eye(2))
    torch.linalg.matrix_norm(x)
    torch.linalg.matrix_norm(x,1)
    torch.linalg.lu_factor(x)
    torch.linalg.matrix_power(x,3)
    torch.linalg.cond(x)
    torch.linalg.multi_dot([x,x,x])
    F.kl_div(x,x)
    F.kl_div(x,x,reduction='batchmean')
    F.cross_entropy(x,x)
    F.cross_entropy(x,i,label_smoothing=.1)
    F.poisson_nll_loss(x,x)
    F.margin_ranking_loss(x,x,x)
    F.soft_margin_loss(x,x)
    torch.isclose(x,x)
    F.dropout(x)
    F.alpha_dropout(x,.5,True)
    F.relu6(x)
    F.selu(x)
    F.tanhshrink(x)
    F.softsign(x)
    F.pdist(x)
    torch.cdist(x,x)
    F.max_pool1d(s,2)
    F.avg_pool1d(s,2)
    F.adaptive_avg_pool1d(s,2)
    F.grid_sample(im,torch.zeros(1,1,1,2))
    F.affine_grid(torch.rand(1,2,3),(1,1,2,2))
    F.pad(s,(1,1),mode='reflect')
    F.pad(s,(1,1),mode='replicate')
    F.rms_norm(x,(2,))
    x.unflatten(0,(1,2))
    x.tile(2)
    x.repeat_interleave(2,0)
    torch.diag(x)
    torch.diag(x[0])
    torch.kron(x,x)
    torch.chain_matmul(x,x)
    torch.diff(x)
    2%x
    x.round(decimals=1)
    torch.max(x,x)
    torch.special.expit(x)
    torch.float_power(x,2)
    x.new_zeros(2)
    x.new_ones(2)
    x.new_empty(2)
    torch.arange(1,3)
    torch.arange(0,1,.5)
    torch.eye(2,3)
    torch.randint(1,3,(2,))
    torch.normal(x,x)
    torch.tril_indices(2,2)
    torch.scalar_tensor(1.)
    c.real
    c.imag
    torch.real(c)
    torch.hann_window(4)
    torch.triu_indices(2,2)
    torch.cross(torch.rand(2,3),torch.rand(2,3),dim=1)
    x.clone().bernoulli_(.5)
    x.clone().random_(3)
    nn.Linear(2,2)(x)
    nn.Embedding(2,2)(i)
    torch.nn.Parameter(x)
    torch.func.functional_call(nn.Linear(2,2),{},x)
    torch.msort(x)
    torch.fliplr(x)
    F.kl_div(x,x,log_target=True)
    F.rms_norm(x,(2,),x[0])
    torch.einsum('...ij,...jk->...ik',im,im)
    torch.einsum('ij,ij',x,x)
    torch.linalg.matrix_norm(x,-1)
    torch.linalg.multi_dot([x,x])
    torch.kron(x,x[0])
    torch.fft.ifftn(torch.complex(x,x),norm='ortho')
    torch.fft.fft(x,norm='forward')
    F.max_pool1d(s,3,2)
    F.cross_entropy(x,i,label_smoothing=.2,reduction='sum')
    F.cross_entropy(x,x,reduction='none')
    F.interpolate(im,scale_factor=1.5,mode='bicubic')
    F.pad(im,(1,1,2,0),mode='reflect')
    F.grid_sample(im,x.view(1,1,2,2),mode='nearest')
    torch.repeat_interleave(im,3,2)
    torch.diff(im,dim=1)
    torch.einsum('ij,jk->ki',x,x)
    torch.einsum('bij,bjk->kbi',im[0],im[0])
    x.clone().bernoulli_(x.detach()/3)
    c.conj().imag
    c.conj().real
    F.kl_div(x.sum(),x.sum(),reduction='batchmean')
    torch.eye(n=2,m=3)
    torch.arange(end=3)
    torch.arange(1,end=3)
    torch.arange(1.,3.,step=.5)
    torch.randint(low=1,high=3,size=(2,))
    torch.randint(3,size=(2,))
    torch.zeros(size=(2,))
    x.new_zeros(size=(2,))
    x.clone().normal_(std=2.)
    x.clone().normal_(mean=0.,std=1.)
    x.clone().bernoulli_(p=.3)
    x.clone().uniform_(0,1)
    torch.normal(mean=x,std=x)
    torch.normal(x)
    torch.normal(2.,3.,size=(2,))
    torch.bernoulli(x,.5)
    torch.randint_like(x,1,3)
    F.scaled_dot_product_attention(q[0],q[0],q[0],scale=-2.)
""".split("\n")
EXPRESSIONS = [e.strip() for e in EXPRESSIONS if e.strip()]
# Random numbers, and results that are gauges.
UNDEFINED = ("normal", "random_", "bernoulli", "uniform_", "dropout", "nn.", "new_empty", "rand", "svd(", "eigh(", "eigvals(")
# Without gradients in PyTorch.
CONSTANT = ("2%", "soft_margin")


def _shown(value, library):
    if isinstance(value, library.Tensor):
        return "T"
    if isinstance(value, (list, tuple)):
        return [_shown(v, library) for v in value]
    return str(value).replace("ftorch", "torch")


def _scope(library):
    rng = np.random.default_rng(0)

    def leaf(*size):
        return library.tensor(rng.random(size), dtype=library.float32).requires_grad_()

    x = library.tensor(rng.random((2, 2)) + np.eye(2), dtype=library.float32).requires_grad_()
    return {"torch": library, "F": library.nn.functional, "nn": library.nn, "x": x, "im": leaf(1, 2, 4, 4), "s": leaf(1, 2, 4),
            "q": leaf(1, 2, 3, 4), "c": library.complex(x.detach(), x.detach()), "i": library.tensor([0, 1])}


def _run(library, expression, mode):
    scope = _scope(library)
    library.manual_seed(0)
    if mode is None:
        result = eval(expression, scope)
    else:
        with mode:
            result = eval(expression, scope)
    results = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(r, library.Tensor)]
    parts = [(r.abs() if r.is_complex() else r).square().sum() for r in results if r.requires_grad]
    leaves = [scope[name] for name in ("x", "im", "s", "q")]
    grads = library.autograd.grad(sum(parts), leaves, allow_unused=True) if parts else ()
    values = [r.detach().resolve_conj().resolve_neg().numpy() for r in results]
    return type(result).__name__, values, [g if g is None else g.numpy() for g in grads]


def _log(library, dispatch, seen):
    class Log(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            named = {k: _shown(v, library) for k, v in sorted((kwargs or {}).items())}
            seen.append((str(func), _shown(args, library), named))
            return func(*args, **(kwargs or {}))

    return Log()


def _calls(library, dispatch, expression):
    scope, seen = _scope(library), []
    scope.update({k: scope[k].detach() for k in ("x", "im", "s", "q")})
    library.manual_seed(0)
    with _log(library, dispatch, seen):
        eval(expression, scope)
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_mode_sees_what_atens_functions_call(expression):
    assert _calls(ft, ft_dispatch, expression) == _calls(pt, pt_dispatch, expression)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS if not any(u in e for u in UNDEFINED + CONSTANT)]
                         + ["x.masked_select(x > 1)", "x.clone().zero_().normal_().sum() * 0 + x.sum()"])
def test_values_and_gradients_are_the_same_within_a_mode(expression):
    kind, values, grads = _run(ft, expression, _log(ft, ft_dispatch, []))
    for library in (pt, ft):
        theirs = _run(library, expression, None)
        assert kind == theirs[0]
        for a, b in zip(values, theirs[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        for a, b in zip(grads, theirs[2], strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


REFUSED = """
    torch.fft.rfft(c)
    torch.fft.fft(x,dim=5)
    torch.fft.fft(x.sum())
    torch.linalg.matrix_norm(x[0])
    torch.linalg.matrix_power(im[0,0,:2],2)
    torch.isclose(x,x.double())
    torch.isclose(x,x,rtol=-1)
    torch.repeat_interleave(x,2,dim=3)
    torch.repeat_interleave(x,-1,dim=0)
    x.unflatten(5,(1,-1))
    x.unflatten(1,(3,-1))
    torch.diag(im)
    torch.fliplr(x[0])
    x.diff(dim=4)
    F.rms_norm(x,(3,))
    F.max_pool1d(s,5)
    F.kl_div(x,x,reduction='foo')
    F.cross_entropy(x,x,reduction='foo')
    F.poisson_nll_loss(x,x,reduction='foo')
    F.grid_sample(im,torch.zeros(1,1,1,2),mode='foo')
    torch.linalg.inv(torch.zeros(2,2))
    torch.linalg.inv(torch.zeros(2,2,2))
    torch.linalg.cholesky(torch.stack([torch.eye(2),-torch.eye(2)]))
    torch.linalg.solve(torch.zeros(2,2),x)
    torch.linalg.lu_factor(torch.zeros(2,2,2))
""".split()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", REFUSED)
def test_arguments_are_refused_within_a_mode_as_without(expression):
    def said(library, mode):
        with pytest.raises((RuntimeError, IndexError, ValueError)) as caught, mode:
            eval(expression, _scope(library))
        return type(caught.value).__name__, str(caught.value)

    assert said(ft, _log(ft, ft_dispatch, [])) == said(pt, _log(pt, pt_dispatch, []))
