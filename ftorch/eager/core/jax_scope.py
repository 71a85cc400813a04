"""Configuration of JAX: in force while the package traces, compiles or runs something, and for nobody else.

PyTorch has float64 and int64, and multiplies float32 in float32; JAX's defaults are other ones, and whoever uses JAX beside
the package keeps them. So nothing of ``jax.config`` is changed: every way into JAX is a function that is `scoped`, which sets
the calling thread's own values and puts back what they were. JAX finds compiled functions by these settings: a function that
is compiled within must be called within, too.
"""

from __future__ import annotations

import functools

import jax

from . import jax_internals
from .jax_internals import F

_get_x64, _set_x64 = jax_internals.thread_setting("jax_enable_x64", "enable_x64")
_get_precision, _set_precision = jax_internals.thread_setting("jax_default_matmul_precision", "default_matmul_precision")


class _Precision(str):
    """A name of JAX's for how products are computed; by its class `is_inside` knows it from one that somebody else set."""


_precision = _Precision("highest")


def precision() -> str:
    """How products and convolutions of float32 are computed, by JAX's name."""
    return _precision


def set_precision(name: str) -> None:
    """Sets `precision` for what is traced from now on."""
    global _precision
    _precision = _Precision(name)


def is_inside() -> bool:
    """Whether the package's settings are in force in the calling thread."""
    return _get_precision().__class__ is _Precision


def scoped(function: F) -> F:
    """Makes a function run with the package's settings. Costs .3 us a call.

    An interrupt (Ctrl-C) comes before the settings are changed, or after they are put back, or within the function.
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        x64, products = _get_x64(), _get_precision()
        try:
            _set_x64(True)
            _set_precision(_precision)
            return function(*args, **kwargs)
        finally:
            try:
                _set_x64(x64)
            finally:
                _set_precision(products)

    return call  # type: ignore[return-value]


def scoped_trace(function: F) -> F:
    """`scoped` for a function that traces others and changes nothing, which is called once more where JAX is busy with the same
    (in the handler of a signal)."""

    return scoped(jax_internals.called_again(function))


def callers_settings():
    """(whether there are 64-bit types, the precision of products) as they are in force in the calling thread, for `under`."""
    return jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision


def under(settings) -> jax_internals.held:
    """Within, settings of somebody else's are in force: his function is traced within the package's scope."""
    x64, products = settings
    return jax_internals.held((_get_x64, _set_x64, x64), (_get_precision, _set_precision, products))


def scope() -> jax_internals.held:
    """`scoped` for a block: ``with scope():``."""
    return under((True, _precision))
