"""``torch.jit._recursive``, as far as packages reach into it: the store of the types that compiled modules share."""

from __future__ import annotations

__all__ = ["ConcreteTypeStore", "concrete_type_store"]


class ConcreteTypeStore:
    """Holds the types of compiled modules by their class, in PyTorch, where modules of one class with the same attributes share
    one. Here each module that is compiled has a type of its own, so that there is nothing to forget: the store stays empty.

    >>> from ftorch.jit._recursive import concrete_type_store
    >>> concrete_type_store.type_store.pop(int, None)
    """

    def __init__(self):
        self.type_store: dict[type, list] = {}
        self.methods_compiled: set = set()


concrete_type_store = ConcreteTypeStore()
