"""Transforms that rearrange values, or apply other transforms to parts of them."""

from __future__ import annotations

import ftorch as torch

from .._old_names import place_in
from . import constraints
from ._transform import Transform
from .utils import _sum_rightmost


class IndependentTransform(Transform):
    """A transform whose rightmost batch dimensions count as event dimensions.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many dimensions.
    """

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y):
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        result = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(result, self.reinterpreted_batch_ndims)

    def __repr__(self):
        return (
            f"{self.__class__.__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"
        )

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Reshapes the rightmost dimensions.

    Args:
        in_shape, out_shape: their sizes before and after.

    Raises:
        ValueError: if they have different numbers of elements.
    """

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape = torch.Size(in_shape)
        self.out_shape = torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def _ftorch_reshaped(self, shape, before, after):
        cut = len(shape) - len(before)
        if cut < 0:
            raise ValueError("Too few dimensions on input")
        if shape[cut:] != before:
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {before}")
        return shape[:cut] + after

    def forward_shape(self, shape):
        return self._ftorch_reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return self._ftorch_reshaped(shape, self.out_shape, self.in_shape)


class _SequenceTransform(Transform):
    """Transforms of the slices of a value along ``dim``."""

    def __init__(self, tseq, dim, cache_size):
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    def _ftorch_check_dim(self, x):
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for tensor with {x.dim()} dimensions"
            )

    def _call(self, x):
        return self._ftorch_joined([t(part) for t, part in zip(self.transforms, self._ftorch_parts("x", x))])

    def _inverse(self, y):
        return self._ftorch_joined([t.inv(part) for t, part in zip(self.transforms, self._ftorch_parts("y", y))])

    def _ftorch_log_dets(self, x, y):
        parts = zip(self.transforms, self._ftorch_parts("x", x), self._ftorch_parts("y", y))
        return [t.log_abs_det_jacobian(before, after) for t, before, after in parts]

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)


class CatTransform(_SequenceTransform):
    """Applies transforms to slices of given lengths, one after the other along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: the lengths; 1 each if None.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> D.CatTransform([D.AbsTransform(), D.ExpTransform()])(torch.tensor([-2.0, 0.0]))
    tensor([2., 1.])
    """

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            )

    @property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self):
        """The size of the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _ftorch_parts(self, name, x):
        self._ftorch_check_dim(x)
        if x.size(self.dim) != self.length:
            raise AssertionError(
                f"{name}.size({self.dim}) = {x.size(self.dim)} must equal length {self.length}"
            )
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [x.narrow(self.dim, s, length) for s, length in zip(starts, self.lengths)]

    def _ftorch_joined(self, parts):
        return torch.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = [
            _sum_rightmost(term, self.event_dim - t.event_dim)
            for t, term in zip(self.transforms, self._ftorch_log_dets(x, y))
        ]
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        # Events that span the dimension have one determinant together.
        return torch.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self):
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_SequenceTransform):
    """Applies one transform for each index of a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
    """

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _ftorch_parts(self, name, x):
        self._ftorch_check_dim(x)
        if x.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"{name}.size({self.dim}) = {x.size(self.dim)} must equal len(transforms) "
                f"{len(self.transforms)}"
            )
        return [x.select(self.dim, i) for i in range(x.size(self.dim))]

    def _ftorch_joined(self, parts):
        return torch.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        return torch.stack(self._ftorch_log_dets(x, y), dim=self.dim)

    @constraints.dependent_property
    def domain(self):
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

place_in("distributions.transforms", CatTransform, IndependentTransform, ReshapeTransform, StackTransform)
