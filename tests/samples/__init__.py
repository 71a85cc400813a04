"""The project's own samples: what every operator is tried with by the property tests.

    from tests.samples import S, T, register
    register("add.Tensor", S(T(2, 3), T(3)), S(T(2, 3), 2.5, alpha=3))

``T`` describes a random tensor (drawn anew for each use), ``S`` a call. Keys are op names with
their overload as in ``ftorch.eager.core.registry.OPS``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SAMPLES: dict[str, list[S]] = {}


@dataclass(frozen=True)
class T:
    """A random tensor: its shape, dtype, range; ``grad=False`` where no gradient is wanted.

    ``make`` replaces uniform numbers by a function of (rng, shape), such as a well-conditioned
    matrix or distinct values. ``values`` gives them outright.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0
    grad: bool = True
    make: Any = None
    values: Any = None

    def __init__(self, *shape, dtype="float32", low=-2.0, high=2.0, grad=True, make=None,
                 values=None):
        for name, value in dict(shape=shape, dtype=dtype, low=low, high=high, grad=grad, make=make,
                                values=values).items():
            object.__setattr__(self, name, value)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The tensor as a NumPy array of the given dtype (bfloat16 through ml_dtypes)."""
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        if self.values is not None:
            return np.array(self.values, dtype)
        if self.make is not None:
            return np.asarray(self.make(rng, self.shape)).astype(dtype)
        if dtype.kind == "b":
            return np.asarray(rng.random(self.shape) < 0.5)
        if dtype.kind in "iu":
            low = max(int(self.low), 0) if dtype.kind == "u" else int(self.low)
            return rng.integers(low, max(int(self.high), low + 1), self.shape).astype(dtype)
        values = rng.uniform(self.low, self.high, self.shape)
        if dtype.kind == "c":
            values = values + 1j * rng.uniform(self.low, self.high, self.shape)
        return np.asarray(values).astype(dtype)


@dataclass(frozen=True)
class S:
    """A call: positional and keyword arguments; `T` (also inside lists) stands for a tensor."""

    args: tuple = ()
    kwargs: dict = field(default_factory=dict)

    def __init__(self, *args, **kwargs):
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "kwargs", kwargs)


def register(name: str, *samples: S) -> None:
    """Adds samples for an op."""
    SAMPLES.setdefault(name, []).extend(samples)
