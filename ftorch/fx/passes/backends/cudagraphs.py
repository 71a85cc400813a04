"""Parts of a graph that are on a GPU throughout."""

from __future__ import annotations

import operator

from ...._ops import ops
from ....eager.tensor import TensorBase
from ....utils import _pytree as pytree
from ..fake_tensor_prop import FakeTensorProp
from ..infra.partitioner import CapabilityBasedPartitioner
from ..operator_support import OperatorSupport
from ..tools_common import CALLABLE_NODE_OPS

__all__ = ["CudaGraphsSupport", "partition_cudagraphs"]


class CudaGraphsSupport(OperatorSupport):
    """Calls whose tensors are all on a GPU."""

    def is_node_supported(self, submodules, node) -> bool:
        """Whether a node is such a call."""
        if node.op not in CALLABLE_NODE_OPS or node.target is ops.aten.embedding_dense_backward.default:
            return False
        if node.target is operator.getitem:
            return True
        values = [n.meta["val"] if "val" in n.meta else n.meta["fake_result"] for n in (*node.all_input_nodes, node)]
        return all(v.device.type == "cuda" for v in pytree.tree_leaves(values) if isinstance(v, TensorBase))


def partition_cudagraphs(gm, inputs):
    """A graph module with the parts that are on a GPU as submodules.

    Args:
        inputs: examples of what it takes.
    """
    FakeTensorProp(gm).propagate(*inputs)
    partitioner = CapabilityBasedPartitioner(gm, CudaGraphsSupport(), allows_single_node_partition=True)
    return partitioner.fuse_partitions(partitioner.propose_partitions())
