"""Graphs of `make_fx` that hold for all sizes: what export does for its programs, for a level that records."""

from __future__ import annotations

from ..eager.tensor import TensorBase
from ..utils import _pytree as pytree
from ._generalize import Symbol, generalized
from ._trace import Traces


def graph_for_all_sizes(trace, args) -> Traces:
    """What a function records for arguments of any sizes.

    Equal sizes of the example are one symbol, as in PyTorch; 0 and 1 are none.

    Args:
        trace: ``(arguments) -> level``: runs the function once; the level has its ``graph`` and ``root``.
        args: the arguments of the example.
    """
    leaves, spec = pytree.tree_flatten(list(args))
    symbols: dict[int, Symbol] = {}
    for i, leaf in enumerate(leaves):
        for d, n in enumerate(leaf.shape if isinstance(leaf, TensorBase) else ()):
            if n > 1:
                new = Symbol(f"L[{i}].size()[{d}]", n, low=2, is_auto=True, is_hint=True)
                symbols.setdefault(n, new).uses.append((i, d, 1, 0))

    def run(leaves):
        level = trace(pytree.tree_unflatten(leaves, spec))
        return Traces(level.graph, [], [], {}, None, root=level.root)

    return generalized(run, leaves, list(symbols.values()))[0]
