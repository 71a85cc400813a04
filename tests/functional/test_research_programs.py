"""Small programs as researchers write them: compositions of transforms, compared with PyTorch live."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft
import ftorch.nn.functional  # noqa: F401
from tests.oracle import assert_same_outcome, outcome

PROGRAMS: dict = {}


def program(function):
    """A program ``(torch, functional, data) -> results``; ``data`` is a fixed 3 x 4 float64 tensor."""
    PROGRAMS[function.__name__.strip("_")] = function
    return function


def data(torch):
    return torch.linspace(-1.5, 2, 12, dtype=torch.float64).reshape(3, 4)


def weights(torch, *shape, start=0.3):
    n = 1
    for s in shape:
        n *= s
    return (torch.linspace(start, 2, n, dtype=torch.float64).cos() / 2).reshape(shape)


def net(torch, *extra):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 5), *extra, nn.Tanh(), nn.Linear(5, 2)).double()


def call(torch, module):
    return {n: p.detach() for n, p in module.named_parameters()}, lambda p, x: (
        torch.func.functional_call(module, p, (x,))
    )


def flat(tree):
    if isinstance(tree, dict):
        return [flat(tree[k]) for k in sorted(tree)]
    if isinstance(tree, (list, tuple)):
        return [flat(v) for v in tree]
    return tree


# --- gradients of gradients, Jacobians -----------------------------------------------


@program
def _vmap_over_autograd_grad_of_parameters(t, x):
    w = weights(t, 4).requires_grad_()

    def f(v):
        return t.autograd.grad((w * v).sin().sum(), w, create_graph=True)[0]

    out = f(x[0])
    return out, t.autograd.grad(out.sum(), w)


@program
def _mapped_pullbacks(t, x):
    w = weights(t, 4).requires_grad_()
    y = (w * x).sin()
    return t.vmap(lambda v: t.autograd.grad(y, w, v, retain_graph=True)[0])(
        t.eye(12, dtype=x.dtype).reshape(12, 3, 4)
    )


@program
def _jacrev_of_jacfwd_with_aux(t, x):
    def f(x):
        return (x**3).sum(), (x.sum(), x * 2)

    def inner(x):
        j, aux = t.func.jacfwd(f, has_aux=True)(x)
        return j, aux

    return t.func.jacrev(inner, has_aux=True)(x[0])


@program
def _jacfwd_of_jacrev_with_aux(t, x):
    f = lambda x: (x.sin() * x.sum(), x.exp())  # noqa: E731
    return t.func.jacfwd(t.func.jacrev(f, has_aux=True), has_aux=True)(x[0])


@program
def _third_derivative(t, x):
    g = t.func.grad(t.func.grad(t.func.grad(lambda x: (x**4).sin())))
    return t.vmap(t.vmap(g))(x)


@program
def _forward_of_reverse_of_forward(t, x):
    def inner(x):
        return t.func.jvp(t.sin, (x,), (x,))[1].sum()

    return t.func.jvp(t.func.grad(inner), (x,), (x.cos(),))


@program
def _hessian_of_trees(t, x):
    def f(p):
        return (p["a"] * p["b"][0]).sum().sin() + (p["b"][1] ** 2).sum()

    return flat(t.func.hessian(f)({"a": x[0], "b": (x[1], x[2, :2])}))


@program
def _hessian_vector_product(t, x):
    f = lambda x: (x.sin() * x.roll(1, -1)).sum()  # noqa: E731
    return (t.func.jvp(t.func.grad(f), (x,), (x.cos(),))[1],
            t.func.vjp(t.func.grad(f), x)[1](x.cos())[0])


@program
def _jacobian_in_chunks_of_batches(t, x):
    f = lambda x: t.stack([x.sin().sum(), (x**2).sum(), x.prod()])  # noqa: E731
    return t.vmap(t.func.jacrev(f, chunk_size=2))(x), t.vmap(t.func.jacfwd(f))(x)


@program
def _linearized(t, x):
    y, push = t.func.linearize(lambda x: x.sin() * x.sum(), x)
    return y, push(x.cos()), t.vmap(push)(t.stack([x, x * 2]))


@program
def _pulled_back_twice(t, x):
    _, pull = t.func.vjp(lambda x: x.sin() * x, x)
    _, second = t.func.vjp(lambda v: pull(v)[0], x)
    return pull(x), second(x)


@program
def _gradient_of_a_norm_at_zero(t, x):
    return (t.func.grad(lambda x: x.norm())(x * 0), t.func.grad(lambda x: x.abs().sum())(x * 0),
            t.func.jacfwd(lambda x: x.clamp(0, 1))(x[0]))


@program
def _eigenvalues(t, x):
    f = lambda m: t.linalg.eigvalsh(m @ m.T + t.eye(3, dtype=m.dtype))  # noqa: E731
    return t.func.jacrev(f)(x), t.vmap(f)(t.stack([x, 2 * x]))


@program
def _solving(t, x):
    a = x @ x.T + 3 * t.eye(3, dtype=x.dtype)
    f = lambda a, b: t.linalg.solve(a, b)  # noqa: E731
    return (t.func.jacrev(f, (0, 1))(a, x[:, 0]), t.vmap(f, (None, 1), 1)(a, x),
            t.func.jvp(t.linalg.cholesky, (a,), (a,)))


@program
def _log_density(t, x):
    def log_p(x):
        return t.distributions.MultivariateNormal(
            t.zeros(4, dtype=x.dtype), t.eye(4, dtype=x.dtype) * 2
        ).log_prob(x)

    return t.vmap(t.func.grad(log_p))(x), t.func.hessian(log_p)(x[0])


# --- vmap: trees, dims, nesting ------------------------------------------------------


@program
def _nested_dims_of_trees(t, x):
    def f(d, s):
        return {"sum": d["a"] + d["b"][0] * s, "kept": d["b"][1]}

    tree = {"a": x, "b": (x.T, x[0])}
    out = t.vmap(f, in_dims=({"a": 0, "b": (1, None)}, None), out_dims={"sum": 1, "kept": 0})(tree, 2.0)
    return flat(out)


@program
def _outer_product_of_maps(t, x):
    f = lambda a, b: (a * b).sum()  # noqa: E731
    return t.vmap(t.vmap(f, (None, 0)), (0, None))(x, x)


@program
def _negative_dims(t, x):
    y = x.reshape(3, 2, 2)
    return t.vmap(lambda v: v.cumsum(0), in_dims=-1, out_dims=-2)(y)


@program
def _keyword_arguments(t, x):
    return t.vmap(lambda v, *, scale: v * scale)(x, scale=x[0])


@program
def _chunks(t, x):
    f = lambda v, w: (v @ w, v.sum())  # noqa: E731
    return t.vmap(f, (0, None), chunk_size=2)(x, weights(t, 4, 2))


@program
def _three_levels(t, x):
    y = x.reshape(3, 2, 2)
    f = lambda a: t.vmap(lambda b: t.vmap(lambda c: c * b.sum() + a.mean())(b))(a)  # noqa: E731
    return t.vmap(f)(y)


@program
def _unmapped_result(t, x):
    return t.vmap(lambda v: (v.sum(), t.ones(2)), out_dims=(0, None))(x)


@program
def _unmapped_result_is_expanded(t, x):
    return t.vmap(lambda v: t.ones(2))(x)


@program
def _in_place_and_views(t, x):
    def f(v, w):
        y = v.clone()
        part = y[1:]
        part.mul_(2)
        part[0] = w.sum()
        y.unsqueeze(0).add_(1)
        y[::2] += v[::2]
        return y

    return t.vmap(f)(x, x.cos()), t.vmap(f, (0, None))(x, x[0])


@program
def _writes_to_the_input(t, x):
    y = x.clone()
    t.vmap(lambda v: v.mul_(2))(y)
    return y


@program
def _writes_into_a_buffer(t, x):
    def f(v):
        out = t.zeros_like(v)
        for i in range(4):
            out[i] = v[: i + 1].sum()
        return out

    return t.vmap(f)(x), t.vmap(t.func.jacrev(f))(x)


@program
def _unmapped_buffer(t, x):
    def f(v):
        out = t.zeros(4, dtype=v.dtype)
        out[0] = v.sum()
        return out

    return t.vmap(f)(x)


@program
def _indexing_by_mapped_tensors(t, x):
    i = t.tensor([0, 2, 3])
    return t.vmap(lambda v, i: v[i])(x, i), t.vmap(lambda i: x[:, i], out_dims=1)(i)


@program
def _gather_and_scatter(t, x):
    i = t.tensor([[0, 1], [2, 0], [3, 3]])
    gathered = t.vmap(lambda v, i: v.gather(0, i))(x, i)
    scattered = t.vmap(lambda v, i: t.zeros_like(v).scatter_add(0, i, v[:2]))(x, i)
    return gathered, scattered, t.vmap(lambda v, i: v.index_select(0, i))(x, i)


@program
def _sorting(t, x):
    return (t.vmap(lambda v: v.sin().sort(descending=True))(x), t.vmap(lambda v: v.topk(2))(x.sin()),
            t.vmap(lambda v: v.sin().argmax())(x), t.vmap(lambda v: v.median(0)[0])(x))


@program
def _where_and_masks(t, x):
    return t.vmap(lambda v: t.where(v > 0, v.log(), t.zeros_like(v)))(x.abs() + 1), t.vmap(
        lambda v: v.masked_fill(v > 0, 7.0)
    )(x)


@program
def _einsum(t, x):
    w = weights(t, 4, 3, 2)
    return t.vmap(lambda v, w: t.einsum("i,ijk->kj", v, w), (0, None))(x, w), t.vmap(
        lambda w: t.einsum("bi,ij->bj", x, w), -1, -1)(w)


@program
def _no_grad_inside(t, x):
    def f(x):
        with t.no_grad():
            c = x.exp()
        return (c * x).sum()

    return t.func.grad(f)(x), t.vmap(t.func.grad(f))(x)


@program
def _complex_numbers(t, x):
    z = t.complex(x, x.cos())
    f = lambda z: (z * z.conj()).real.sum()  # noqa: E731
    return t.func.grad(f)(z), t.vmap(t.func.grad(f))(z), t.vmap(t.fft.fft)(z)


@program
def _mixed_dtypes(t, x):
    return t.vmap(lambda a, b: a + b)(x, t.arange(3)), t.vmap(lambda a: a.float() * 2)(x), t.vmap(
        lambda a: (a > 0).sum())(x)


# --- modules -------------------------------------------------------------------------


@program
def _per_sample_gradients(t, x):
    params, f = call(t, net(t))
    loss = lambda p, v, y: t.nn.functional.cross_entropy(f(p, v[None]), y[None])  # noqa: E731
    return flat(t.vmap(t.func.grad(loss), (None, 0, 0))(params, x, t.tensor([0, 1, 1])))


@program
def _batch_norm_without_statistics(t, x):
    model = net(t, t.nn.BatchNorm1d(5, track_running_stats=False))
    params, f = call(t, model)
    loss = lambda p: f(p, x).square().sum()  # noqa: E731
    several = {k: t.stack([v, v * 1.5]) for k, v in params.items()}
    return flat(t.func.grad(loss)(params)), flat(t.vmap(t.func.grad(loss))(several))


@program
def _batch_norm_with_statistics(t, x):
    params, f = call(t, net(t, t.nn.BatchNorm1d(5)))
    return flat(t.vmap(lambda p: f(p, x))({k: t.stack([v, v]) for k, v in params.items()}))


@program
def _replaced_batch_norm(t, x):
    model = net(t, t.nn.BatchNorm1d(5))
    t.func.replace_all_batch_norm_modules_(model)
    params, f = call(t, model)
    return flat(t.func.grad(lambda p: f(p, x).square().sum())(params)), model[1].running_mean


@program
def _evaluated_batch_norm(t, x):
    model = net(t, t.nn.BatchNorm1d(5)).eval()
    params, f = call(t, model)
    return t.vmap(t.func.jacrev(lambda v: f(params, v[None])[0]))(x)


@program
def _own_recurrence(t, x):
    def f(w, xs):
        h = t.zeros(4, dtype=w.dtype)
        for v in xs:
            h = t.tanh(w @ h + v)
        return h.sum()

    w = weights(t, 4, 4)
    return t.func.hessian(f)(w[:1, :1].expand(4, 4).contiguous() * w, x)[0, 0], t.vmap(
        t.func.grad(f), (None, 0))(w, t.stack([x, x.cos()]))


@program
def _attention(t, x):
    q = t.stack([x, x.sin()])[None]
    f = lambda q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v).sum()  # noqa: E731
    return t.func.grad(f, (0, 1, 2))(q, q.cos(), q.tanh()), t.vmap(t.func.grad(f))(
        t.stack([q, 2 * q]), t.stack([q, q]), t.stack([q, q])
    )


@program
def _layer_norm_and_embedding(t, x):
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Embedding(6, 4), t.nn.LayerNorm(4), t.nn.Linear(4, 2)).double()
    params, f = call(t, model)
    tokens = t.tensor([[0, 1, 5], [2, 2, 4]])
    return flat(t.vmap(t.func.grad(lambda p, v: f(p, v).square().sum()), (None, 0))(params, tokens))


@program
def _convolutions(t, x):
    w, image = weights(t, 2, 1, 3, 3), x.reshape(1, 3, 4).repeat(2, 2, 1)[:, None]
    f = lambda w, v: t.nn.functional.max_pool2d(  # noqa: E731
        t.nn.functional.conv2d(v[None], w, padding=1).relu(), 2).sum()
    return (t.vmap(t.func.grad(f), (None, 0))(w, image), t.vmap(f, (0, None))(t.stack([w, w * 2]), image[0]),
            t.func.jvp(lambda w: f(w, image[0]), (w,), (w.cos(),)))


@program
def _ensemble_of_modules(t, x):
    models = [net(t) for _ in range(3)]
    for i, m in enumerate(models):
        with t.no_grad():
            m[0].bias.add_(i)
    params, buffers = t.func.stack_module_state(models)
    f = lambda p, b, v: t.func.functional_call(models[0], (p, b), (v,))  # noqa: E731
    out = t.vmap(f, (0, 0, None))(params, buffers, x)
    out.square().sum().backward()
    return out, flat({k: p.grad for k, p in params.items()})


@program
def _meta_learning(t, x):
    params, f = call(t, net(t))
    tasks = t.stack([x, x.cos(), x.sin()])

    def loss(p, v):
        return (f(p, v) - v[:, :2]).square().mean()

    def adapted(p, v):
        for _ in range(2):
            g = t.func.grad(loss)(p, v)
            p = {k: p[k] - 0.1 * g[k] for k in p}
        return loss(p, v)

    return flat(t.func.grad(lambda p: t.vmap(adapted, (None, 0))(p, tasks).mean())(params))


@program
def _gauss_newton(t, x):
    params, f = call(t, net(t))
    j = t.func.jacrev(lambda p: f(p, x).flatten())(params)
    rows = t.cat([v.flatten(1) for v in flat(j)], 1)
    return rows @ rows.T


@program
def _fisher_trace(t, x):
    params, f = call(t, net(t))
    log_p = lambda p, v: f(p, v).log_softmax(-1)[0]  # noqa: E731
    g = t.vmap(t.func.grad(log_p), (None, 0))(params, x)
    return sum((v**2).sum() for v in flat(g))


@program
def _divergence(t, x):
    params, f = call(t, t.nn.Sequential(net(t), t.nn.Linear(2, 4).double()))
    field = lambda v: f({k: q for k, q in params.items()}, v)  # noqa: E731
    with t.no_grad():
        for q in params.values():
            q.copy_(weights(t, *q.shape))
    return t.vmap(lambda v: t.trace(t.func.jacrev(field)(v)))(x)


# --- hooks, parameters outside, Function ---------------------------------------------


@program
def _hooks_inside(t, x):
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.shape) or g * 3)
        return y.sin().sum()

    return t.func.grad(f)(x), [list(s) for s in seen]


@program
def _parameters_outside(t, x):
    w = weights(t, 4).requires_grad_()
    out = t.vmap(t.func.grad(lambda v: (v * w).sin().sum()))(x)
    out.sum().backward()
    return out, w.grad


@program
def _outer_graph_through_jvp(t, x):
    w = weights(t, 4).requires_grad_()
    out, moved = t.func.jvp(lambda v: (v * w).sin(), (x[0],), (x[1],))
    return t.autograd.grad(moved.sum(), w), t.autograd.grad(out.sum(), w)


@program
def _checkpointed(t, x):
    w = weights(t, 4).requires_grad_()
    f = lambda v: (v * w).sin().exp()  # noqa: E731
    t.utils.checkpoint.checkpoint(f, x, use_reentrant=False).sum().backward()
    return w.grad


@program
def _function_with_vmap_rule(t, x):
    class Scale(t.autograd.Function):
        @staticmethod
        def forward(x, s):
            return x * s

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, s = ctx.saved_tensors
            return g * s, (g * x).sum()

        @staticmethod
        def vmap(info, in_dims, x, s):
            x = x.movedim(in_dims[0], 0)
            s = s if in_dims[1] is None else s.reshape(-1, *[1] * (x.dim() - 1))
            return Scale.apply(x, s.expand(x.shape).clone()), 0

    s = t.tensor(3.0, dtype=x.dtype)
    return t.vmap(lambda v: Scale.apply(v, s))(x), t.func.grad(lambda s: Scale.apply(x, s).sum())(s)


# --- random numbers ------------------------------------------------------------------


def _seeded(f):
    def run(t, x):
        t.manual_seed(0)
        return f(t, x)

    run.__name__ = f.__name__
    return program(run)


@_seeded
def _dropout_differently(t, x):
    f = lambda v: t.nn.functional.dropout(v, 0.5)  # noqa: E731
    return t.vmap(f, randomness="different")(x), t.vmap(f, randomness="same")(x)


@_seeded
def _dropout_of_an_ensemble(t, x):
    model = net(t, t.nn.Dropout(0.3))
    params, f = call(t, model)
    several = {k: t.stack([v, v * 2]) for k, v in params.items()}
    return t.vmap(lambda p: f(p, x), randomness="different")(several), flat(
        t.vmap(t.func.grad(lambda p, v: f(p, v).sum()), (None, 0), randomness="different")(params, x))


@_seeded
def _noise(t, x):
    f = lambda v: v + t.randn(4, dtype=v.dtype)  # noqa: E731
    return t.vmap(f, randomness="different")(x), t.vmap(f, randomness="same")(x), t.vmap(
        lambda v: t.rand_like(v), randomness="different")(x)


@_seeded
def _drawing_is_an_error(t, x):
    return t.vmap(lambda v: v + t.randn(4))(x)


@_seeded
def _dropout_is_an_error(t, x):
    return t.vmap(lambda v: t.nn.functional.dropout(v, 0.5))(x)


@_seeded
def _jacobian_of_a_noisy_function(t, x):
    return t.func.jacfwd(lambda v: v * t.rand(4, dtype=v.dtype), randomness="same")(x[0])


@_seeded
def _bernoulli_masks(t, x):
    return t.vmap(lambda p: t.bernoulli(p), randomness="different")(x.sigmoid())


@_seeded
def _permutations(t, x):
    return t.vmap(lambda v: v[t.randperm(4)], randomness="same")(x)


# --- errors --------------------------------------------------------------------------

ERRORS = {
    "item": lambda t, x: t.vmap(lambda v: v.sum().item())(x),
    "if": lambda t, x: t.vmap(lambda v: v if v.sum() > 0 else -v)(x),
    "float": lambda t, x: t.vmap(lambda v: float(v.sum()))(x),
    "int index": lambda t, x: t.vmap(lambda v, i: list(range(4))[i])(x, t.arange(3)),
    "numpy": lambda t, x: t.vmap(lambda v: v.numpy())(x),
    "nonzero": lambda t, x: t.vmap(lambda v: v.nonzero())(x),
    "mask": lambda t, x: t.vmap(lambda v: v[v > 0])(x),
    "unique": lambda t, x: t.vmap(lambda v: v.unique())(x),
    "no inputs": lambda t, x: t.vmap(lambda: 1)(),
    "no tensors": lambda t, x: t.vmap(lambda v: v)(3),
    "sizes differ": lambda t, x: t.vmap(t.add)(x, x.T),
    "dim out of range": lambda t, x: t.vmap(t.sin, in_dims=2)(x),
    "all dims None": lambda t, x: t.vmap(t.sin, in_dims=None)(x),
    "dims of a dict": lambda t, x: t.vmap(lambda d: d["a"], in_dims=({"b": 0},))({"a": x}),
    "dims too many": lambda t, x: t.vmap(t.sin, in_dims=(0, 0))(x),
    "float dim": lambda t, x: t.vmap(t.sin, in_dims=(0.5,))(x),
    "out dims": lambda t, x: t.vmap(t.sin, out_dims=(0, 1))(x),
    "out dim None": lambda t, x: t.vmap(t.sin, out_dims=None)(x),
    "out dims too large": lambda t, x: t.vmap(t.sum, out_dims=3)(x),
    "returns a number": lambda t, x: t.vmap(lambda v: 3)(x),
    "returns None": lambda t, x: t.vmap(lambda v: None)(x),
    "grad of a vector": lambda t, x: t.func.grad(t.sin)(x),
    "grad of a number": lambda t, x: t.func.grad(lambda x: 3.0)(x),
    "grad of integers": lambda t, x: t.func.grad(lambda x: x.sum())(t.arange(3)),
    "grad argnums": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=1)(x),
    "grad of a string": lambda t, x: t.func.grad(lambda x: x)("a"),
    "aux is missing": lambda t, x: t.func.grad(lambda x: x.sum(), has_aux=True)(x),
    "jvp of no tuple": lambda t, x: t.func.jvp(t.sin, x, (x,)),
    "jvp shapes": lambda t, x: t.func.jvp(t.sin, (x,), (x[0],)),
    "jvp of strings": lambda t, x: t.func.jvp(lambda x: "a", (x,), (x,)),
    "vjp without cotangents": lambda t, x: t.func.vjp(t.sin, x)[1](),
    "vjp cotangent's shape": lambda t, x: t.func.vjp(t.sin, x)[1](x[0]),
    "vjp cotangents' structure": lambda t, x: t.func.vjp(lambda x: (x, x), x)[1](x),
    "jacrev of a string": lambda t, x: t.func.jacrev(lambda x: "a")(x),
    "jacfwd of a number": lambda t, x: t.func.jacfwd(lambda x: 3.0)(x),
    "jacrev chunk": lambda t, x: t.func.jacrev(t.sin, chunk_size=-1)(x),
    "hessian of a vector of strings": lambda t, x: t.func.hessian(lambda x: ["a"])(x),
    "randomness": lambda t, x: t.vmap(t.sin, randomness="often")(x),
    "chunk size": lambda t, x: t.vmap(t.sin, chunk_size=0)(x),
    "backward inside": lambda t, x: t.func.grad(lambda x: (x.sum().backward(), x.sum())[1])(x),
    "in place on what is outside": lambda t, x: t.vmap(lambda v: t.zeros(4, dtype=x.dtype).add_(v))(x),
    "functional_call's names": lambda t, x: t.func.functional_call(
        net(t), {"nothing": x}, (x,), strict=True),
    "stack nothing": lambda t, x: t.func.stack_module_state([]),
    "stack different modules": lambda t, x: t.func.stack_module_state(
        [t.nn.Linear(1, 1), t.nn.ReLU()]),
    "functionalize": lambda t, x: t.func.functionalize(t.sin, remove="all")(x),
    "linearize": lambda t, x: t.func.linearize(t.sin, x)[1](x[0]),
}


def run(torch, function):
    return outcome(lambda: function(torch, data(torch)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    mine, theirs = run(ft, PROGRAMS[name]), run(pt, PROGRAMS[name])
    assert_same_outcome(mine, theirs)
    if theirs[1] is not None:
        assert str(mine[1]) == str(theirs[1])


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    (mine, my_error), (theirs, their_error) = run(ft, ERRORS[name]), run(pt, ERRORS[name])
    assert (my_error is None) == (their_error is None), f"{my_error!r} instead of {their_error!r}"
    if their_error is None:
        assert_same_outcome((mine, None), (theirs, None))
    else:
        assert type(my_error).__name__ == type(their_error).__name__, f"{my_error!r}, {their_error!r}"
        assert str(my_error).replace("ftorch", "torch") == str(their_error)


# --- what works here, and not in PyTorch: against a loop there -------------------------


def _recurrent(t, kind):
    t.manual_seed(0)
    model = getattr(t.nn, kind)(4, 3, batch_first=True).double()
    params = {n: p.detach() for n, p in model.named_parameters()}
    return params, lambda p, v: t.func.functional_call(model, p, (v,))[0].sum(1)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_are_mapped(kind):
    params, f = _recurrent(ft, kind)
    x = data(ft)
    batches = ft.stack([x, x.sin()])[:, None]
    mine = ft.vmap(f, (None, 0))(params, batches)
    gradients = ft.vmap(ft.func.grad(lambda p, v: f(p, v).sum()), (None, 0))(params, batches)
    params, f = _recurrent(pt, kind)
    params = {k: p.requires_grad_() for k, p in params.items()}
    x = data(pt)
    for i, batch in enumerate([x, x.sin()]):
        theirs = f(params, batch[None])
        wanted = pt.autograd.grad(theirs.sum(), list(params.values()))
        assert_same_outcome((mine[i], None), (theirs.detach(), None))
        found = [gradients[k][i] for k in params]
        assert_same_outcome((found, None), (list(wanted), None))


def test_autograd_grad_of_own_leaves_is_mapped():
    def f(v):
        v = v.detach()
        v.requires_grad = True  # PyTorch has no gradient then
        return ft.autograd.grad((v**3).sum(), v)[0]

    assert_same_outcome((ft.vmap(f)(data(ft)), None), (3 * data(pt) ** 2, None))


def test_saved_tensors_hooks_under_grad():
    for lib in ft, pt:
        def f(x, lib=lib):
            with lib.autograd.graph.saved_tensors_hooks(lambda v: v * 1, lambda v: v):
                return (x**3).sum()

        with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
            lib.func.grad(f)(data(lib))
