"""``annotate``: types for values while they are traced."""

from __future__ import annotations

from ._compatibility import compatibility
from .proxy import Proxy

__all__ = ["annotate"]


@compatibility(is_backward_compatible=False)
def annotate(val, type):  # noqa: A002  (PyTorch's)
    """The value; a traced one's node has the type from now on.

    Raises:
        RuntimeError: the node has another type.
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(f"Tried to annotate a value that already had a type on it! Existing type "
                               f"is {val.node.type} and new type is {type}. This could happen if you "
                               "tried to annotate a function parameter value (in which case you should "
                               "use the type slot on the function signature) or you called annotate on "
                               "the same value twice")
        val.node.type = type
    return val
