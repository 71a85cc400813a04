"""What divided modules share: the names of what they wrap."""

from __future__ import annotations

from enum import Enum, auto

from .._composable_state import _State
from ..algorithms._checkpoint.checkpoint_wrapper import _CHECKPOINT_PREFIX

FSDP_WRAPPED_MODULE = "_fsdp_wrapped_module"
FSDP_PREFIX = FSDP_WRAPPED_MODULE + "."
FSDP_FLATTENED = "_fsdp_flattened"


class TrainingState(Enum):
    """What a wrapped module is doing."""

    IDLE = auto()
    FORWARD_BACKWARD = auto()
    SUMMON_FULL_PARAMS = auto()


class _FSDPState(_State):
    """The base that `FullyShardedDataParallel` has beside that of modules, by which libraries know one."""


def clean_tensor_name(tensor_name: str) -> str:
    """A parameter's or buffer's name without what wrappers add to it.

    >>> clean_tensor_name("_fsdp_wrapped_module.0._checkpoint_wrapped_module.weight")
    '0.weight'
    """
    return tensor_name.replace(FSDP_PREFIX, "").replace(_CHECKPOINT_PREFIX, "")
