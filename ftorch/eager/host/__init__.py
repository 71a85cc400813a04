"""Rules that run recorded steps on the CPU without XLA: one for each JAX primitive, on NumPy arrays.

`rules` registers them, a file for each family holds them, `interpret` runs a whole jaxpr by them.
"""

from . import (  # noqa: F401  (they register their rules)
    contraction,
    control_flow,
    conversions,
    convolution,
    indexing,
    linalg,
    long_steps,
    native_calls,
    nn,
    pointwise,
    reduction,
    shape,
    sorting,
    special_functions,
)
from .interpret import evaluate, xla_step
from .rules import RULES, MissingRule, Rule

long_steps.install()
native_calls.install()

__all__ = ["RULES", "MissingRule", "Rule", "evaluate", "xla_step"]
