"""Which ops `ExportedProgram.run_decompositions` takes apart, and how."""

from __future__ import annotations

from collections.abc import Callable

from .._ops import OpOverload


class CustomDecompTable(dict[OpOverload, Callable]):
    """{overload: function of tensors to run in its place}: a dict that users change.

    >>> import ftorch as torch
    >>> table = torch.export.default_decompositions()
    >>> _ = table.pop(torch.ops.aten.linear.default)  # is left as it is
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(1, 2),))
    >>> [str(n.target) for n in program.run_decompositions(table).graph.nodes if n.op == "call_function"]
    ['aten.linear.default']
    """

    def copy(self) -> CustomDecompTable:
        """Another table with the same entries."""
        return CustomDecompTable(self)

    def materialize(self) -> dict[OpOverload, Callable]:
        """The entries as a plain dict."""
        return dict(self)


__all__ = ["CustomDecompTable"]
