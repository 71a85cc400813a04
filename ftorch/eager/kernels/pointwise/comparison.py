"""What picks or compares elements: extrema, comparisons, logic, bits, ``where``."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from ...core.registry import op
from ...core.user_warnings import warn_once
from .._common import broadcast_shapes, default_float, dtype_name, is_complex, is_integral
from .binary import BOOL
from .unary import FORMS, keep, no_derivative, not_implemented, require

# --- extrema -------------------------------------------------------------------------


def _extremum(name, function, loses):
    """Maximum and minimum: ties share the gradient, nan counts as a tie that nobody loses."""

    @op(f"{name}(Tensor self, Tensor other) -> Tensor", promote="common",
        forms="function method out")
    def extremum(self, other):
        if is_complex(self):
            raise RuntimeError(f"{name} not implemented for complex tensors.")
        return function(self, other)

    @extremum.derivative
    def _(grad, *, self, other):
        shared = jnp.where(self == other, grad / 2, grad)
        return keep(~loses(self, other), shared), keep(~loses(other, self), shared)

    return extremum


def _extremum_beside_nan(name, function, wins):
    """``fmax`` and ``fmin``: a number wins over nan, the first one a tie."""

    @op(f"{name}(Tensor self, Tensor other) -> Tensor", promote="common",
        forms="function method out")
    def extremum(self, other):
        if is_complex(self):
            raise RuntimeError(f"{name} not implemented for complex tensors.")
        if is_integral(self):
            return function(self, other)
        best = jnp.where(jnp.isnan(self), other, function(self, other))
        return jnp.where(jnp.isnan(other), self, best)

    @extremum.derivative
    def _(grad, *, self, other):
        first = wins(self, other) | jnp.isnan(other)
        return keep(first, grad), keep(~first, grad)


maximum = _extremum("maximum", jnp.maximum, lambda x, y: x < y)
minimum = _extremum("minimum", jnp.minimum, lambda x, y: x > y)
_extremum_beside_nan("fmax", jnp.maximum, lambda x, y: x >= y)
_extremum_beside_nan("fmin", jnp.minimum, lambda x, y: x <= y)


# Not jnp.maximum and minimum: forward mode must give the whole derivative at a bound, too.
def _at_least(x, low):
    return jnp.where((x < low) | jnp.isnan(low), low, x)


def _at_most(x, high):
    return jnp.where((x > high) | jnp.isnan(high), high, x)


@op("clamp(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", promote="common",
    promoting="self min max", forms=FORMS, aliases="clip")
def clamp(self, min, max):
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if is_complex(self):
        raise NotImplementedError("clamp is not supported for complex types")
    if min is not None:
        self = _at_least(self, min)
    return self if max is None else _at_most(self, max)


clamp.fits("min max")


@clamp.derivative
def _(grad, *, self, min, max):
    if min is None:
        return keep(self <= max, grad), None, keep(self > max, grad)
    if max is None:
        return keep(self >= min, grad), keep(self < min, grad), None
    return (
        keep((self >= min) & (self <= max), grad),
        keep((min < max) & (self < min), grad),
        keep((self > max) | (max < min), grad),
    )


@op("clamp_min(Tensor self, Tensor min) -> Tensor", promote="common", forms=FORMS)
def clamp_min(self, min):
    require(self, "maximum_cpu")
    return _at_least(self, min)


clamp_min.fits("min")


@clamp_min.derivative
def _(grad, *, self, min):
    return keep(self >= min, grad), keep(self < min, grad)


@op("clamp_max(Tensor self, Tensor max) -> Tensor", promote="common", forms=FORMS)
def clamp_max(self, max):
    require(self, "minimum_cpu")
    return _at_most(self, max)


clamp_max.fits("max")


@clamp_max.derivative
def _(grad, *, self, max):
    return keep(self <= max, grad), keep(self > max, grad)


# --- integers ------------------------------------------------------------------------


def _on_integers(name, function, dunder=(), overload="", forms=FORMS, kernel=None, boolean=True):
    text = f"{name}{overload}(Tensor self, Tensor other) -> Tensor"
    kernel_name = kernel or f"{name}_cpu"

    @op(text, promote="common", forms=forms, dunder=" ".join(dunder))
    def bits(self, other):
        if not is_integral(self) or (self.dtype == BOOL and not boolean):
            raise not_implemented(kernel_name, self.dtype)
        return function(*jnp.broadcast_arrays(self, other))


_on_integers("gcd", jnp.gcd, boolean=False)
_on_integers("lcm", jnp.lcm, boolean=False)
for _name, _function in {
    "and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor,
}.items():
    _on_integers(f"bitwise_{_name}", _function, (_name, f"r{_name}", f"i{_name}"), ".Tensor")


def _shift_right(self, other):
    return (lax.shift_right_logical if self.dtype.kind == "u" else lax.shift_right_arithmetic)(self, other)


for _name, _function, _dunder in (("left", lax.shift_left, "lshift"), ("right", _shift_right, "rshift")):
    _on_integers(
        f"bitwise_{_name}_shift", _function, (_dunder, f"r{_dunder}", f"i{_dunder}"), ".Tensor",
        kernel=f"{_dunder}_cpu", boolean=False,
    )


# --- comparison and logic ------------------------------------------------------------


def _comparison(name, function, aliases, ordered):
    @op(f"{name}.Tensor(Tensor self, Tensor other) -> Tensor", promote="compare", forms=FORMS,
        aliases=aliases, dunder=name, differentiable=False)
    def compare(self, other):
        require(self, f"{name}_cpu", complex=not ordered)
        return function(self, other)


for _name, _function, _aliases in (
    ("eq", jnp.equal, ""), ("ne", jnp.not_equal, "not_equal"), ("lt", jnp.less, "less"),
    ("le", jnp.less_equal, "less_equal"), ("gt", jnp.greater, "greater"),
    ("ge", jnp.greater_equal, "greater_equal"),
):
    _comparison(_name, _function, _aliases, ordered=_name not in ("eq", "ne"))


def _logic(name, function):
    @op(f"logical_{name}(Tensor self, Tensor other) -> Tensor", forms=FORMS, differentiable=False,
        layout="pointwise")
    def logic(self, other):
        broadcast_shapes(self.shape, other.shape)
        return function(self != 0, other != 0)


for _name, _function in {
    "and": jnp.logical_and, "or": jnp.logical_or, "xor": jnp.logical_xor,
}.items():
    _logic(_name, _function)


@op("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
    "-> Tensor", forms="function method", differentiable=False, layout="pointwise")
def isclose(self, other, rtol, atol, equal_nan):
    if self.dtype != other.dtype:
        raise RuntimeError(f"{dtype_name(self.dtype)} did not match {dtype_name(other.dtype)}")
    for name, value in {"rtol": rtol, "atol": atol}.items():
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    broadcast_shapes(self.shape, other.shape)
    close = self == other
    if equal_nan and not is_integral(self):
        close |= jnp.isnan(self) & jnp.isnan(other)
    if rtol == 0 and atol == 0:
        return close
    if is_integral(self):
        self, other = self.astype(default_float()), other.astype(default_float())
    error = jnp.abs(self - other)
    allowed = atol + jnp.abs(rtol * other)
    return close | (jnp.isfinite(error) & (error <= allowed))


# --- selection and combination of three ----------------------------------------------


@op("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", promote="common",
    promoting="self other", forms="out")
def where(condition, self, other):
    if condition.dtype not in (jnp.bool_, jnp.uint8):
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{dtype_name(condition.dtype)}"
        )
    broadcast_shapes(condition.shape, self.shape, other.shape)
    if condition.dtype == jnp.uint8:
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version "
            "of PyTorch. Use a boolean condition instead."
        )
    return jnp.where(condition.astype(jnp.bool_), self, other)


where.fits("self other", halves=False)


@where.derivative
def _(grad, *, condition):
    chosen = condition.astype(jnp.bool_)
    return None, keep(chosen, grad), keep(~chosen, grad)


@op("heaviside(Tensor self, Tensor values) -> Tensor", forms=FORMS, layout="pointwise")
def heaviside(self, values):
    if is_complex(self) or is_complex(values):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    broadcast_shapes(self.shape, values.shape)
    return jnp.where(self == 0, values, (self > 0).astype(self.dtype))


heaviside.derivative(no_derivative("heaviside"))
