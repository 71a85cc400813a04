"""``ShapeProp``: runs a graph and writes down the shape and dtype of every value."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...eager.core import formats
from ...eager.core.dtype import dtype
from ...eager.core.geometry import Size
from ...eager.tensor import TensorBase
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

_FORMATS = (formats.contiguous_format, formats.channels_last, formats.channels_last_3d)


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: formats.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: TensorBase, include_contiguity: bool = True) -> TensorMetadata:
    layout = None
    if include_contiguity:
        ranks = {formats.channels_last: 4, formats.channels_last_3d: 5}
        layout = next(
            (f for f in _FORMATS
             if ranks.get(f, result.dim()) == result.dim() and result.is_contiguous(memory_format=f)),
            None,
        )
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), layout, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph; ``node.meta`` then has ``tensor_meta`` (a `TensorMetadata`) and ``type``.

    >>> import ftorch as torch
    >>> from ftorch.fx.passes.shape_prop import ShapeProp
    >>> module = torch.fx.symbolic_trace(lambda x: x.sum(0))
    >>> _ = ShapeProp(module).propagate(torch.ones(3, 2))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in module.graph.nodes]
    [(3, 2), (2,), (2,)]
    """

    def run_node(self, n: Node) -> Any:
        """The node's value, after writing its metadata down.

        Raises:
            RuntimeError: the node fails.
        """
        try:
            result = super().run_node(n)
        except Exception as e:
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from e
        found = False

        def metadata(value):
            nonlocal found
            if isinstance(value, TensorBase):
                found = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, metadata)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on example arguments; returns its result."""
        return super().run(*args)


__all__ = ["ShapeProp", "TensorMetadata"]
