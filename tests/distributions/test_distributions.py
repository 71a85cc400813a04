"""Every distribution against PyTorch's: values, gradients, samples, shapes, errors."""

from __future__ import annotations

import warnings

import pytest
import torch as pt

import ftorch as ft

from ..oracle import array, assert_same, assert_same_outcome, outcome, tensors
from .cases import CASES, PAIRS

# PyTorch's own, while it draws the expected sample.
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected")

@pytest.fixture(autouse=True, scope="module")
def _arguments_are_validated():
    """PyTorch stops that for the whole process when something is compiled by its dynamo."""
    pt.distributions.Distribution.set_default_validate_args(True)


EACH = [(name, case) for name, cases in CASES.items() for case in cases]


def run(module, source, **names):
    """The value of an expression with D, t and torch of one of the libraries."""
    scope = {"torch": module, "D": module.distributions, "t": module.tensor}
    return eval(source, scope | names)  # noqa: S307


def make(module, name, case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(module, f"D.{name}({case})")


def made_in_both(name, case):
    return make(ft, name, case), make(pt, name, case)


def compare(mine, theirs, attempt, tolerance=(2e-5, 2e-5)):
    results = [outcome(attempt, d) for d in (mine, theirs)]
    assert_same_outcome(*results, where=str(theirs), tolerance=tolerance)


ATTRIBUTES = (
    "batch_shape event_shape mean mode variance stddev has_rsample has_enumerate_support "
    "param_shape probs logits scale_tril covariance_matrix precision_matrix"
).split()


@pytest.mark.parametrize(("name", "case"), EACH)
def test_attributes(name, case):
    mine, theirs = made_in_both(name, case)
    assert repr(mine) == repr(theirs)
    assert repr(mine.support) == repr(theirs.support)
    for attribute in ATTRIBUTES:
        if hasattr(type(theirs), attribute):
            compare(mine, theirs, lambda d: getattr(d, attribute))
    if not name.startswith(("Independent", "Mixture")):  # whose entropies PyTorch sums
        compare(mine, theirs, lambda d: d.entropy())
    compare(mine, theirs, lambda d: d.enumerate_support())
    compare(mine, theirs, lambda d: d.enumerate_support(expand=False))


@pytest.mark.parametrize(("name", "case"), EACH)
def test_samples(name, case):
    mine, theirs = made_in_both(name, case)
    for shape in ((), (3,), (2, 5)):
        for method in ("sample", "rsample"):
            results = []
            for module, d in ((ft, mine), (pt, theirs)):
                module.manual_seed(7)
                results.append(outcome(getattr(d, method), shape))
            assert_same_outcome(*results, where=f"{method} {shape}", tolerance=(1e-5, 1e-5))
    assert array(ft.rand(1)) == array(pt.rand(1))  # as many numbers were drawn


@pytest.mark.parametrize(("name", "case"), EACH)
def test_densities(name, case):
    mine, theirs = made_in_both(name, case)
    pt.manual_seed(1)
    value = theirs.sample((4,))
    for method in ("log_prob", "cdf"):
        results = [
            outcome(getattr(d, method), m.tensor(value.numpy()))
            for m, d in ((ft, mine), (pt, theirs))
        ]
        assert_same_outcome(*results, where=method, tolerance=(2e-5, 2e-5))
    levels = [[0.1], [0.5], [0.9]]
    results = [outcome(d.icdf, m.tensor(levels)) for m, d in ((ft, mine), (pt, theirs))]
    assert_same_outcome(*results, where="icdf", tolerance=(2e-5, 2e-5))


@pytest.mark.parametrize(("name", "case"), EACH)
def test_expand(name, case):
    mine, theirs = made_in_both(name, case)
    shape = (4, 3, 2)[: 3 - len(theirs.batch_shape)] + tuple(theirs.batch_shape)
    mine, theirs = mine.expand(shape), theirs.expand(shape)
    assert repr(mine) == repr(theirs)
    compare(mine, theirs, lambda d: (d.batch_shape, d.event_shape))
    compare(mine, theirs, lambda d: d.mean)
    test = theirs.sample()
    results = [d.log_prob(m.tensor(test.numpy())) for m, d in ((ft, mine), (pt, theirs))]
    assert_same(*results, tolerance=(2e-5, 2e-5))
    assert tuple(mine.sample((2,)).shape) == tuple(theirs.sample((2,)).shape)


def gradients(module, name, case, of):
    """The gradients of what `of` makes of a distribution, in its tensor parameters."""
    leaves = []

    def leaf(data):
        value = module.tensor(data)
        if value.is_floating_point():
            leaves.append(value.requires_grad_())
        return value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distribution = run(module, f"D.{name}({case})", t=leaf)
    if not leaves:
        return []
    module.manual_seed(3)
    result = of(module, distribution)
    if not result.requires_grad:
        return []
    weights = module.arange(1.0, result.numel() + 1).reshape(result.shape)
    grads = module.autograd.grad((result * weights).sum(), leaves, allow_unused=True)
    return [module.zeros(()) if g is None else g for g in grads]


# The gradients of beta samples are an approximation in PyTorch.
APPROXIMATE = {"Beta", "Dirichlet"}


@pytest.mark.parametrize(("name", "case"), EACH)
def test_gradients_of_samples(name, case):
    if not make(pt, name, case).has_rsample:
        return
    mine, theirs = (
        outcome(gradients, m, name, case, lambda _, d: d.rsample((3,))) for m in (ft, pt)
    )
    assert mine[1] is None
    if theirs[1] is not None:  # Wishart
        assert "modified by an inplace operation" in str(theirs[1])
        pytest.skip("a redraw of singular samples overwrites what PyTorch's backward reads")
    mine, theirs = mine[0], theirs[0]
    tolerance = (2e-3, 2e-3) if name in APPROXIMATE else (1e-3, 1e-4)
    assert_same(mine, theirs, tolerance=tolerance)


@pytest.mark.parametrize(("name", "case"), EACH)
def test_gradients_of_densities(name, case):
    pt.manual_seed(1)
    value = make(pt, name, case).sample((4,)).numpy()
    mine, theirs = (
        gradients(m, name, case, lambda m, d: d.log_prob(m.tensor(value))) for m in (ft, pt)
    )
    assert_same(mine, theirs, tolerance=(1e-4, 1e-4))


def test_gradients_of_entropies():
    for name, case in EACH:
        def entropy(module, d):
            result, error = outcome(d.entropy)
            return module.zeros(()) if error else result

        mine, theirs = (gradients(m, name, case, entropy) for m in (ft, pt))
        assert_same(mine, theirs, where=f"{name}({case})", tolerance=(1e-4, 1e-4))


@pytest.mark.parametrize("p", sorted({p for p, _ in PAIRS}))
def test_divergences(p):
    for q in [q for first, q in PAIRS if first == p]:
        results = [
            outcome(lambda: m.distributions.kl_divergence(run(m, p), run(m, q))) for m in (ft, pt)
        ]
        assert_same_outcome(*results, where=f"KL({p} || {q})", tolerance=(1e-4, 2e-5))
        if results[1][1] is not None:
            assert str(results[0][1]) == str(results[1][1])


ERRORS = """
D.Bernoulli() | D.Bernoulli(.5, .5) | D.Normal(0., -1.) | D.Normal('a', 1.)
D.Categorical(t(1.)) | D.Categorical(logits=t(1.)) | D.Categorical(t([-1., 2.]))
D.Dirichlet(t(1.)) | D.Gamma(-1., 1.) | D.Uniform(1., 0.) | D.Geometric(0.) | D.Binomial(3, t(2.))
D.MultivariateNormal(torch.zeros(2)) | D.MultivariateNormal(t(0.), torch.eye(2))
D.MultivariateNormal(torch.zeros(2), torch.ones(2))
D.MultivariateNormal(torch.zeros(2), precision_matrix=torch.ones(2))
D.MultivariateNormal(torch.zeros(2), scale_tril=torch.ones(2))
D.MultivariateNormal(torch.zeros(2), t([[1., 2.], [2., 1.]]))
D.LowRankMultivariateNormal(t(0.), torch.ones(2, 1), torch.ones(2))
D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2), torch.ones(2))
D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(3, 1), torch.ones(2))
D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(3))
D.LowRankMultivariateNormal(torch.zeros(3, 2), torch.ones(2, 2, 1), torch.ones(2))
D.Multinomial(t(3), torch.ones(2)) | D.Multinomial(3, torch.ones(2)).rsample()
D.Multinomial(3, torch.ones(2)).enumerate_support() | D.Multinomial(3, torch.ones(2)).mode
D.Binomial(t([2, 3]), t([.5, .2])).enumerate_support() | D.LKJCholesky(1)
D.Binomial(t([2, 3]), t([.5, .2])).entropy()
D.Wishart(t(1.), torch.eye(3)) | D.Wishart(t(4.)) | D.Wishart(t(4.), torch.ones(3))
D.Independent(D.Normal(0., 1.), 1) | D.MixtureSameFamily(1, 2)
D.Independent(D.Bernoulli(t([.5, .5])), 1).enumerate_support()
D.MixtureSameFamily(D.Categorical(torch.ones(2)), 2)
D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.zeros(3), 1.))
D.MixtureSameFamily(D.Categorical(torch.ones(3, 2)), D.Normal(torch.zeros(2, 2), 1.))
D.TransformedDistribution(D.Normal(0., 1.), D.StickBreakingTransform())
D.TransformedDistribution(D.Normal(0., 1.), 3) | D.TransformedDistribution(D.Normal(0., 1.), [3])
D.Normal.set_default_validate_args('x') | D.Normal(0., 1.).log_prob(1.)
D.Normal(torch.zeros(3), 1.).log_prob(torch.zeros(2)) | D.Normal(0., 1.).log_prob(t(float('nan')))
D.Dirichlet(torch.ones(3)).log_prob(torch.ones(2)) | D.Normal(0., 1.).enumerate_support()
D.StudentT(2.).cdf(t(1.)) | D.VonMises(0., 1.).rsample() | D.Uniform(0., 1.).log_prob(t(3.))
D.Bernoulli(.5).log_prob(t([.5, 1.])) | D.Bernoulli(.5).log_prob(t([.5]))
D.ContinuousBernoulli(2., validate_args=True) | D.Distribution().mean | D.Distribution().mode
D.Categorical(torch.ones(2)).log_prob(t(2)) | D.ContinuousBernoulli(0.).probs
D.kl_divergence(D.Normal(0., 1.), D.Cauchy(0., 1.))
"""


@pytest.mark.parametrize(
    "source", [s.strip() for line in ERRORS.strip().splitlines() for s in line.split(" | ")]
)
def test_errors(source):
    results = [outcome(run, m, source) for m in (ft, pt)]
    assert_same_outcome(*results)
    if results[1][1] is not None:
        expected = str(results[1][1]).replace("torch.distributions", "ftorch.distributions")
        mine = str(results[0][1]).replace("torch.distributions", "ftorch.distributions")
        assert mine.replace("fftorch", "ftorch") == expected


def test_validation_can_be_turned_off():
    assert array(ft.distributions.Normal(0.0, -1.0, validate_args=False).scale) == -1
    ft.distributions.Distribution.set_default_validate_args(False)
    try:
        ft.distributions.Normal(0.0, -1.0)
    finally:
        ft.distributions.Distribution.set_default_validate_args(True)


def test_subclasses():
    class Custom(ft.distributions.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="Subclass Custom of Normal that defines"):
        Custom().expand((2,))

    class Renamed(ft.distributions.Normal):
        pass

    assert type(Renamed(0.0, 1.0).expand((2,))) is Renamed


def test_ambiguous_divergences():
    D = ft.distributions

    class P(D.Normal):
        pass

    class Q(D.Normal):
        pass

    D.register_kl(P, D.Normal)(lambda p, q: "left")
    D.register_kl(D.Normal, Q)(lambda p, q: "right")
    try:
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence.P, Q."):
            assert D.kl_divergence(P(0.0, 1.0), Q(0.0, 1.0)) == "left"
    finally:
        for pair in ((P, D.Normal), (D.Normal, Q)):
            del D.kl._KL_REGISTRY[pair]
        D.kl._KL_MEMOIZE.clear()


def test_registry_has_the_same_divergences():
    def pairs(module):
        known = module.distributions.kl._KL_REGISTRY  # other tests register classes of their own
        own = module.distributions.__name__
        return {(p.__name__, q.__name__) for p, q in known if p.__module__.startswith(own)}

    assert pairs(ft) == pairs(pt)


def test_public_names():
    assert set(ft.distributions.__all__) >= set(pt.distributions.__all__)
    for name in pt.distributions.__all__:
        assert hasattr(ft.distributions, name)


def test_float64_is_kept():
    for name, case in EACH:
        if name in ("LKJCholesky",) or "." not in case:
            continue
        def double(module):
            return lambda data: module.tensor(data, dtype=module.float64)
        mine = run(ft, f"D.{name}({case})", t=double(ft))
        theirs = run(pt, f"D.{name}({case})", t=double(pt))
        sample, expected = outcome(mine.sample), outcome(theirs.sample)
        assert [str(t.dtype) for t in tensors(sample[0])] == [
            str(t.dtype).replace("torch", "torch") for t in tensors(expected[0])
        ], name
