"""Regions that parameters and samples lie in (``torch.distributions.constraints``).

``constraint.check(value)`` says for each event of a tensor whether it is inside.
"""

from __future__ import annotations

import ftorch as torch
from ftorch.eager.bindings.constructors import own_constructors

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval",
    "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "MixtureSameFamilyConstraint", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
    "positive", "positive_semidefinite", "positive_definite", "positive_integer", "real",
    "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]


class Constraint:
    """A region over which a variable is valid.

    Attributes:
        is_discrete: whether the region is discrete.
        event_dim: how many rightmost dimensions together make one event.

    >>> import ftorch as torch
    >>> torch.distributions.constraints.unit_interval.check(torch.tensor([0.5, 2.0]))
    tensor([ True, False])
    """

    is_discrete = False
    event_dim = 0
    _ftorch_bounds: tuple[str, ...] = ()  # the attributes that `repr` shows
    _ftorch_compares = False  # whether `check` only compares, each element by itself

    def check(self, value):
        """A bool tensor of ``sample_shape + batch_shape``: which events are in the region."""
        raise NotImplementedError

    @property
    def _ftorch_takes_arrays(self) -> bool:
        """Whether `check` gives the same for a NumPy array."""
        bounds = (getattr(self, name) for name in self._ftorch_bounds)
        return self._ftorch_compares and not any(isinstance(b, torch.Tensor) for b in bounds)

    def __repr__(self):
        bounds = ", ".join(f"{name}={getattr(self, name)}" for name in self._ftorch_bounds)
        return f"{type(self).__name__[1:]}({bounds})"


class _Dependent(Constraint):
    """A region that depends on other variables: it cannot be checked, perhaps not even described."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self):
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self):
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """The constraint with its static attributes told."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint) -> bool:
    """Whether a constraint depends on other variables."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that is a dependent constraint on the class and a real one on instances.

    ``@dependent_property`` and ``@dependent_property(is_discrete=..., event_dim=...)`` both work.
    """

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _check_constraint(value):
    if not isinstance(value, Constraint):
        raise AssertionError(
            f"base_constraint must be a Constraint, got {type(value).__name__}"
        )


class _Wrapping(Constraint):
    """A constraint on more or fewer dimensions than the one it is made of."""

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    def __repr__(self):
        return f"{type(self).__name__.removeprefix('_')}({self.base_constraint!r})"


