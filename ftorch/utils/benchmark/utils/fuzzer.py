"""`Fuzzer`: random tensors of random shapes and layouts to time with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ftorch as torch

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]


class FuzzedParameter:
    """A number or other value that is drawn at random (``torch.utils.benchmark.FuzzedParameter``).

    Args:
        name: by which tensors refer to it.
        minval, maxval: the bounds, both included.
        distribution: ``"uniform"`` (over ints if both bounds are), ``"loguniform"``, or a dict from
            values to probabilities, without bounds.
        strict: keep the first value when others are drawn again to meet constraints.

    Raises:
        AssertionError: for another distribution.
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name = name
        self._minval = minval
        self._maxval = maxval
        self._distribution = self._check_distribution(distribution)
        self.strict = strict

    @property
    def name(self):
        """Its name."""
        return self._name

    def sample(self, state):
        """Draws a value from a NumPy ``RandomState``."""
        if isinstance(self._distribution, dict):
            values = list(self._distribution)
            return values[state.choice(len(values), p=tuple(self._distribution.values()))]
        low, high = self._minval, self._maxval
        if self._distribution == "loguniform":
            value = int(2 ** state.uniform(low=np.log2(low), high=np.log2(high)))
            return min(max(value, low), high)
        if isinstance(low, int) and isinstance(high, int):
            return int(state.randint(low=low, high=high + 1))
        return state.uniform(low=low, high=high)

    def _check_distribution(self, distribution):
        if not isinstance(distribution, dict):
            if distribution not in ("loguniform", "uniform"):
                raise AssertionError(f"Unknown distribution: {distribution}")
            return distribution
        if any(p < 0 for p in distribution.values()):
            raise AssertionError("Probabilities cannot be negative")
        if abs(sum(distribution.values()) - 1) > 1e-5:
            raise AssertionError("Distribution is not normalized")
        for bound in ("minval", "maxval"):
            if getattr(self, f"_{bound}") is not None:
                raise AssertionError(f"When passing a custom distribution, '{bound}' must be None")
        return distribution


class ParameterAlias:
    """A parameter's value that stands for another parameter's, in a dict of probabilities
    (``torch.utils.benchmark.ParameterAlias``)."""

    def __init__(self, alias_to) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedTensor:
    """A random tensor (``torch.utils.benchmark.FuzzedTensor``).

    Args:
        name: its key in what `Fuzzer.take` yields.
        size: ints or names of parameters.
        steps: likewise: a larger tensor is made, and every so manieth element taken.
        probability_contiguous: else dimensions lie in memory in another order.
        min_elements, max_elements, max_allocation_bytes: what its size has to meet.
        dim_parameter: the parameter that says how many dimensions to keep.
        dtype, cuda: of the tensor.
        tensor_constructor: makes it instead, from ``size``, ``dtype`` and all parameters.
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype=None,
        cuda=False,
        tensor_constructor: Callable | None = None,
    ) -> None:
        self._name = name
        self._size = size
        self._steps = steps
        self._probability_contiguous = probability_contiguous
        self._min_elements = min_elements
        self._max_elements = max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter = dim_parameter
        self._dtype = torch.float32 if dtype is None else dtype
        self._cuda = cuda
        self._tensor_constructor = tensor_constructor

    @property
    def name(self):
        """Its name."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size, dtype, **kwargs):
        """Uniform values in [0, 1), or ints in [1, 127)."""
        if dtype.is_floating_point or dtype.is_complex:
            return torch.rand(size=size, dtype=dtype, device="cpu")
        return torch.randint(1, 127, size=size, dtype=dtype, device="cpu")

    def _make_tensor(self, params, state):
        size, steps, allocated = self._get_size_and_steps(params)
        constructor = self._tensor_constructor or self.default_tensor_constructor
        raw = constructor(size=allocated, dtype=self._dtype, **params)
        if self._cuda:
            raw = raw.cuda()
        dim = len(size)
        order = np.arange(dim)
        if state.rand() > self._probability_contiguous:
            while dim > 1 and np.all(order == np.arange(dim)):
                order = state.permutation(dim)
            raw = raw.permute(tuple(map(int, order))).contiguous()
            raw = raw.permute(tuple(map(int, np.argsort(order))))
        tensor = raw[tuple(slice(0, n * s, s) for n, s in zip(size, steps, strict=True))]
        return tensor, {
            "numel": int(tensor.numel()),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }

    def _get_size_and_steps(self, params):
        dim = len(self._size) if self._dim_parameter is None else params[self._dim_parameter]

        def resolved(values):
            numbers = [params.get(value, value) for value in values][:dim]
            return (*numbers, *[1] * (dim - len(numbers)))

        size, steps = resolved(self._size), resolved(self._steps or ())
        return size, steps, tuple(n * s for n, s in zip(size, steps, strict=True))

    def satisfies_constraints(self, params) -> bool:
        """Whether the size with these parameters is within the bounds."""
        size, _, allocated = self._get_size_and_steps(params)
        elements = math.prod(map(int, size))
        allocated_bytes = math.prod(map(int, allocated)) * self._dtype.itemsize
        bounds = (
            (elements, self._max_elements),
            (self._min_elements, elements),
            (allocated_bytes, self._max_allocation_bytes),
        )
        return not any(low is not None and high is not None and low > high for low, high in bounds)


