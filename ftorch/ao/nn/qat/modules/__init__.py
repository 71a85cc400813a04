"""Layers that train with rounded weights."""

from ftorch.eager.bindings.constructors import own_constructors

from .conv import Conv1d, Conv2d, Conv3d
from .embedding_ops import Embedding, EmbeddingBag
from .linear import Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]

own_constructors([Conv1d, Conv2d, Conv3d])
