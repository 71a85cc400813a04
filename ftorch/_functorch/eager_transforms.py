"""``torch._functorch.eager_transforms``."""

from ..eager.transforms.eager_transforms import _check_argnums, _slice_args
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


def _slice_argnums(args, argnums, as_tuple=True):
    """Those arguments that numbers choose: as a tuple, also where it is one number.

    Raises:
        RuntimeError: for numbers that choose nothing, or the same twice.
    """
    _check_argnums(argnums, args)
    chosen = _slice_args(args, argnums)
    return (chosen,) if as_tuple and isinstance(argnums, int) else chosen
