"""``torch.fx``: programs as graphs that Python can read, edit, run and print.

`symbolic_trace` turns a function or module into a `GraphModule`; its `Graph` is a list of `Node`
objects; `Interpreter` and `Transformer` walk it; `replace_pattern` and `ftorch.fx.passes` rewrite it.

>>> import ftorch as torch
>>> traced = torch.fx.symbolic_trace(lambda x, y: torch.relu(x @ y))
>>> print(traced.graph)
graph():
    %x : [num_users=1] = placeholder[target=x]
    %y : [num_users=1] = placeholder[target=y]
    %matmul : [num_users=1] = call_function[target=operator.matmul](args = (%x, %y), kwargs = {})
    %relu : [num_users=1] = call_function[target=torch.relu](args = (%matmul,), kwargs = {})
    return relu
"""

from .._submodules import on_demand as _on_demand
from . import immutable_collections, node, proxy, traceback
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy, TraceError
from .subgraph_rewriter import replace_pattern

__getattr__ = _on_demand(globals(), "_pytree _utils config experimental passes tensor_type")

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta",
    "TraceError", "Tracer", "Transformer", "has_side_effect", "immutable_collections", "map_arg",
    "node", "proxy", "replace_pattern", "symbolic_trace", "traceback", "wrap",
]
