"""``torch._functorch.eager_transforms``."""

from ..functional import (  # noqa: F401
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
