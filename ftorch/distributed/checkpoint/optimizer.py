"""Optimizer states of a checkpoint (``torch.distributed.checkpoint.optimizer``)."""

from __future__ import annotations

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(model_state_dict, optimizer_key: str, storage_reader, planner=None) -> dict:
    """The optimizer's state in a checkpoint; tensors of divided parameters are divided like these.

    Args:
        model_state_dict: the model's own, whose `DTensor`s say how its parameters are divided.
        optimizer_key: where the checkpoint has the optimizer's state.

    Returns:
        ``{optimizer_key: state}``
    """
    from .format_utils import _whole
    from .state_dict import _placed

    state = _whole(storage_reader, [optimizer_key])
    for name, own in state[optimizer_key].get("state", {}).items():
        like = model_state_dict.get(name)
        if isinstance(own, dict) and like is not None:
            for key, value in own.items():
                if getattr(value, "shape", None) == like.shape:
                    own[key] = _placed(value, like)
    return state
