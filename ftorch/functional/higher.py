"""Transforms made of others."""

from __future__ import annotations

import functools

from ..eager.dispatch.levels import Wrapped
from ..eager.tensor import modes
from ..eager.transforms.eager_transforms import jacrev
from ..eager.transforms.forward import jacfwd


def hessian(func, argnums=0):
    """The Hessian of a function: forward over reverse mode (``torch.func.hessian``).

    >>> import ftorch as torch
    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func, *, remove="mutations"):
    """The function with its mutations removed (``torch.func.functionalize``).

    Outside of `make_fx` there is nothing to remove: recorded programs consist of pure functions, a write being a
    new value of a storage. Inputs that the function changes in place are changed, as in PyTorch. Within `make_fx`
    the graph has no writes: they become new values, and a copy into each changed input at the end. Draws are those of
    the functions without writes: dropout's and ``bernoulli_``'s follow a tensor's dimensions, not its memory.

    Args:
        remove: "mutations" or "mutations_and_views".

    >>> import ftorch as torch
    >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): received invalid argument for "
            f"remove={remove}. Valid options are:\n     remove='mutations': all inplace and out= "
            "operators will be removed from the program, and replaced with their out-of-place equivalents.\n     "
            "remove='mutations_and_views': In addition to the above, all aliasing operators "
            "{view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        modes.functionalizing += 1
        try:
            for level in reversed(modes.levels):
                result = level.functionalize(func, args, kwargs, remove == "mutations_and_views")
                if result is not NotImplemented:
                    return result
            return func(*args, **kwargs)
        finally:
            modes.functionalizing -= 1

    return wrapped


def debug_unwrap(tensor, *, recurse=True):
    """The tensor below the levels of the transforms that are active.

    Args:
        recurse: below all of them, not only the innermost.

    >>> import ftorch as torch
    >>> def f(x):
    ...     print(torch.func.debug_unwrap(x))
    ...     return x
    >>> _ = torch.vmap(f)(torch.zeros(2))
    tensor([0., 0.])
    """
    while isinstance(tensor, Wrapped):
        tensor = tensor._inner
        if not recurse:
            break
    return tensor
