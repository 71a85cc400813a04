"""Weak references and dictionaries by identity (``torch.utils.weak``): tensors compare element by element."""

from __future__ import annotations

import collections.abc
import weakref

from ..eager.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdRef", "WeakIdKeyDictionary", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to those of the same object, and hashed by its ``id``."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __call__(self):
        found = super().__call__()
        if found is not None and hasattr(found, "_fix_weakref"):
            found._fix_weakref()
        return found

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        mine, others = self(), other()
        if mine is not None and others is not None:
            return mine is others
        return self is other


class WeakIdKeyDictionary(collections.abc.MutableMapping):
    """A dictionary whose keys are held weakly and compared by identity; ``ref_type`` makes the references.

    >>> import ftorch as torch
    >>> from ftorch.utils.weak import WeakTensorKeyDictionary
    >>> x = torch.ones(2)
    >>> WeakTensorKeyDictionary({x: "mine"})[x]
    'mine'
    """

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data = {}
        self.ref_type = ref_type

        def remove(reference, owner=weakref.ref(self)):
            it = owner()
            if it is not None:
                it.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __len__(self):
        return sum(reference() is not None for reference in list(self.data))

    def __iter__(self):
        return iter([key for reference in list(self.data) if (key := reference()) is not None])

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self):
        """The references, some of which may be dead."""
        return list(self.data)

    def popitem(self):
        """Removes and gives the item that was set last."""
        while True:
            reference, value = self.data.popitem()
            if (key := reference()) is not None:
                return key, value

    def copy(self):
        """Another dictionary of the same keys and values."""
        made = WeakIdKeyDictionary(ref_type=self.ref_type)
        for key, value in self.items():
            made[key] = value
        return made

    __copy__ = copy

    def __deepcopy__(self, memo):
        import copy

        made = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            made[key] = copy.deepcopy(value, memo)
        return made

    def __ior__(self, other):
        self.update(other)
        return self

    def __or__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        made = type(self)(ref_type=self.ref_type)
        made.update(other)
        made.update(self)
        return made

    def __eq__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor: called, it gives the tensor or None.

    Raises:
        AssertionError: of anything else.
    """

    ref: WeakIdRef

    def __init__(self, tensor: Tensor):
        assert isinstance(tensor, Tensor), f"expected torch.Tensor, got {type(tensor)}"
        self.ref = WeakIdRef(tensor)

    def __call__(self):
        found = self.ref()
        assert found is None or isinstance(found, Tensor)
        return found
