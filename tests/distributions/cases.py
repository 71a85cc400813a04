"""One or more distributions of each class, described for either library."""

from __future__ import annotations

# Each is source code with D for torch.distributions, t for torch.tensor and torch.
CASES = {
    "Bernoulli": ["t([.2, .7])", "logits=t([-1., 2.])", ".3"],
    "Beta": ["t([.5, 2.]), t([1.5, 3.])", "2., 3."],
    "Binomial": ["5, t([.2, .7])", "t(4.), logits=t([-1., 2.])", "t([4, 4]), t(.5)"],
    "Categorical": ["t([.2, .3, .5])", "logits=t([[1., 2., 3.], [0., 0., 1.]])"],
    "Cauchy": ["t([0., 1.]), t([1., 2.])"],
    "Chi2": ["t([1., 3.])", "2."],
    "ContinuousBernoulli": ["t([.2, .5, .7])", "logits=t([-1., .001])"],
    "Dirichlet": ["t([.5, 1.5, 3.])", "t([[.5, .5], [2., 3.]])"],
    "Exponential": ["t([.5, 2.])", "3."],
    "FisherSnedecor": ["t([2., 5.]), t([3., 6.])"],
    "Gamma": ["t([.5, 2.]), t([1., 3.])", "2., 3."],
    "GeneralizedPareto": ["t([0., 1., 0.]), t([1., 2., 1.]), t([.25, 0., -.5])"],
    "Geometric": ["t([.2, .7])", "logits=t([-1., 2.])"],
    "Gumbel": ["t([0., 1.]), t([1., 2.])", "0., 1."],
    "HalfCauchy": ["t([1., 2.])"],
    "HalfNormal": ["t([1., 2.])", "1."],
    "Independent": ["D.Normal(t([0., 1.]), t([1., 2.])), 1", "D.Bernoulli(t([.3, .6])), 0"],
    "InverseGamma": ["t([.5, 3.]), t([1., 3.])"],
    "Kumaraswamy": ["t([.5, 2.]), t([1.5, 3.])"],
    "LKJCholesky": ["3, .5", "2, t([1., 2.])"],
    "Laplace": ["t([0., 1.]), t([1., 2.])"],
    "LogNormal": ["t([0., 1.]), t([1., .5])"],
    "LogisticNormal": ["t([0., 1.]), t([1., .5])", "0., 1."],
    "LowRankMultivariateNormal": [
        "t([0., 1.]), t([[1.], [2.]]), t([1., 2.])",
        "torch.zeros(3, 2), t([[1.], [2.]]), t([1., 2.])",
    ],
    "MixtureSameFamily": [
        "D.Categorical(t([.2, .8])), D.Normal(t([0., 1.]), t([1., 2.]))",
        "D.Categorical(t([[.2, .8], [.5, .5]])), "
        "D.Independent(D.Normal(torch.arange(12.).reshape(2, 2, 3), 1.), 1)",
    ],
    "Multinomial": ["5, t([.2, .3, .5])", "3, logits=t([[1., 2., 3.], [0., 0., 1.]])"],
    "MultivariateNormal": [
        "t([0., 1.]), t([[2., .5], [.5, 1.]])",
        "t([0., 1.]), scale_tril=t([[2., 0.], [.5, 1.]])",
        "torch.zeros(3, 2), precision_matrix=t([[2., .5], [.5, 1.]])",
    ],
    "NegativeBinomial": ["5, t([.2, .7])", "t(4.), logits=t([-1., 2.])"],
    "Normal": ["t([0., 1.]), t([1., 2.])", "0., 1.", "t(1.), t([[1.], [2.]])"],
    "OneHotCategorical": ["t([.2, .3, .5])", "logits=t([[1., 2., 3.], [0., 0., 1.]])"],
    "OneHotCategoricalStraightThrough": ["t([.2, .3, .5])"],
    "Pareto": ["t([1., 2.]), t([1.5, 3.])"],
    "Poisson": ["t([.5, 20.])", "3."],
    "RelaxedBernoulli": ["t(.7), t([.2, .7])", "t(2.), logits=t([-1., 2.])"],
    "RelaxedOneHotCategorical": ["t(.7), t([.2, .3, .5])", "t(2.), logits=t([-1., 2.])"],
    "StudentT": ["t([1.5, 5.]), t([0., 1.]), t([1., 2.])", "t(3.)"],
    "TransformedDistribution": [
        "D.Normal(t([0., 1.]), 1.), [D.ExpTransform(), D.AffineTransform(1., -2.)]",
        "D.Normal(t([0., 1.]), 1.), D.SigmoidTransform()",
        "D.Normal(torch.zeros(3), 1.), D.StickBreakingTransform()",
    ],
    "Uniform": ["t([0., 1.]), t([1., 3.])", "0., 1."],
    "VonMises": ["t([0., 1.]), t([1., .01])"],
    "Weibull": ["t([1., 2.]), t([1.5, 3.])"],
    "Wishart": ["t(4.), t([[2., .5], [.5, 1.]])", "5., scale_tril=t([[2., 0.], [.5, 1.]])"],
}

