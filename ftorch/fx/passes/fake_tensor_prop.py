"""``FakeTensorProp``: runs a graph on tensors without elements and writes every value's shape down."""

from __future__ import annotations

from typing import Any

from ..._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from ...eager.tensor import TensorBase
from ...utils import _pytree as pytree
from ..interpreter import Interpreter
from ..node import Node


class FakeTensorProp(Interpreter):
    """Runs a graph without computing; ``node.meta["val"]`` are its results.

    Args:
        mode: the `FakeTensorMode` to run in.

    >>> import ftorch as torch
    >>> from ftorch.fx.passes.fake_tensor_prop import FakeTensorProp
    >>> module = torch.fx.symbolic_trace(lambda x: x.sum(0))
    >>> _ = FakeTensorProp(module).propagate(torch.ones(3, 2))
    >>> [tuple(node.meta["val"].shape) for node in module.graph.nodes]
    [(3, 2), (2,), (2,)]
    """

    def __init__(self, module, mode: FakeTensorMode | None = None):
        super().__init__(module)
        self._mode = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """The node's value, after writing it down."""
        result = super().run_node(n)
        if any(isinstance(v, TensorBase) for v in pytree.tree_leaves(result)):
            n.meta["val"] = result
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on fakes of example arguments; returns its result."""
        return self.propagate_dont_convert_inputs(*pytree.tree_map_only(
            TensorBase, lambda t: t if isinstance(t, FakeTensor) else self._mode.from_tensor(t), args
        ))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """`propagate` for arguments that are fakes already."""
        with self._mode:
            return super().run(*args)


__all__ = ["FakeTensorProp"]
