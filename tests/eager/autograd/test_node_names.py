"""Nodes of the graph have PyTorch's names."""

import warnings

import pytest
import torch as pt

import ftorch as ft

# By what the rules of `ftorch.eager.autograd.node_names` distinguish.
PROGRAMS = {
    "numbers": "x//2; x%2; x%x; t.fmod(x,2); t.fmod(x,x); x**2; x**x; 2**x; 2-x; x-2; 1/x; x/2; t.rsub(x,2); "
    "t.rsub(x,x); t.xlogy(x,2.); t.xlogy(2.,x); t.xlogy(x,x); t.copysign(x,1.); t.copysign(x,x); "
    "t.clamp_min(x,1); t.clamp_min(x,x); t.clamp_max(x,x); x.clamp(0,1); x.clamp(y,y); t.float_power(x,2); "
    "t.float_power(x,x); t.float_power(2,x); t.heaviside(x,x)",
    "overloads": "t.squeeze(m[None]); t.squeeze(m[None],0); t.squeeze(m[None],(0,1)); t.sort(x)[0]; "
    "t.sort(x,stable=True)[0]; t.nanmedian(x); t.nanmedian(m,0)[0]; t.fill(x,2.); t.fill(x,t.tensor(2.)); "
    "t.index_fill(x,0,c,1.); t.index_fill(x,0,c,t.tensor(1.)); t.scatter(x,0,c,1.); t.scatter(x,0,c,x); "
    "t.lerp(x,x,.5); t.lerp(x,x,x); m.sum(0); m.mean(0); m.prod(0)",
    "letters": "t.log1p(x); t.deg2rad(x); t.special.i0e(x); t.special.xlog1py(x,x); F.unfold(i,2); "
    "F.max_pool2d(i,2); F.avg_pool2d(i,2); F.adaptive_max_pool2d(i,2); t.round(x); t.round(x,decimals=1)",
    "reduced": "; ".join(
        f"F.{loss}, reduction='{r}')"
        for r in ("mean", "sum", "none")
        for loss in (
            "l1_loss(x,2*x",
            "mse_loss(x,2*x",
            "kl_div(x,y",
            "poisson_nll_loss(x,y",
            "margin_ranking_loss(x,2*x,y",
            "hinge_embedding_loss(x,y",
            "triplet_margin_loss(m,2*m,3*m",
            "cross_entropy(m,c",
            "cross_entropy(m,m.detach()",
            "cross_entropy(m,c,label_smoothing=.1",
        )
    ),
    "dimensions": "F.linear(m,w); F.linear(m,w,b); F.linear(m[None],w); F.linear(m[None],w,b); F.linear(m[0],w); "
    "F.linear(m[0],w,b); t.matmul(m,w.T); t.matmul(m[0],w.T); t.matmul(m,m[0]); t.matmul(m[None],w.T); "
    "t.diag(x); t.diag(m); m.T.reshape(6); m.T.flatten(); m.flatten(); F.conv2d(i,k); F.conv2d(i[0],k); "
    "F.scaled_dot_product_attention(i,i,i); "
    "F.grid_sample(i,t.zeros(1,2,2,2)); t.repeat_interleave(x,2); t.repeat_interleave(x,c)",
    "modes": "F.interpolate(i,scale_factor=2.); F.interpolate(i,scale_factor=2.,mode='bilinear'); "
    "F.interpolate(i[0],scale_factor=2.,mode='linear'); F.pad(i,(1,1)); F.pad(i,(1,1,1,1),mode='reflect'); "
    "F.pad(i,(1,1,1,1),mode='replicate'); F.adaptive_avg_pool2d(i,1); F.adaptive_avg_pool2d(i,2); "
    "t.linalg.norm(a,'nuc'); t.linalg.norm(a,2); t.linalg.matrix_norm(a); t.fft.fft(x); t.fft.fft(x+0j); t.fft.ifft(x)",
    "drawn": "(x*2).normal_(); (x*2).uniform_(); (x*2).exponential_(); (x*2).cauchy_(); (x*2).log_normal_(); "
    "(x*2).geometric_(.5); (x*2).bernoulli_(.5); (x*2).bernoulli_(y/2); (x*2).random_(); (x*2).random_(5); "
    "(x*2).random_(2,5); F.rrelu(x); F.rrelu(x,training=True); F.rrelu(x*2,inplace=True); "
    "F.rrelu(x*2,training=True,inplace=True)",
    "indices": "m[None]; m[None,None]; m[1:,None]; m[None,1:]; m[:,None]; m[1,:]; m[1,None]; m[...,None]; m[:,1:]; "
    "m[1:,:]; m[...,1]; m[:,:]; m[None,0]; m[0:2]; m[0:2,None]; m[0,0,None]",
    "composed": "t.square(x); t.outer(x,x); F.softsign(x); F.normalize(m); F.rms_norm(m,(3,)); F.selu(x); "
    "F.relu6(x); F.cosine_similarity(m,m); t.linalg.inv(a); t.linalg.solve(a,a); t.linalg.cholesky(a); "
    "t.linalg.eigvalsh(a); t.logdet(a); t.det(a); t.slogdet(a)[1]; t.quantile(x,.5); t.diff(x); t.fliplr(a); t.tile(x,(2,)); "
    "t.einsum('ij,kj->ik',m,w); F.batch_norm(i,None,None,training=True); F.prelu(x,t.tensor([.1]))",
}


