"""Operators whose implementation calls Triton kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._custom_op import custom_op


def triton_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
) -> Callable:
    """An operator made of a function whose kernels are called by `wrap_triton`.

    Args:
        name: ``"namespace::op"``. mutates_args: the names of the arguments it writes to, or "unknown".
        schema: the operator's schema, from the function's annotations by default.

    >>> import ftorch as torch
    >>> @torch.library.triton_op("docs_triton::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> twice(torch.ones(2))
    tensor([2., 2.])
    """
    decorate = custom_op(name, mutates_args=mutates_args, schema=schema)
    return decorate if fn is None else decorate(fn)


def wrap_triton(triton_kernel: Callable, /) -> Any:
    """A Triton kernel for use in a `triton_op`: it is called as Triton's own, ``kernel[grid](*args)``.

    Raises:
        RuntimeError: for what is no kernel of Triton's (`triton.jit`, `triton.autotune`).
    """
    if not hasattr(triton_kernel, "__getitem__") or not hasattr(triton_kernel, "run"):
        raise RuntimeError(
            "wrap_triton only works on functions annotated with triton.jit or triton.autotune, got "
            f"{type(triton_kernel).__name__}; kernels for JAX are written with Pallas"
        )
    return triton_kernel
