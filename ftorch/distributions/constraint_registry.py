"""Transforms from unconstrained numbers onto constrained ones.

`biject_to` looks up bijections (for Hamiltonian Monte Carlo), `transform_to` cheaper ones that need
not be injective (for optimisation).
"""

from __future__ import annotations

from numbers import Number

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from constraints to transforms.

    >>> import ftorch as torch
    >>> positive = torch.distributions.constraints.positive
    >>> torch.distributions.transform_to(positive)(torch.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint, factory=None):
        """Registers a transform for a constraint's type, also as a decorator.

        Args:
            constraint: a constraint or a subclass of Constraint.
            factory: a function of the constraint that returns the transform.

        Raises:
            TypeError: if ``constraint`` is neither.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        """The transform from unconstrained numbers onto a constraint's region.

        Raises:
            NotImplementedError: if none is registered.
        """
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _greater_than(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _less_than(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _between(constraint):
    lower, upper = constraint.lower_bound, constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    if isinstance(lower, Number) and isinstance(upper, Number) and (lower, upper) == (0, 1):
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(lower, upper - lower)])


_BOTH = {
    constraints.real: lambda constraint: transforms.identity_transform,
    constraints.greater_than: _greater_than,
    constraints.greater_than_eq: _greater_than,
    constraints.less_than: _less_than,
    constraints.interval: _between,
    constraints.half_open_interval: _between,
    constraints.corr_cholesky: lambda constraint: transforms.CorrCholeskyTransform(),
}
_BIJECTIONS = {constraints.simplex: lambda constraint: transforms.StickBreakingTransform()}
_TRANSFORMS = {
    constraints.simplex: lambda constraint: transforms.SoftmaxTransform(),
    constraints.lower_cholesky: lambda constraint: transforms.LowerCholeskyTransform(),
    constraints.positive_semidefinite: lambda constraint: transforms.PositiveDefiniteTransform(),
    constraints.positive_definite: lambda constraint: transforms.PositiveDefiniteTransform(),
}


def _fill(registry, table):
    for constraint, factory in table.items():
        registry.register(constraint, factory)

    @registry.register(constraints.independent)
    def _(constraint):
        return transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        )

    @registry.register(constraints.cat)
    def _(constraint):
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _(constraint):
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_fill(biject_to, _BOTH | _BIJECTIONS)
_fill(transform_to, _BOTH | _TRANSFORMS)