class Fuzzer:
    """Draws parameters until all constraints are met, and makes tensors of them
    (``torch.utils.benchmark.Fuzzer``).

    Args:
        parameters, tensors: those to draw; lists among them are unpacked.
        constraints: functions of all parameters that say whether a draw will do.
        seed: of the parameters; tensors' values come from PyTorch's generator.

    Raises:
        ValueError: for a parameter with a tensor's name; while drawing, for aliases in a circle or
            constraints that a thousand draws did not meet.

    >>> from ftorch.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer
    >>> n = FuzzedParameter("n", 1, 9, distribution="uniform")
    >>> fuzzer = Fuzzer([n], [FuzzedTensor("x", size=("n", 2))], seed=0)
    >>> [(tuple(t["x"].shape), params) for t, _, params in fuzzer.take(2)]
    [((6, 2), {'n': 6}), ((5, 2), {'n': 5})]
    """

    def __init__(
        self,
        parameters: list[FuzzedParameter | list[FuzzedParameter]],
        tensors: list[FuzzedTensor | list[FuzzedTensor]],
        constraints: list[Callable] | None = None,
        seed: int | None = None,
    ) -> None:
        if seed is None:
            seed = int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64))
        self._seed = seed
        self._parameters = self._unpack(parameters, FuzzedParameter)
        self._tensors = self._unpack(tensors, FuzzedTensor)
        self._constraints = constraints or ()
        overlap = {p.name for p in self._parameters} & {t.name for t in self._tensors}
        if overlap:
            raise ValueError(f"Duplicate names in parameters and tensors: {overlap}")
        self._rejections = 0
        self._total_generated = 0

    @staticmethod
    def _unpack(values, cls):
        return tuple(thing for v in values for thing in ((v,) if isinstance(v, cls) else v))

    def take(self, n: int) -> Iterator[tuple[dict, dict, dict]]:
        """Yields ``n`` times: tensors by name, what is known of each, and the parameters."""
        state = np.random.RandomState(self._seed)
        torch.manual_seed(int(state.randint(low=0, high=2**63, dtype=np.int64)))
        for _ in range(n):
            params = self._generate(state)
            made = {t.name: t._make_tensor(params, state) for t in self._tensors}
            yield (
                {name: tensor for name, (tensor, _) in made.items()},
                {name: properties for name, (_, properties) in made.items()},
                params,
            )

    @property
    def rejection_rate(self):
        """The share of draws that did not meet the constraints."""
        return self._rejections / self._total_generated if self._total_generated else 0.0

    def _generate(self, state):
        kept: dict[str, Any] = {}  # strict parameters' first values
        for _ in range(1000):
            params = {}
            for p in self._parameters:
                params[p.name] = kept[p.name] if p.name in kept else p.sample(state)
                if p.strict:
                    kept[p.name] = params[p.name]
            params = self._resolve_aliases(params)
            self._total_generated += 1
            if all(f(params) for f in self._constraints) and all(
                t.satisfies_constraints(params) for t in self._tensors
            ):
                return params
            self._rejections += 1
        raise ValueError("Failed to generate a set of valid parameters.")

    @staticmethod
    def _resolve_aliases(params):
        params = dict(params)

        def aliases():
            return [k for k, v in params.items() if isinstance(v, ParameterAlias)]

        while left := aliases():
            for key in left:
                params[key] = params[params[key].alias_to]
            if len(aliases()) == len(left):
                raise ValueError(f"ParameterAlias cycle detected\n{params}")
        return params