# Pairs with a divergence, of which there is no other pair of the same classes above.
DIVERGENCES = {
    "Bernoulli": "t([.3, 1., 0.])", "Beta": "t([2., .5, 1.]), t([3., 1., .7])",
    "ContinuousBernoulli": "t([.3, .8, .6])", "Exponential": "t([2., .5, 1.])",
    "Gamma": "t([2., .5, 1.]), t([3., 1., .7])", "Gumbel": "t([.5, 1., 2.]), t([1., .5, 2.])",
    "Laplace": "t([.5, 1., 2.]), t([1., .5, 2.])", "Normal": "t([.5, 1., 2.]), t([1., .5, 2.])",
    "Pareto": "t([.5, 1., 2.]), t([3., 2.5, 4.])", "Poisson": "t([.5, 2., 7.])",
    "Uniform": "t([.1, .2, -1.]), t([.8, .7, 2.])", "Binomial": "3, t([.2, .5, .6])",
}
OTHERS = {
    "Bernoulli": "t([.6, .2, 0.])", "Beta": "t([1., 2.5, .3]), t([.5, 2., .9])",
    "ContinuousBernoulli": "t([.5, .1, .9])", "Exponential": "t([1., 2., .3])",
    "Gamma": "t([1., 2., .3]), t([.5, 2., .9])", "Gumbel": "t([0., 2., 1.]), t([2., 1., 1.])",
    "Laplace": "t([0., 2., 1.]), t([2., 1., 1.])", "Normal": "t([0., 2., 1.]), t([2., 1., 1.])",
    "Pareto": "t([.05, .5, 1.]), t([3., 2.5, 4.])", "Poisson": "t([1., 3., 4.])",
    "Uniform": "t([0., .3, -2.]), t([1., .6, 3.])", "Binomial": "3, t([.3, .5, .9])",
}
PAIRS = [
    (f"D.{p}({DIVERGENCES[p]})", f"D.{q}({OTHERS[q]})") for p in DIVERGENCES for q in OTHERS
] + [
    (f"D.{name}({a})", f"D.{name}({b})")
    for name, a, b in (
        ("Categorical", "t([.2, .3, .5])", "t([.5, .5, 0.])"),
        ("Cauchy", "t([0., 1.]), t([1., 2.])", "t([1., 1.]), t([2., 1.])"),
        ("Dirichlet", "t([.5, 1.5, 3.])", "t([1., 1., 1.])"),
        ("Geometric", "t([.2, .7])", "t([.3, .6])"),
        ("HalfNormal", "t([1., 2.])", "t([2., 1.])"),
        ("OneHotCategorical", "t([.2, .3, .5])", "t([.5, .2, .3])"),
        ("LogNormal", "t([0., 1.]), t([1., .5])", "t([1., 1.]), t([2., 1.])"),
        ("Independent", "D.Normal(t([0., 1.]), 1.), 1", "D.Normal(t([1., 1.]), 2.), 1"),
        ("Independent", "D.Normal(t([0., 1.]), 1.), 1", "D.Normal(t([1., 1.]), 2.), 0"),
        ("Chi2", "t([1., 3.])", "t([2., 2.])"),
        ("Wishart", "t(4.), torch.eye(2)", "t(5.), 2 * torch.eye(2)"),
        ("StudentT", "t(3.)", "t(3.)"),
        ("VonMises", "0., 1.", "0., 1."),
    )
]
_NORMALS = (
    "D.MultivariateNormal(t([0., 1.]), t([[2., .5], [.5, 1.]]))",
    "D.MultivariateNormal(torch.zeros(3, 2), scale_tril=t([[1., 0.], [.5, 2.]]))",
    "D.LowRankMultivariateNormal(t([1., 1.]), t([[1.], [2.]]), t([1., 2.]))",
    "D.LowRankMultivariateNormal(torch.ones(3, 2), t([[.5], [1.]]), t([2., 1.]))",
    "D.MultivariateNormal(torch.zeros(3), torch.eye(3))",
)
PAIRS += [(p, q) for p in _NORMALS for q in _NORMALS]
