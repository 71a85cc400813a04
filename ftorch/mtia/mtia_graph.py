"""``torch.mtia.mtia_graph``: of no device."""

from .._toplevel.absent_device import classes, functions

__all__ = ["MTIAGraph", "graph", "graph_pool_handle"]

_CLASSES = classes(__name__, ["MTIAGraph", "graph"], "Cannot execute mtiagraphCreate() without MTIA backend.")
MTIAGraph, graph = _CLASSES.values()
(graph_pool_handle,) = functions(["graph_pool_handle"], RuntimeError,
                                 "Cannot execute mtiaGraphPoolHandle() without MTIA backend.").values()
