"""Tables of functions that say ops by simpler ones (``torch._decomp``), for `make_fx` and `aot_autograd`."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain

from .._ops import OpOverload, OpOverloadPacket
from ..export.decomp_utils import CustomDecompTable
from ..utils import _pytree as pytree

__all__ = [
    "core_aten_decompositions", "decomposition_table", "get_decompositions", "meta_table",
    "pre_autograd_decomposition_table", "register_decomposition",
]

global_decomposition_table: dict[str, dict] = defaultdict(dict)
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def _overloads(op):
    if isinstance(op, OpOverload):
        return [op]
    return [getattr(op, name) for name in op.overloads()]


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe: bool = False) -> Callable:
    """Enters a function into a table as what an op of ``torch.ops`` (or several) is made of.

    Args:
        aten_op: an overload, an op with all its overloads, or a tree of them.
        registry: the table; that of the ``type`` if there is none.

    Raises:
        RuntimeError: the table has a function for it.

    >>> import ftorch as torch
    >>> from ftorch._decomp import register_decomposition
    >>> table = {}
    >>> @register_decomposition(torch.ops.aten.silu.default, table)
    ... def silu(x): return x * x.sigmoid()
    >>> torch.fx.experimental.proxy_tensor.make_fx(
    ...     torch.nn.functional.silu, decomposition_table=table)(torch.ones(1)).graph.find_nodes(
    ...     op="call_function", target=torch.ops.aten.sigmoid.default)
    [sigmoid]
    """
    if type not in ("post_autograd", "pre_autograd", "meta"):
        raise AssertionError(f"unknown type of decompositions {type!r}")

    def decorate(function):
        table = global_decomposition_table[type] if registry is None else registry
        for op in pytree.tree_leaves(aten_op):
            if not isinstance(op, (OpOverload, OpOverloadPacket)):
                raise AssertionError(f"expected OpOverloadPacket, got {op.__class__}")
            for overload in _overloads(op):
                if overload in table:
                    raise RuntimeError(f"duplicate registrations for {overload}")
                table[overload] = function
        return function

    return decorate


def get_decompositions(aten_ops: Sequence, type: str = "post_autograd") -> dict[OpOverload, Callable]:
    """The functions of some ops (overloads, or ops with all of them) that the table has."""
    if type not in ("post_autograd", "pre_autograd", "meta"):
        raise AssertionError(f"unknown type of decompositions {type!r}")
    table = global_decomposition_table[type]
    wanted = chain.from_iterable(
        _overloads(op) for op in aten_ops if isinstance(op, (OpOverload, OpOverloadPacket))
    )
    return {overload: table[overload] for overload in wanted if overload in table}


def remove_decompositions(table: dict, aten_ops: Sequence) -> None:
    """Takes ops out of a table."""
    for op in aten_ops:
        for overload in _overloads(op):
            table.pop(overload, None)


@functools.cache
def _core():
    return dict(decomposition_table)


def core_aten_decompositions() -> CustomDecompTable:
    """The functions of the ops that are no core ops of ATen."""
    return CustomDecompTable(_core())


def decomposed(module, table) -> None:
    """Writes a graph of ATen's ops (a ``fx.GraphModule``) by the functions of a table, in place.

    Nodes whose operands have no known geometry (``node.meta["geometry"]``) stay as they are.
    """
    from ..eager.core import api as torch
    from ..fx.experimental.proxy_tensor import make_fx
    from ..fx.node import map_arg

    graph = module.graph
    for node in list(graph.nodes):
        function = table.get(node.target) if node.op == "call_function" else None
        geometries = [n.meta.get("geometry") for n in node.all_input_nodes]
        if function is None or None in geometries:
            continue
        operands = dict(zip(node.all_input_nodes, range(len(geometries))))

        def call(*tensors, node=node, function=function, operands=operands):
            args, kwargs = map_arg((node.args, node.kwargs), lambda n: tensors[operands[n]])
            return function(*args, **kwargs)

        part = make_fx(call)(*[torch.zeros(g.shape, dtype=g.dtype) for g in geometries])
        known = dict(zip(part.graph.find_nodes(op="placeholder"), operands))
        with graph.inserting_before(node):
            for inner in part.graph.nodes:
                if inner.op not in ("placeholder", "output"):
                    known[inner] = graph.node_copy(inner, known.__getitem__)
        result = known[part.graph.output_node().args[0]]
        result.meta["geometry"] = node.meta.get("geometry")
        node.replace_all_uses_with(result)
        graph.erase_node(node)
    module.recompile()


from . import decompositions  # noqa: E402, F401