def names(t, programs):
    scope = {
        "t": t, "F": t.nn.functional, "y": t.ones(2), "c": t.tensor([0, 1]), "k": t.ones(1, 1, 2, 2),
        **{name: t.ones(shape, requires_grad=True) for name, shape in {
            "x": (2,), "m": (2, 3), "w": (4, 3), "b": (4,), "i": (1, 1, 4, 4)}.items()},
        "a": t.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {p: eval(p, scope).grad_fn.name() for p in programs.split("; ")}


@pytest.mark.parametrize("programs", PROGRAMS.values(), ids=PROGRAMS)
def test_names(programs):
    assert names(ft, programs) == names(pt, programs)


@pytest.mark.parametrize("program", [
    lambda t, x: x // 2, lambda t, x: 5 // x, lambda t, x: t.heaviside(x, x), lambda t, x: t.igamma(x, x),
    lambda t, x: t.special.zeta(x, x),
])
def test_what_has_no_derivative_fails_where_it_is_asked_for(program):
    raised = []
    for t in (ft, pt):
        out = program(t, t.tensor([1.5, 2.5], requires_grad=True))
        with pytest.raises(Exception) as caught:  # noqa: PT011
            out.sum().backward()
        raised.append((repr(out), type(caught.value).__name__, str(caught.value)))
    assert raised[0] == raised[1]


# Functions of x = a vector and m = a matrix, whose gradients' own nodes are asked for.
GRADIENTS = (
    "x**2; x**y; 2**x; y**x; x.exp(); x.log(); x.sin(); x.cos(); x.tan(); x.tanh(); x.sigmoid(); x.relu(); x.sqrt(); "
    "x.rsqrt(); x.abs(); -x; x*y; y*x; x*3; x/y; y/x; 3/x; 3-x; y-x; x+y; x+3; x-3; x.clone(); x.sum(); m.sum(0); "
    "x.mean(); m.mean(0); x.prod(); x.softmax(0); x.log_softmax(0); x.logsumexp(0); x.var(); x.std(); x.max(); "
    "m.max(0)[0]; t.maximum(x,y); m.amax(0); t.where(x>.4,x,y); x.clamp(.4,.6); x.clamp_min(.4); F.gelu(x); F.silu(x); "
    "F.softplus(x); F.elu(x); F.leaky_relu(x); F.hardtanh(x); F.logsigmoid(x); F.mse_loss(x,y); F.l1_loss(x,y); "
    "F.smooth_l1_loss(x,y); F.huber_loss(x,y); F.nll_loss(m,c[:2]); F.cross_entropy(m,c[:2]); F.linear(m,n); "
    "F.linear(n,m); F.linear(n,n,x[:2]); m@n; n@m; t.addmm(n,m,n); m.mv(y[:2]); n.mv(x[:2]); x.dot(y); t.outer(x,y); "
    "x.norm(); t.linalg.vector_norm(x); m.t(); m.view(4); x.expand(2,3); m.permute(1,0); m.transpose(0,1); m[0]; m[:1]; "
    "m[None]; m.diagonal(); x.unfold(0,2,1); x[c]; x.gather(0,c); x.index_select(0,c); t.cat([x,y]); t.stack([x,y]); "
    "x.cumsum(0); m.inverse(); m.det(); t.linalg.solve(m,n); t.linalg.solve(n,m); x.erf(); x.log1p(); x.expm1(); "
    "x.reciprocal(); x.square(); t.atan2(x,y); t.lerp(x,y,.3); t.addcmul(y,x,y); t.addcdiv(y,x,y); F.layer_norm(m,(2,)); "
    "F.embedding(c[:2],m); x.masked_fill(x>.4,0.); m.tril(); x.flip(0); x.roll(1); x.repeat(2); x.sinh(); x.cosh(); "
    "x.asin(); x.acos(); x.atan(); x.log2(); x.exp2(); x.lgamma(); x.digamma(); x.sort()[0]; x.topk(2)[0]; m.trace(); "
    "t.dist(x,y); t.cosine_similarity(x,y,dim=0); F.selu(x); F.mish(x); F.hardswish(x); F.glu(m); t.fmod(y,x); y%x; "
    "F.batch_norm(m,None,None,training=True)"
).split("; ")


def _gradient_node(library, program):
    x = library.tensor([0.3, 0.5, 0.7], requires_grad=True)
    m = library.tensor([[0.3, 0.5], [0.7, 0.2]], requires_grad=True)
    scope = {
        "t": library, "F": library.nn.functional, "x": x, "m": m, "y": library.tensor([0.2, 0.9, 0.4]),
        "n": library.tensor([[0.1, 0.9], [0.4, 0.6]]), "c": library.tensor([0, 1, 1]),
    }
    result = eval(program, scope)
    start = library.ones_like(result).requires_grad_()
    found = [g for g in library.autograd.grad(result, (x, m), start, create_graph=True, allow_unused=True) if g is not None]
    return [g.grad_fn.name() if g.grad_fn is not None else g is start for g in found]


@pytest.mark.parametrize("program", GRADIENTS)
def test_gradients_have_the_names_of_their_last_ops(program):
    assert _gradient_node(ft, program) == _gradient_node(pt, program)
