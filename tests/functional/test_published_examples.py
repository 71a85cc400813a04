"""functorch's published examples, written once and run in both libraries: the values agree."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft
import ftorch.nn.functional  # noqa: F401
from tests.oracle import assert_same


def _cnn(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, 1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 5),
    )


def _mlp(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def _state(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def per_sample_gradients(torch):
    """Clipped and noisy mean of per-sample gradients, as differential privacy needs it."""
    model = _cnn(torch)
    images, labels = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
    params = _state(model)

    def loss(params, image, label):
        logits = torch.func.functional_call(model, params, (image.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(logits, label.unsqueeze(0))

    samples = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, images, labels)
    norms = torch.stack([g.flatten(1).norm(2, dim=1) for g in samples.values()], 1).norm(2, dim=1)
    factor = (0.1 / (norms + 1e-6)).clamp(max=1.0)
    private = {k: torch.einsum("n,n...->...", factor, g) for k, g in samples.items()}
    return [samples, {k: g + 0.1 * torch.randn(g.shape) for k, g in private.items()}]


def ensembling(torch):
    """Several models in one call, on one batch and on one batch each."""
    models = [_mlp(torch) for _ in range(4)]
    params, buffers = torch.func.stack_module_state(models)
    base = _mlp(torch)

    def call(params, buffers, x):
        return torch.func.functional_call(base, (params, buffers), (x,))

    shared, own = torch.randn(5, 3), torch.randn(4, 5, 3)
    same = torch.vmap(call, in_dims=(0, 0, None))(params, buffers, shared)
    each = torch.vmap(call)(params, buffers, own)
    same.sum().backward()
    return [same.detach(), each.detach(), {k: p.grad for k, p in params.items()}]


def maml(torch):
    """One step of meta learning over sinusoid tasks."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 1))
    params = _state(net)
    amplitudes, phases = torch.rand(3) * 4.9 + 0.1, torch.rand(3) * 3.14
    xs, ys = torch.rand(3, 6, 1) * 10 - 5, torch.rand(3, 6, 1) * 10 - 5

    def predict(params, x):
        return torch.func.functional_call(net, params, (x,))

    def inner(params, amplitude, phase, x, y):
        def loss(params, x):
            return (predict(params, x) - amplitude * (x + phase).sin()).square().mean()

        gradients = torch.func.grad(loss)(params, x)
        adapted = {k: params[k] - 0.1 * g for k, g in gradients.items()}
        return loss(adapted, y)

    def outer(params):
        return torch.vmap(inner, (None, 0, 0, 0, 0))(params, amplitudes, phases, xs, ys).mean()

    return [torch.func.grad(outer)(params), outer(params)]


def neural_tangent_kernel(torch):
    """The kernel by Jacobian contraction, and by Jacobian- and vector-Jacobian products."""
    net = _mlp(torch)
    params = _state(net)
    x1, x2 = torch.randn(3, 3), torch.randn(4, 3)

    def single(params, x):
        return torch.func.functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)

    def jacobians(x):
        found = torch.vmap(torch.func.jacrev(single), (None, 0))(params, x)
        return [j.flatten(2) for j in found.values()]

    contracted = sum(
        torch.einsum("Naf,Mbf->NMab", a, b) for a, b in zip(jacobians(x1), jacobians(x2))
    )

    def products(a, b):
        def one(p):
            return single(p, a)

        _, pull = torch.func.vjp(lambda p: single(p, b), params)

        def column(v):
            return torch.func.jvp(one, (params,), pull(v))[1]

        return torch.vmap(column)(torch.eye(2)).T

    return [contracted, torch.vmap(torch.vmap(products, (None, 0)), (0, None))(x1, x2)]


def lennard_jones(torch):
    """Training a network on energies and, through its gradient, on forces."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    params = _state(net)
    r = torch.linspace(0.9, 2, 8)
    vectors = torch.outer(r, torch.nn.functional.normalize(torch.ones(3), dim=0))

    def energy(r):
        return 4 * ((1 / r) ** 12 - (1 / r) ** 6)

    def force(energy, vector):
        return -torch.func.grad(lambda v: energy(v.norm()))(vector)

    target = torch.vmap(lambda v: force(energy, v))(vectors)

    def loss(params):
        def model(r):
            return torch.func.functional_call(net, params, (r.reshape(1),)).squeeze()

        energies = torch.vmap(model)(r)
        forces = torch.vmap(lambda v: force(model, v))(vectors)
        error = (energies - energy(r)).square().mean()
        return error + 0.01 * (forces - target).square().sum(-1).mean()

    return [target, torch.func.grad_and_value(loss)(params)]


def hessians(torch):
    """Hessians of a network in its parameters, and per-sample ones in its inputs."""
    net = _mlp(torch)
    params, x = _state(net), torch.randn(4, 3)

    def loss(params, x):
        return torch.func.functional_call(net, params, (x,)).square().sum()

    by_parameter = torch.func.hessian(loss)(params, x)
    by_input = torch.vmap(torch.func.hessian(loss, 1), (None, 0))(params, x)
    return [by_parameter["0.weight"]["2.weight"], by_input]


EXAMPLES = [
    per_sample_gradients, ensembling, maml, neural_tangent_kernel, lennard_jones, hessians,
]


def _flat(tree):
    if isinstance(tree, dict):
        return [t for k in sorted(tree) for t in _flat(tree[k])]
    if isinstance(tree, (list, tuple)):
        return [t for item in tree for t in _flat(item)]
    return [tree]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example):
    """Every value is PyTorch's, from the same seed."""
    results = []
    for torch in (ft, pt):
        torch.manual_seed(0)
        results.append([t.detach() for t in _flat(example(torch))])
    assert_same(*results, tolerance=(2e-4, 2e-5))
