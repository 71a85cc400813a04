"""Ops that copy, cast or fill."""

from __future__ import annotations

import jax.numpy as jnp

from ...core.errors import size_mismatch
from ...core.registry import op
from ...core.user_warnings import warn_once
from .._common import converted, filled, is_complex


def cast(x, dtype):
    """``x`` as PyTorch casts it: the imaginary part is dropped, everything else as C casts."""
    if is_complex(x) and not jnp.issubdtype(dtype, jnp.complexfloating) and dtype != jnp.bool_:
        x = x.real
    return converted(x, dtype)


def _cast_loudly(x, dtype):
    if is_complex(x) and not jnp.issubdtype(dtype, jnp.complexfloating) and dtype != jnp.bool_:
        warn_once("Casting complex values to real discards the imaginary part")
    return cast(x, dtype)


@op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", forms="",
    layout="preserve")
def clone(self, memory_format):
    return jnp.asarray(self)


@clone.derivative
def _(grad):
    return grad


@op("_to_copy(Tensor self, ScalarType dtype) -> Tensor", forms="", layout="preserve")
def to_copy(self, dtype):
    return _cast_loudly(self, dtype)


@op("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", forms="",
    layout="pointwise")
def copy(self, src, non_blocking):
    shape, given = self.shape, src.shape
    if len(given) > len(shape) or any(
        n not in (1, shape[len(shape) - len(given) + i]) for i, n in enumerate(given)
    ):
        _reject(shape, given)
    return jnp.broadcast_to(_cast_loudly(src, self.dtype), shape)


def _reject(shape, given):
    """Raises what PyTorch says of sizes that do not go together, from the last on, or that would make the target grow."""
    rank = max(len(shape), len(given))
    mine, theirs = ((1,) * (rank - len(sizes)) + tuple(sizes) for sizes in (shape, given))
    for d in reversed(range(rank)):
        if 1 not in (mine[d], theirs[d]) and mine[d] != theirs[d]:
            raise RuntimeError(size_mismatch(mine[d], theirs[d], d))
    both = [b if a == 1 else a for a, b in zip(mine, theirs)]
    raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {both}")


@copy.derivative
def _(grad):
    return None, grad


# First, so that a 0-d tensor, which also is a Scalar, keeps its gradient.
@op("fill.Tensor(Tensor self, Tensor value) -> Tensor", forms="function inplace",
    layout="pointwise")
def fill_tensor(self, value):
    if value.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
            "dimensions."
        )
    return jnp.broadcast_to(cast(value, self.dtype), self.shape)


@fill_tensor.derivative
def _(grad):
    return jnp.zeros_like(grad), grad.sum()


@op("fill.Scalar(Tensor self, Scalar value) -> Tensor", forms="function inplace",
    layout="pointwise")
def fill_scalar(self, value):
    return jnp.full(self.shape, cast(jnp.asarray(value), self.dtype))


fill_scalar.every()
for _kernel in (fill_tensor, fill_scalar):
    _kernel.overlap(expanded="")
fill_scalar.fits("value", halves=lambda g: g.numel != 1, floats=True)  # PyTorch fills single elements apart


@fill_scalar.derivative
def _(grad):
    return jnp.zeros_like(grad)


@op("zero(Tensor self) -> Tensor", forms="inplace", layout="pointwise")
def zero(self):
    return filled(self.shape, 0, self.dtype)


zero.every(0)
zero.overlap(expanded="")


@zero.derivative
def _(grad):
    return jnp.zeros_like(grad)
