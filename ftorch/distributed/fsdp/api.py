"""Settings of `FullyShardedDataParallel`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]


class ShardingStrategy(Enum):
    """What is divided."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """Accepted: exchanges are not overlapped."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What `state_dict` gives: whole tensors, or parts."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class MixedPrecision:
    """Dtypes of parameters in use, of reductions and of buffers; modules of some classes are computed in float32."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parts are kept on the CPU, where they are in any case."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Whether state dicts come to the CPU."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors; with ``rank0_only`` on rank 0 only."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Of ``LOCAL_STATE_DICT``."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Of ``SHARDED_STATE_DICT``: parts are `DTensor`s in any case."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Whether optimizers' states come to the CPU."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors; with ``rank0_only`` on rank 0 only."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of ``LOCAL_STATE_DICT``."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of ``SHARDED_STATE_DICT``."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """Kind and configurations of state dicts."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
