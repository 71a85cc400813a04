"""Lists and dicts that do not change: what a node's arguments are made of.

A node's arguments say which nodes use which. They change by assignment, where the graph takes note,
never in place.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..utils import _pytree as pytree

_TEXT = (
    "{!r} object does not support mutation. If you are attempting to modify the kwargs or args of a "
    "torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
    "    new_args = ...  # copy and mutate args\n    node.args = new_args"
)


def _refuse(self, *args, **kwargs) -> NoReturn:
    raise TypeError(_TEXT.format(type(self).__name__))


class immutable_list(list):
    """A list whose mutating methods raise ``TypeError``; hashable if its items are."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self):
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict whose mutating methods raise ``TypeError``; hashable if its values are."""

    __delitem__ = __ior__ = __setitem__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


for _cls, _base in ((immutable_list, list), (immutable_dict, dict)):
    _node = pytree.SUPPORTED_NODES[_base]
    pytree.register_pytree_node(
        _cls,
        _node.flatten_fn,
        lambda values, context, _cls=_cls, _node=_node: _cls(_node.unflatten_fn(values, context)),
        serialized_type_name=f"torch.fx.immutable_collections.{_cls.__name__}",
        flatten_with_keys_fn=_node.flatten_with_keys_fn,
    )

__all__ = ["immutable_dict", "immutable_list"]
