"""``torch.utils.tensorboard._pytorch_graph``: a module's graph in TensorBoard's form, for other writers of its files."""

from __future__ import annotations

from ._graph import graph_of

__all__ = ["graph"]


def graph(model, args, verbose=False, use_strict_trace=True):
    """(the graph, the run's metadata) of a module called with example inputs, as protocol buffers of TensorBoard.

    Args:
        args: a tensor, or a tuple of the inputs.
        verbose: whether to print the graph of the trace, too.
        use_strict_trace: passed on to `torch.jit.trace` as ``strict``.
    """
    if verbose:
        from ... import jit

        print(jit.trace(model, args, strict=use_strict_trace).graph)
    return graph_of(model, args, use_strict_trace)
