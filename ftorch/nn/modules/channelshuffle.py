"""Interleaving groups of channels."""

from __future__ import annotations

from ...eager.tensor import Tensor as Tensor
from ._function import FunctionModule
from .module import Module as Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(FunctionModule):
    """Takes the channels of (N, C, *) from each of ``groups`` groups in turn."""

    _ftorch_function = "channel_shuffle"
    _ftorch_arguments = ("groups",)

    def __init__(self, groups):
        super().__init__(groups)
