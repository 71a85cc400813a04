"""How fine quantizers are: names that torchao's observers take (``torch.ao.quantization.observer``)."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass

import ftorch as torch


class MappingType(enum.Enum):
    """How numbers are mapped to integers."""

    SYMMETRIC = enum.auto()
    SYMMETRIC_NO_CLIPPING_ERR = enum.auto()
    ASYMMETRIC = enum.auto()


class ZeroPointDomain(enum.Enum):
    """Whether zero points are integers, numbers, or absent."""

    INT = enum.auto()
    FLOAT = enum.auto()
    NONE = enum.auto()


class TorchAODType(enum.Enum):
    """Integers of fewer than eight bits, for versions that lack them."""

    INT1 = enum.auto()
    INT2 = enum.auto()
    INT3 = enum.auto()
    INT4 = enum.auto()
    INT5 = enum.auto()
    INT6 = enum.auto()
    INT7 = enum.auto()


@dataclass(frozen=True)
class Granularity:
    """How many elements share a scale."""


@dataclass(frozen=True)
class PerBlock(Granularity):
    """A scale for each block."""

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerTensor(Granularity):
    """One scale."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """A scale for each index of a dimension."""

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """A scale for so many elements of the last dimension."""

    group_size: int


class PerRow(Granularity):
    """A scale for each row."""


class PerToken(Granularity):
    """A scale for each token: for all dimensions but the last."""


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """The sizes of the blocks that share a scale.

    Raises:
        ValueError: for a granularity that it does not know.
    """
    if not isinstance(granularity, Granularity):
        raise AssertionError("Please provide an instance of Granularity, not subclass of it")
    if isinstance(granularity, PerTensor):
        return input_shape
    if isinstance(granularity, PerBlock):
        return granularity.block_size
    if isinstance(granularity, PerAxis):
        sizes = list(input_shape)
        sizes[granularity.axis] = 1
        return tuple(sizes)
    if isinstance(granularity, (PerRow, PerToken)):
        return (1,) * (len(input_shape) - 1) + (input_shape[-1],)
    if isinstance(granularity, PerGroup):
        if input_shape[-1] % granularity.group_size:
            raise AssertionError(f"Group size {granularity.group_size} does not divide input shape {input_shape}")
        return (1,) * (len(input_shape) - 1) + (granularity.group_size,)
    raise ValueError(f"Unsupported Granularity: {granularity}")


class AffineQuantizedObserverBase(ABC, torch.nn.Module):
    """The base of observers of affine quantization, as torchao's."""

    def __init__(self, mapping_type, target_dtype, granularity, quant_min=None, quant_max=None, eps=None,
                 scale_dtype=None, zero_point_dtype=None, preserve_zero=True,
                 zero_point_domain=ZeroPointDomain.INT, **kwargs):
        super().__init__()
        if granularity is None:
            raise AssertionError("granularity is None")
        if zero_point_domain is None:
            raise ValueError("Please use ZeroPointDomain.NONE instead of None")
        self.mapping_type, self.target_dtype, self.granularity = mapping_type, target_dtype, granularity
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.scale_dtype, self.zero_point_dtype = scale_dtype, zero_point_dtype
        self.preserve_zero, self.zero_point_domain = preserve_zero, zero_point_domain

    @classmethod
    def with_args(cls, **kwargs):
        """A constructor with some arguments given."""
        from .observer import _with_args

        return _with_args(cls, **kwargs)

    @abstractmethod
    def forward(self, input):
        """Looks at a tensor and returns it."""

    @abstractmethod
    def calculate_qparams(self):
        """(scale, zero_point)."""
