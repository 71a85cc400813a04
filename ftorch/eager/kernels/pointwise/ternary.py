"""Combinations of several tensors: lerp, addcmul, addcdiv, complex numbers of two parts."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from ...core.dtype import from_numpy
from ...core.registry import op
from .._common import broadcast_shapes, dtype_name, up
from .unary import FORMS, require, require_floating, sgn_of, times

# --- weighted sums -------------------------------------------------------------------


def _lerp(schema, kernel_name):
    @op(f"lerp.{schema} -> Tensor", forms=FORMS, layout="pointwise")
    def lerp(self, end, weight):
        for name, value in {"end": end, "weight": weight}.items():
            is_number = name == "weight" and jnp.ndim(value) == 0
            if not is_number and value.dtype != self.dtype:
                want, have = (from_numpy(x.dtype).c_name for x in (self, value))
                raise RuntimeError(f"expected dtype {want} for `{name}` but got dtype {have}")
        require_floating(self, kernel_name, complex=True)
        broadcast_shapes(self.shape, end.shape, jnp.shape(weight))
        start, span = up(self), up(end) - up(self)
        weight = jnp.asarray(weight).astype(start.dtype)
        # From the nearer end, so that weights 0 and 1 give the ends exactly.
        near = jnp.abs(weight) < 0.5
        value = jnp.where(near, start + weight * span, up(end) - span * (1 - weight))
        return value.astype(self.dtype)

    @lerp.derivative
    def _(grad, *, self, end, weight):
        weight = jnp.asarray(weight).astype(up(grad).dtype)
        ends = times(grad, 1 - weight), times(grad, weight)
        return (*ends, times(grad, up(end) - up(self))) if "Scalar" not in schema else ends


_lerp("Scalar(Tensor self, Tensor end, Scalar weight)", "lerp_kernel_scalar")
_lerp("Tensor(Tensor self, Tensor end, Tensor weight)", "lerp_kernel_tensor")


def _value(value, dtype):
    return jnp.asarray(1 if value is None else value).astype(dtype)


@op("addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    promote="common", forms=FORMS)
def addcmul(self, tensor1, tensor2, value):
    require(self, "addcmul_cpu_out", boolean=False, complex=True)
    x = up(self)
    return (x + _value(value, x.dtype) * up(tensor1) * up(tensor2)).astype(self.dtype)


addcmul.fits("value", halves=False)


@addcmul.derivative
def _(grad, *, tensor1, tensor2, value):
    x, y = up(tensor1), up(tensor2)
    value = _value(value, x.dtype)
    return grad, times(grad, y * value), times(grad, x * value)


@op("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    promote="common", forms=FORMS)
def addcdiv(self, tensor1, tensor2, value):
    x = up(self)
    return (x + _value(value, x.dtype) * up(tensor1) / up(tensor2)).astype(self.dtype)


@addcdiv.dtypes
def _(tensor1, tensor2):
    if not any(d.is_floating_point or d.is_complex for d in (tensor1, tensor2)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2))."
            "to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
            "float inputs. The future addcdiv behavior is just the latter implementation: (input "
            "+ value * tensor1 / tensor2), for all dtypes."
        )


addcdiv.fits("value", halves=False)


@addcdiv.derivative
def _(grad, *, tensor1, tensor2, value):
    x, y = up(tensor1), up(tensor2)
    value = _value(value, x.dtype)
    return grad, times(grad, value / y), times(grad, -(value * x / (y * y)))


# --- complex numbers of two real ones ------------------------------------------------


def _check_parts(first, second):
    names = [dtype_name(x.dtype) for x in (first, second)]
    if not all(name in ("Half", "Float", "Double") for name in names):
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{names[0]} and {names[1]}"
        )
    if names[0] != names[1]:
        raise RuntimeError(
            f"Expected object of scalar type {names[0]} but got scalar type {names[1]} for second "
            "argument"
        )
    broadcast_shapes(first.shape, second.shape)


@op("complex(Tensor real, Tensor imag) -> Tensor", forms="function out", layout="pointwise")
def complex_(real, imag):
    _check_parts(real, imag)
    return lax.complex(*jnp.broadcast_arrays(up(real), up(imag)))


@complex_.derivative
def _(grad):
    return grad.real, grad.imag


@op("polar(Tensor abs, Tensor angle) -> Tensor", forms="function out", layout="pointwise")
def polar(abs, angle):
    _check_parts(abs, angle)
    require(abs, "polar_cpu", half=False)
    return lax.complex(abs * jnp.cos(angle), abs * jnp.sin(angle))


@polar.derivative
def _(grad, *, result):
    # |z| has the direction of z; the angle moves z at right angles to it.
    along = lax.conj(grad) * sgn_of(result)
    around = lax.conj(grad) * lax.complex(-result.imag, result.real)
    return along.real, around.real
