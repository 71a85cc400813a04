"""PyTorch's random distributions, bit for bit, as functions of a `Generator` that return arrays.

Arrays are filled in C order: who fills a tensor of another memory order draws in that order. Dtypes
are NumPy's. Every function holds the generator's lock while it draws. The algorithms are those of
PyTorch on x86-64 with AVX2 or later; ``tests/eager/sampling/test_generator.py`` compares them with it.
"""

from .discrete import (
    bernoulli,
    bernoulli_tensor,
    geometric,
    multinomial,
    randint,
    random_,
    randperm,
)
from .normal import log_normal, normal
from .rejection import binomial, dirichlet, poisson, standard_gamma
from .uniform import cauchy, exponential, uniform

__all__ = [
    "bernoulli", "bernoulli_tensor", "binomial", "cauchy", "dirichlet", "exponential", "geometric",
    "log_normal", "multinomial", "normal", "poisson", "randint", "random_", "randperm",
    "standard_gamma", "uniform",
]
