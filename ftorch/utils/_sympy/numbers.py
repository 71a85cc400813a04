"""The infinities of whole numbers (``torch.utils._sympy.numbers``).

They are single instances of plain classes: sympy's metaclass ``Singleton`` would enter them in the registry
``sympy.S`` under their names, where PyTorch has its own, in a process that imports both.
"""

from __future__ import annotations

import sympy
from sympy.core.decorators import _sympifyit
from sympy.core.parameters import global_parameters


class _Infinite(sympy.Number):
    """An end of the whole numbers: beyond each finite number, within the infinity of the real numbers."""

    __slots__ = ()
    # Expressions ask the operand of the higher priority: without, 3 + int_oo would be asked of 3.
    _op_priority = 100.0
    is_integer = True
    is_commutative = True
    is_number = True
    is_comparable = True
    is_prime = False
    _sign = 0
    _instance = None

    def __new__(cls):
        if cls.__dict__.get("_instance") is None:
            cls._instance = sympy.Basic.__new__(cls)
        return cls._instance

    def __reduce__(self):
        return type(self), ()

    def __reduce_ex__(self, protocol):
        return self.__reduce__()

    @staticmethod
    def _of(sign):
        return (IntInfinity if sign > 0 else NegativeIntInfinity)()

    def __neg__(self):
        return self._of(-self._sign)

    def __abs__(self):
        return self._of(1)

    @_sympifyit("other", NotImplemented)
    def __add__(self, other):
        if not (isinstance(other, sympy.Number) and global_parameters.evaluate):
            return sympy.Number.__add__(self, other)
        if other is sympy.oo or (other is -sympy.oo and self._sign > 0):
            return other
        return sympy.nan if other is sympy.nan or other is -self else self

    __radd__ = __add__

    def __sub__(self, other):
        return self + -sympy.sympify(other)

    def __rsub__(self, other):
        return -self + other

    @_sympifyit("other", NotImplemented)
    def __mul__(self, other):
        if not (isinstance(other, sympy.Number) and global_parameters.evaluate):
            return sympy.Number.__mul__(self, other)
        if other.is_zero or other is sympy.nan:
            return sympy.nan
        return self if other.is_extended_positive else -self

    __rmul__ = __mul__

    @_sympifyit("other", NotImplemented)
    def __truediv__(self, other):
        if not (isinstance(other, sympy.Number) and global_parameters.evaluate):
            return sympy.Number.__truediv__(self, other)
        if isinstance(other, _Infinite) or other in (sympy.oo, -sympy.oo, sympy.nan):
            return sympy.nan
        if self._sign < 0 and other.is_extended_nonnegative:
            return self  # PyTorch's, of the four the one that isn't an infinity of real numbers
        return sympy.oo * self._sign * (1 if other.is_extended_nonnegative else -1)

    def floor(self):
        """Itself, a whole number."""
        return self

    ceiling = floor

    def _eval_power(self, exponent):
        if exponent.is_extended_positive:
            return self._of(1 if self._sign > 0 or exponent.is_even else -1)
        if exponent.is_extended_negative:
            return sympy.S.Zero
        return sympy.S.One if exponent.is_zero else None

    def _eval_evalf(self, prec=None):
        return self

    def evalf(self, *args, **kwargs):
        """Itself: no digits are more exact."""
        return self

    def _as_mpf_val(self, prec):
        return sympy.Float(float(self))._as_mpf_val(prec)

    def __float__(self):
        return self._sign * float("inf")

    def __hash__(self):
        return hash((IntInfinity, self._sign))

    def __eq__(self, other):
        return self is other

    def __ne__(self, other):
        return self is not other

    def _compare(self, other):
        """The sign of the difference from a number; symbols are of finite ones."""
        if other is self:
            return 0
        return {sympy.oo: -1, -sympy.oo: 1}.get(other, self._sign)

    def __lt__(self, other):
        return sympy.sympify(self._compare(other) < 0)

    def __le__(self, other):
        return sympy.sympify(self._compare(other) <= 0)

    def __gt__(self, other):
        return sympy.sympify(self._compare(other) > 0)

    def __ge__(self, other):
        return sympy.sympify(self._compare(other) >= 0)

    def _sympystr(self, printer):
        return "int_oo" if self._sign > 0 else "-int_oo"

    _sympyrepr = _sympystr


class IntInfinity(_Infinite):
    """An infinity that is a whole number: the bound of sizes without one.

    >>> int_oo + 3, -int_oo < -5, int_oo < sympy.oo
    (int_oo, True, True)
    """

    __slots__ = ()
    is_extended_positive = True
    _sign = 1


class NegativeIntInfinity(_Infinite):
    """The negative of `IntInfinity`."""

    __slots__ = ()
    is_extended_negative = True
    _sign = -1


int_oo = IntInfinity()


def is_infinite(expr) -> bool:
    """Whether it is one of the infinities."""
    return expr in (int_oo, -int_oo, sympy.oo, -sympy.oo)
