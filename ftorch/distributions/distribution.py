"""The base class of all distributions."""

from __future__ import annotations

import warnings

import ftorch as torch

from ..eager.dispatch.levels import Wrapped
from ..eager.runtime import capture_trace, trace_slice, value_checks
from ..eager.tensor import PLAIN
from ..eager.tensor import Tensor as Tensor
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


def _all_true(t) -> torch.Tensor:
    """Whether all elements are true, for all examples of a transform at once."""
    while isinstance(t, Wrapped):
        t = t._inner
    return t.all()


def _at_hand(value):
    """The value of a tensor of few elements, as NumPy, unless it is pending and the check of it can wait."""
    if value.__class__ not in PLAIN or value.numel() > _FEW:
        return None
    if not value_checks.is_pending(value):
        return value_checks.peek(value)
    constant = trace_slice.constant_of(value._ftorch_storage)
    if constant is not None:
        return value_checks.part_of(constant, value)
    return None if value.requires_grad else value_checks.peek(value, waits=True)


_FEW = 4096  # elements that NumPy compares in less time than a program takes to start


def _check(name, checks, waits):
    """Makes checks, now or when values are there.

    Args:
        checks: triples of a function of whether the value satisfies the constraint, constraint, value.
        waits: whether the values are waited for also where they are to be differentiated.
    """
    if capture_trace.capturing():
        return
    asked = []
    for check, constraint, value in checks:
        known = _at_hand(value) if constraint._ftorch_takes_arrays else None
        if known is None:
            asked.append((check, value, _all_true(constraint.check(value))))
        else:
            check(bool(constraint.check(known).all()))
    for check, value, valid in asked:
        pending = value_checks.is_pending(value)
        if waits or not (
            pending and value.requires_grad and value_checks.postpone(name, check, valid)
        ):
            check(bool(trace_slice.value_of(valid._ftorch_storage, from_inputs=not pending)))


class Distribution:
    """A distribution of random events.

    Args:
        batch_shape: the shape of the batch of (different) distributions.
        event_shape: the shape of one event.
        validate_args: whether parameters and values are checked; None means the default, which
            `set_default_validate_args` sets.

    Raises:
        ValueError: if a parameter violates its constraint.

    A check looks at values. It waits for the computations that they come from, unless these are to be
    differentiated (a model's outputs): then the error comes when somebody next looks at a value, but with
    ``validate_args=True`` at once. In compiled functions nothing is checked, as in PyTorch.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _ftorch_waits = False  # checks do: somebody asked for them

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Turns the checks of all distributions on or off that do not say otherwise.

        Raises:
            ValueError: for anything but True and False.
        """
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=torch.Size(), event_shape=torch.Size(), validate_args=None):
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
            self._ftorch_waits = bool(validate_args)
        if self._validate_args:
            self._ftorch_check_parameters()
        super().__init__()

    def _ftorch_check_parameters(self):
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=3,
            )
        checks = []
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # derived from parameters that are checked
            value = getattr(self, name)

            def check(valid, name=name, constraint=constraint, value=value):
                if not valid:
                    raise ValueError(
                        f"Expected parameter {name} ({type(value).__name__} of shape "
                        f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                        f"{constraint!r}, but found invalid values:\n{value}"
                    )

            checks.append((check, constraint, value))
        _check(type(self).__name__, checks, self._ftorch_waits)

    def expand(self, batch_shape, _instance=None):
        """The distribution with its batch shape expanded, without copies or new checks.

        Args:
            _instance: an object to fill in place of a new one, for subclasses' own ``expand``.
        """
        raise NotImplementedError

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> torch.Size:
        """The shape of one event, without the batch."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint that events satisfy."""
        raise NotImplementedError

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self):
        """The most probable event."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape=torch.Size()):
        """Events of ``sample_shape + batch_shape + event_shape``, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        """Events that are differentiable functions of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int):
        """``sample((n,))``. Deprecated."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(torch.Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density, or of the probability, of events."""
        raise NotImplementedError

    def cdf(self, value):
        """The probability of events up to ``value``."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True):
        """All events of a discrete distribution, along a new first dimension.

        Args:
            expand: whether the batch dimensions have their full sizes, and not 1.
        """
        raise NotImplementedError

    def entropy(self):
        """The entropy, of ``batch_shape``."""
        raise NotImplementedError

    def perplexity(self):
        """The exponential of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape=torch.Size()) -> torch.Size:
        """The shape of what ``sample(sample_shape)`` returns."""
        return torch.Size(tuple(sample_shape)) + self._batch_shape + self._event_shape

    def _validate_sample(self, value):
        """Checks an event's type, shape and support.

        Raises:
            ValueError: if it is not one.
        """
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape = value.size()
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        if any(i != 1 and j != 1 and i != j for i, j in zip(reversed(shape), reversed(expected))):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}."
            )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=2,
            )
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")

        def check(valid):
            if not valid:
                raise ValueError(
                    f"Expected value argument ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) to be within the support ({support!r}) of the "
                    f"distribution {self!r}, but found invalid values:\n{value}"
                )

        _check(type(self).__name__, [(check, support, value)], self._ftorch_waits)

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self):
        parameters = {k: self.__dict__[k] for k in self.arg_constraints if k in self.__dict__}
        shown = ", ".join(
            f"{name}: {value if value.numel() == 1 else value.size()}"
            for name, value in parameters.items()
        )
        return f"{self.__class__.__name__}({shown})"
