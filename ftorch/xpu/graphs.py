"""``torch.xpu.graphs``: of no device."""

from .._toplevel.absent_device import classes, functions

__all__ = [
    "XPUGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables",
]

_made = functions(["graph_pool_handle", "make_graphed_callables"], AssertionError,
                  "Torch not compiled with XPU enabled")
graph_pool_handle, make_graphed_callables = _made.values()
XPUGraph, graph = classes(__name__, ["XPUGraph", "graph"]).values()


def is_current_stream_capturing() -> bool:
    """False: there is no such device."""
    return False
