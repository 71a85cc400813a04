"""Random ops in StableHLO: a seed is one more argument."""

import jax
import numpy as np
import pytest

import ftorch as torch
from ftorch import nn

N = 4000


class Draws(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def stablehlo(module, *args, **options):
    program = torch.export.export(module, args, **options)
    call = jax.export.deserialize(bytearray(program.to_stablehlo())).call
    return lambda seed, *a: np.asarray(call(*a, seed=np.uint32(seed)))


# (function, mean, variance) of the numbers; x is 0.25 everywhere.
CASES = {
    "rand": (lambda x: torch.rand(x.shape) + 0 * x, 0.5, 1 / 12),
    "randn": (lambda x: torch.randn(N) * 2 + x, 0.25, 4),
    "rand_like": (lambda x: torch.rand_like(x), 0.5, 1 / 12),
    "randn_like": (lambda x: torch.randn_like(x) + x, 0.25, 1),
    "randint": (lambda x: torch.randint(2, 7, (N,)) + 0 * x, 4, 2),
    "randint_like": (lambda x: torch.randint_like(x, 5), 2, 2),
    "bernoulli": (lambda x: torch.bernoulli(x), 0.25, 0.1875),
    "uniform_": (lambda x: torch.empty(N).uniform_(1, 3) + 0 * x, 2, 1 / 3),
    "normal_": (lambda x: x.clone().normal_(1, 0.5), 1, 0.25),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.5), 0.5, 0.25),
    "normal": (lambda x: torch.normal(x, 0.5), 0.25, 0.25),
    "dropout": (lambda x: nn.functional.dropout(x, 0.2), 0.25, 0.25**2 * 0.25),
    "multinomial": (lambda x: torch.multinomial(x[:5], N, replacement=True) + 0 * x, 2, 2),
    "randperm": (lambda x: torch.randperm(N) + 0 * x, (N - 1) / 2, (N * N - 1) / 12),
    "poisson": (lambda x: torch.poisson(x), 0.25, 0.25),
    "cond": (lambda x: torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: x + 1, (x,)),
             0.5, 1 / 12),
    "while_loop": (lambda x: torch.while_loop(
        lambda i, y: i < 12, lambda i, y: (i + 1, y + torch.rand_like(y)),
        (torch.tensor(0), torch.zeros_like(x)))[1], 6, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers(name):
    function, mean, variance = CASES[name]
    x = np.full(N, 0.25, np.float32)
    call = stablehlo(Draws(function), torch.from_numpy(x))
    got = call(1, x)
    error = 6 * np.sqrt(variance / N)
    assert abs(got.mean() - mean) < error
    assert got.var() == pytest.approx(variance, rel=0.2)
    assert (got == call(1, x)).all() and (got != call(2, x)).any()


def test_ops_draw_apart():
    x = np.zeros(100, np.float32)
    call = stablehlo(Draws(lambda x: torch.stack([torch.rand_like(x), torch.rand_like(x)])),
                     torch.from_numpy(x))
    first, second = call(0, x)
    assert abs(first - second).max() > 0.1


def test_a_model_in_training():
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    x = np.random.default_rng(0).standard_normal((3, 5, 8), np.float32)
    batch = {0: torch.export.Dim("n")}
    call = stablehlo(model.train(), torch.from_numpy(x[:2]), dynamic_shapes={"src": batch})
    assert (call(0, x) != call(1, x)).any() and np.isfinite(call(0, x)).all()
    # Nothing is drawn in evaluation, and there is no seed.
    program = torch.export.export(model.eval(), (torch.from_numpy(x),))
    out = jax.export.deserialize(bytearray(program.to_stablehlo())).call(x)
    np.testing.assert_allclose(out, model(torch.from_numpy(x)).detach().numpy(), 1e-4, 1e-5)


def test_an_argument_called_seed():
    class Net(nn.Module):
        def forward(self, x, *, seed):
            return torch.rand_like(x) + seed

    program = torch.export.export(Net(), (torch.ones(2),), {"seed": torch.ones(2)})
    with pytest.raises(RuntimeError, match="another name"):
        program.to_stablehlo()


def test_ops_without_a_form_are_named():
    program = torch.export.export(Draws(lambda x: x.clone().exponential_()), (torch.ones(3),))
    with pytest.raises(RuntimeError, match="exponential.*torch.rand"):
        program.to_stablehlo()


def test_graphs_hold_draws_of_aten():
    """The overloads, arguments and options of PyTorch's graphs."""
    pt = pytest.importorskip("torch")

    def graphs(lib):
        F = lib.nn.functional
        functions = (
            lambda x: lib.normal(0.0, 1.0, (3,)) + lib.normal(x) + lib.normal(x, 2.0) + lib.normal(1.0, x) + lib.normal(x, x),
            lambda x: lib.normal(0.0, 1.0, (3,), dtype=lib.float64) + lib.poisson(x) + lib.binomial(x * 4, x),
            lambda x: lib._standard_gamma(x) + lib._sample_dirichlet(x),
            lambda x: F.rrelu(x, training=True) + F.rrelu(x, 0.1, 0.2, True),
            lambda x: x.clone().bernoulli_() + x.clone().bernoulli_(0.3) + x.clone().bernoulli_(x),
            lambda x: x.clone().normal_(1, 2.0) + x.clone().uniform_(-1, 1) + x.clone().exponential_() + x.clone().random_(5),
            lambda x: x.clone().geometric_(0.3) + x.clone().cauchy_() + x.clone().log_normal_() + x.clone().random_(),
        )

        class Net(lib.nn.Module):
            def __init__(self, function):
                super().__init__()
                self.function = function

            def forward(self, x):
                return self.function(x)

        programs = [lib.export.export(Net(f), (lib.full((3,), 0.5),)) for f in functions]
        return [[(str(n.target), str(n.args), str(n.kwargs)) for n in p.graph.nodes] for p in programs]

    for found, expected in zip(graphs(torch), graphs(pt), strict=True):
        assert found == expected


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode):
    pt = pytest.importorskip("torch")

    def steps(lib):
        model = lib.nn.EmbeddingBag(5, 4, mode=mode)
        x = lib.tensor([[1, 2, 3], [0, 4, 1]])
        program = lib.export.export(model, (x,), dynamic_shapes=({0: lib.export.Dim("bags", max=9)},))
        more = lib.tensor([[1, 1, 3], [0, 4, 1], [2, 2, 2]])
        assert lib.equal(program.module()(more), model(more))
        return [str(n.target) for n in program.graph.nodes if str(n.target).startswith("aten.")]

    names = ["aten.reshape.default", "aten.embedding_bag.padding_idx"]
    for found in (steps(torch), steps(pt)):
        assert [name for name in found if name in names] == names