class _IndependentConstraint(_Wrapping):
    """A constraint whose rightmost batch dimensions count as event dimensions."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        _check_constraint(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(
                "reinterpreted_batch_ndims must be an int, got "
                f"{type(reinterpreted_batch_ndims).__name__}"
            )
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    @property
    def _ftorch_takes_arrays(self):
        return self.base_constraint._ftorch_takes_arrays

    def check(self, value):
        result = self.base_constraint.check(value)
        ndim = len(result.shape)
        if ndim < self.reinterpreted_batch_ndims:
            expected = self.event_dim
            raise ValueError(
                f"Expected value.dim() >= {expected} but got {len(value.shape)}"
            )
        kept = result.shape[: ndim - self.reinterpreted_batch_ndims]
        return result.reshape(kept + (-1,)).all(-1)

    def __repr__(self):
        return (
            f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"
        )


class MixtureSameFamilyConstraint(_Wrapping):
    """The component's constraint, for values without the dimension of the mixture.

    Args:
        base_constraint: the constraint of a component.
    """

    def __init__(self, base_constraint):
        _check_constraint(base_constraint)
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def event_dim(self):
        return self.base_constraint.event_dim

    def check(self, value):
        mixed_dim = -1 - self.event_dim
        result = self.base_constraint.check(value.unsqueeze(mixed_dim))
        return result.reshape(result.shape[: result.dim() - 1] + (-1,)).all(-1)


# --- numbers ---------------------------------------------------------------------------


class _Boolean(Constraint):
    """Zeros and ones."""

    _ftorch_compares = True

    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _Real(Constraint):
    """Anything but NaN."""

    _ftorch_compares = True

    def check(self, value):
        return value == value


class _Below(Constraint):
    def __init__(self, lower_bound):
        self.lower_bound = lower_bound
        super().__init__()

    _ftorch_bounds = ("lower_bound",)


class _Above(Constraint):
    def __init__(self, upper_bound):
        self.upper_bound = upper_bound
        super().__init__()

    _ftorch_bounds = ("upper_bound",)


class _Between(Constraint):
    def __init__(self, lower_bound, upper_bound):
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()

    _ftorch_bounds = ("lower_bound", "upper_bound")


class _GreaterThan(_Below):
    """Numbers above ``lower_bound``."""

    _ftorch_compares = True

    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_Below):
    """Numbers from ``lower_bound`` on."""

    _ftorch_compares = True

    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_Above):
    """Numbers below ``upper_bound``."""

    _ftorch_compares = True

    def check(self, value):
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers of [lower_bound, upper_bound]."""

    _ftorch_compares = True

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers of [lower_bound, upper_bound)."""

    _ftorch_compares = True

    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    """Integers of [lower_bound, upper_bound]."""

    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Above):
    """Integers up to ``upper_bound``."""

    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Below):
    """Integers from ``lower_bound`` on."""

    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


# --- vectors ---------------------------------------------------------------------------


class _OneHot(Constraint):
    """Vectors of zeros and one one."""

    is_discrete = True
    event_dim = 1

    def check(self, value):
        boolean = (value == 0) | (value == 1)
        return boolean.all(-1) & value.sum(-1).eq(1)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers that add up to 1, to within 1e-6."""

    event_dim = 1

    def check(self, value):
        return torch.all(value >= 0, dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of nonnegative integers that add up to at most ``upper_bound``."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self.upper_bound)


# --- matrices --------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    """Lower triangular square matrices."""

    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value):
        triangular = (value.tril() == value).flatten(-2).all(-1)
        return triangular & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal and rows of norm 1."""

    event_dim = 2

    def check(self, value):
        # A row's norm is off by up to a rounding error per element.
        tolerance = torch.finfo(value.dtype).eps * value.size(-1) * 10
        unit_rows = (torch.linalg.norm(value.detach(), dim=-1) - 1).abs().le(tolerance).all(dim=-1)
        return _LowerCholesky().check(value) & unit_rows


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value):
        return torch.full(
            value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=torch.bool,
            device=value.device,
        )


class _Symmetric(_Square):
    """Symmetric matrices, to within 1e-6."""

    def check(self, value):
        square = super().check(value)
        if not square.all():
            return square
        return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return torch.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return torch.linalg.cholesky_ex(value).info.eq(0)


# --- sequences of constraints ----------------------------------------------------------


class _Sequence(Constraint):
    """Constraints on the slices of a tensor along ``dim``."""

    def __init__(self, cseq, dim=0):
        self.cseq = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self):
        return any(c.is_discrete for c in self.cseq)

    def _ftorch_check_dim(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for value with {value.dim()} dimensions"
            )


class _Cat(_Sequence):
    """Constraints on slices of given lengths, one after the other along ``dim``."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})"
            )

    @property
    def event_dim(self):
        return max(c.event_dim for c in self.cseq)

    def check(self, value):
        self._ftorch_check_dim(value)
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return torch.cat(
            [
                constraint.check(value.narrow(self.dim, start, length))
                for constraint, start, length in zip(self.cseq, starts, self.lengths)
            ],
            self.dim,
        )


class _Stack(_Sequence):
    """One constraint for each index of ``dim``."""

    @property
    def event_dim(self):
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value):
        self._ftorch_check_dim(value)
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return torch.stack([c.check(v) for v, c in zip(slices, self.cseq)], self.dim)


# --- public names ----------------------------------------------------------------------

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

own_constructors([_GreaterThan, _GreaterThanEq, _LessThan, _Interval, _HalfOpenInterval, _IntegerInterval, _Stack])
