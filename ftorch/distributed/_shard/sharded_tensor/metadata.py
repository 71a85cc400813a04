"""What all processes know of a tensor in pieces."""

from .._tensor_metadata import MEM_FORMAT_ENCODING, ShardedTensorMetadata, TensorProperties

__all__ = ["MEM_FORMAT_ENCODING", "ShardedTensorMetadata", "TensorProperties"]
