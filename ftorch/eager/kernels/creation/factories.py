"""Tensors made of numbers alone.

Sizes and lengths are static, the numbers (start, step, fill value) are operands: a new value does
not compile again. Dtypes come last and are always given: the composites infer them.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import converted, dtype_name, filled, from_both_ends, up


def _not_implemented(kernel, dtype):
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_name(dtype)}'")


def _is(dtype, kind):
    return jnp.issubdtype(dtype, kind)


@op("full(int[] size, Scalar fill_value, ScalarType dtype) -> Tensor", forms="")
def full(size, fill_value, dtype):
    return jnp.full(size, converted(fill_value, dtype))


full.every()


def _constant(name, value):
    @op(f"{name}(int[] size, ScalarType dtype) -> Tensor", forms="")
    def constant(size, dtype):
        return filled(size, value, dtype)

    return constant.every(value)


zeros = _constant("zeros", 0)
ones = _constant("ones", 1)
empty = _constant("empty", 0)


@op("eye(int n, int m, ScalarType dtype) -> Tensor", forms="")
def eye(n, m, dtype):
    return converted(jnp.eye(n, m, dtype=bool), dtype)


@op("arange(int length, Scalar start, Scalar step, ScalarType dtype) -> Tensor", forms="")
def arange(length, start, step, dtype):
    if dtype == np.bool_ or _is(dtype, jnp.complexfloating):
        raise _not_implemented("arange_cpu", dtype)
    wide = np.int64 if _is(dtype, jnp.integer) else np.float64
    start, step = start.astype(wide), step.astype(wide)
    return (start + step * jnp.arange(length, dtype=wide)).astype(dtype)


@arange.bound
def _(length, start, step):
    last = start + step * max(length - 1, 0)
    return min(start, last), max(start, last) + 1


@op("linspace(Scalar start, Scalar end, int steps, ScalarType dtype) -> Tensor", forms="")
def linspace(start, end, steps, dtype):
    if dtype == np.bool_:
        raise _not_implemented("linspace_cpu", dtype)
    start, end = up(start.astype(dtype)), up(end.astype(dtype))
    if _is(dtype, jnp.integer):
        start, end = start.astype(np.float64), end.astype(np.float64)
    return from_both_ends(start, end, steps).astype(dtype)


@op("logspace(Scalar start, Scalar end, int steps, float base, ScalarType dtype) -> Tensor",
    forms="")
def logspace(start, end, steps, base, dtype):
    if dtype == np.bool_:
        raise _not_implemented("logspace_cpu", dtype)
    start, end = up(start.astype(dtype)), up(end.astype(dtype))
    if _is(dtype, jnp.integer):
        start, end = start.astype(np.float64), end.astype(np.float64)
    exponents = from_both_ends(start, end, steps)
    return jnp.power(jnp.asarray(base, exponents.dtype), exponents).astype(dtype)


def _triangle_indices(name, columns):
    @op(f"{name}(int row, int col, int offset, ScalarType dtype) -> Tensor", forms="")
    def indices(row, col, offset, dtype):
        for size, side in ((row, "row"), (col, "col")):
            if size < 0:
                raise RuntimeError(f"{side} must be non-negative, got{size}")
        if not _is(dtype, jnp.integer):
            raise _not_implemented(name, dtype)
        first, end = (np.clip(bound, 0, col) for bound in columns(np.arange(row), offset, col))
        behind = np.cumsum(end - first)  # per row, where its elements end
        place = jnp.arange(behind[-1] if row else 0)
        rows = jnp.searchsorted(behind, place, side="right")
        return jnp.stack([rows, place + jnp.asarray(end - behind)[rows]]).astype(dtype)

    return indices


# The columns of each row: from the first to behind the last.
tril_indices = _triangle_indices(
    "tril_indices", lambda rows, offset, col: (0 * rows, rows + offset + 1)
)
triu_indices = _triangle_indices(
    "triu_indices", lambda rows, offset, col: (rows + offset, 0 * rows + col)
)


# --- of another tensor's shape, where a transform must see that tensor ----------------


def _of_tensor(name, value):
    @op(f"{name}_like(Tensor self, ScalarType dtype) -> Tensor", forms="", differentiable=False)
    def like(self, dtype):
        return filled(self.shape, value, dtype)

    like.every(value)

    @op(f"new_{name}(Tensor self, int[] size, ScalarType dtype) -> Tensor", forms="",
        differentiable=False)
    def new(self, size, dtype):
        return filled(size, value, dtype)

    new.every(value)


_of_tensor("zeros", 0)
_of_tensor("ones", 1)
_of_tensor("empty", 0)


@op("full_like(Tensor self, Scalar fill_value, ScalarType dtype) -> Tensor", forms="",
    differentiable=False)
def full_like(self, fill_value, dtype):
    return jnp.full(self.shape, converted(fill_value, dtype))


full_like.every()


@op("new_full(Tensor self, int[] size, Scalar fill_value, ScalarType dtype) -> Tensor", forms="",
    differentiable=False)
def new_full(self, size, fill_value, dtype):
    return jnp.full(size, converted(fill_value, dtype))


new_full.every()
