"""Trees of Python containers (``torch.utils._pytree``): flatten, map, put together again.

A node is an object whose type is in the registry; every other object is a leaf, None included.
Named tuples are all nodes, under the type ``namedtuple``. The registry
is `ftorch.utils._pytree_nodes`; how specs become text is in `ftorch.utils._pytree_json`.
"""

from __future__ import annotations

import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from ._pytree_leaves import map_only, predicate
from ._pytree_nodes import (  # noqa: F401  (names that libraries import from here)
    BUILTIN_TYPES,
    CONSTANT_NODES,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    ConstantNode,
    Context,
    DumpableContext,
    FlattenFn,
    FromDumpableContextFn,
    GetAttrKey,
    KeyPath,
    MappingKey,
    NodeDef,
    PyTree,
    SequenceKey,
    ToDumpableContextFn,
    UnflattenFn,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_unflatten,
    _get_node_type,
    _list_flatten,
    _list_unflatten,
    _namedtuple_flatten,
    _namedtuple_unflatten,
    _odict_flatten,
    _odict_unflatten,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    _tuple_flatten,
    _tuple_unflatten,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    key_get,
    keystr,
    register_constant,
    register_dataclass,
    register_pytree_node,
)

__all__ = [
    "Context", "DumpableContext", "FlattenFn", "FromDumpableContextFn", "LeafSpec", "PyTree",
    "PyTreeSpec", "ToDumpableContextFn", "TreeSpec", "UnflattenFn", "is_namedtuple",
    "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
    "is_structseq_instance", "key_get", "keystr", "register_pytree_node", "tree_all",
    "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path",
    "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
    "treespec_dumps", "treespec_loads", "treespec_pprint",
]

# --- specs -------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: its nodes, with their contexts, and where leaves are.

    Attributes:
        type: the root's type in the registry, None for a leaf.
        context: what its flatten function returned.
        num_nodes, num_leaves, num_children: counts; a leaf is a node.
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        if type is None:
            self.num_nodes = self.num_leaves = 1
        else:
            nodes, leaves = 1, 0
            for child in children_specs:
                nodes += child.num_nodes
                leaves += child.num_leaves
            self.num_nodes, self.num_leaves = nodes, leaves

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        indent += 2
        children = (",\n" + " " * indent).join(c.__repr__(indent) for c in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self is other or (
            str(self.type) == str(other.type)
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        context = self._context
        if self.type in STANDARD_DICT_TYPES:
            context = (context[0], *context[1]) if self.type is defaultdict else tuple(context)
        elif isinstance(context, ConstantNode):
            context = context.value
        elif self.type is not None and self.type not in BUILTIN_TYPES:
            context = None  # it need not be hashable
        return hash((self.type, context, tuple(self._children)))

    @property
    def context(self) -> Context:
        """What the root's flatten function returned."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The former name of `children`."""
        warnings.warn(
            "`treespec.children_specs` is deprecated. "
            "Use `treespec.child(index)` to access a single child, "
            "or `treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Whether the tree is a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The specs of the root's children."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """The spec of one child."""
        return self._children[index]

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The subtrees of a tree that stand where this structure has leaves.

        Raises:
            ValueError: if the tree does not have this structure.
        """
        subtrees: list[PyTree] = []
        self._flatten_up_to(tree, subtrees)
        return subtrees

    def _flatten_up_to(self, node, subtrees):
        if self.type is None:
            subtrees.append(node)
            return
        for child, spec in zip(self._children_of(node), self._children):
            spec._flatten_up_to(child, subtrees)

    def _children_of(self, node):
        """The children of a node that has to be like the root."""
        node_type = _get_node_type(node)
        built_in = self.type in BUILTIN_TYPES
        as_dict = self.type in STANDARD_DICT_TYPES and node_type in STANDARD_DICT_TYPES
        if node_type != self.type and not as_dict:
            raise ValueError(
                f"{'Node type' if built_in else 'Type'} mismatch; "
                f"expected {self.type!r}, but got {node_type!r}."
            )
        children, context = SUPPORTED_NODES[node_type].flatten_fn(node)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        if as_dict:
            expected = self._context[1] if self.type is defaultdict else self._context
            missing, extra = set(expected) - set(node), set(node) - set(expected)
            if missing or extra:
                raise ValueError(
                    f"Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}."
                )
            return [node[key] for key in expected]
        if context != self._context and node_type is not deque:
            if not built_in:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; "
                f"expected {self._context!r}, but got {context!r}."
            )
        return children

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this structure with the given leaves.

        Raises:
            ValueError: if there are not as many as the structure has.
        """
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} "
                f"but the spec refers to a pytree that holds {self.num_leaves} "
                f"items ({self})."
            )
        return leaves[0] if self.type is None else self._unflatten(iter(leaves))

    def _unflatten(self, leaves):
        if self.type is None:
            return next(leaves)
        children = [child._unflatten(leaves) for child in self._children]
        if self.type is tuple:
            return tuple(children)
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf; ``treespec.is_leaf()`` tells."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF_SPEC = LeafSpec()


_list_flatten_with_keys, _tuple_flatten_with_keys, _dict_flatten_with_keys = (
    SUPPORTED_NODES[kind].flatten_with_keys_fn for kind in (list, tuple, dict)
)


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of trees with the given structures."""
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict of trees with the given structures."""
    specs = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in specs.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {specs!r}.")
    return TreeSpec(dict, list(specs), list(specs.values()))


# --- trees -------------------------------------------------------------------------------

IsLeaf = Callable[[PyTree], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is a leaf.

    >>> from ftorch.utils import _pytree
    >>> _pytree.tree_is_leaf(None), _pytree.tree_is_leaf([])
    (True, False)
    """
    return bool(is_leaf is not None and is_leaf(tree)) or (
        _get_node_type(tree) not in SUPPORTED_NODES
    )


_is_leaf = tree_is_leaf


def _is_plain_leaf(tree, is_leaf):
    """Whether a tree is seen to be a leaf at the first look: most are, tensors above all."""
    return is_leaf is None and type(tree) not in SUPPORTED_NODES and not isinstance(tree, tuple)


def _flatten_into(tree, leaves, is_leaf):
    node_type = type(tree)
    is_usual = (
        node_type is tuple or node_type is list or node_type is dict
    )  # the registry says the same of them
    if not is_usual:
        node_type = _get_node_type(tree)
    if not is_usual and node_type not in SUPPORTED_NODES or is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF_SPEC
    if is_usual:
        children, context = (tree.values(), list(tree)) if node_type is dict else (tree, None)
    else:
        children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
    specs = [_flatten_into(child, leaves, is_leaf) for child in children]
    return TreeSpec(node_type, context, specs)


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """A tree's leaves, and its structure.

    Args:
        is_leaf: says of which further objects to make leaves.

    >>> from ftorch.utils import _pytree
    >>> leaves, spec = _pytree.tree_flatten({"a": [1, 2], "b": 3})
    >>> leaves, _pytree.tree_unflatten("xyz", spec)
    ([1, 2, 3], {'a': ['x', 'y'], 'b': 'z'})
    """
    if _is_plain_leaf(tree, is_leaf):
        return [tree], _LEAF_SPEC
    leaves: list[Any] = []
    spec = _flatten_into(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree with the given leaves and structure."""
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
                f"{type(treespec)}."
            )
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterable[Any]:
    """An iterator over a tree's leaves."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """A tree's leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """A tree's structure."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of a call's arguments."""
    return tree_leaves((args, kwargs))


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """A tree of what a function makes of the leaves of one or more trees.

    The first tree has the structure; the others must go at least as far.

    >>> from ftorch.utils import _pytree
    >>> _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"x": 10, "y": (20, 30)})
    {'x': 11, 'y': (22, 33)}
    """
    if not rests and _is_plain_leaf(tree, is_leaf):
        return func(tree)
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([*map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests))])


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Calls a function with the leaves; returns the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for arguments in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*arguments)
    return tree


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` that leaves other leaves alone.

    >>> from ftorch.utils import _pytree
    >>> _pytree.tree_map_only(int, str, [1, 2.5])
    ['1', 2.5]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Callable, tree: PyTree,
                   is_leaf: IsLeaf = None) -> PyTree:
    """`tree_map_` that leaves other leaves alone."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree,
                  is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for all leaves of a type."""
    applies = predicate(type_or_types)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if applies(x))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree,
                  is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for any leaf of a type."""
    applies = predicate(type_or_types)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if applies(x))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec,
                              is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree that is a prefix of a structure, each as often as it stands for a leaf
    there; None if it is no prefix. What ``in_dims`` of ``vmap`` goes through."""
    if _is_plain_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    result: list[Any] = []

    def repeat(leaf, subtree):
        result.extend([leaf] * tree_structure(subtree, is_leaf).num_leaves)

    try:
        full = treespec.unflatten([0] * treespec.num_leaves)
        tree_map_(repeat, tree, full, is_leaf=is_leaf)
    except ValueError:
        return None
    return result


# --- paths -------------------------------------------------------------------------------


def _generate_key_paths(path, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node_type = _get_node_type(tree)
    flatten_with_keys = SUPPORTED_NODES[node_type].flatten_with_keys_fn
    if flatten_with_keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node_type}. "
            "Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in flatten_with_keys(tree)[0]:
        yield from _generate_key_paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """A tree's leaves with the paths to them.

    >>> from ftorch.utils import _pytree
    >>> [(_pytree.keystr(path), x) for path, x in _pytree.tree_leaves_with_path({"a": [5]})]
    [("['a'][0]", 5)]
    """
    return list(_generate_key_paths((), tree, is_leaf))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """A tree's leaves with the paths to them, and its structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable, tree: PyTree, *rests: PyTree,
                       is_leaf: IsLeaf = None) -> PyTree:
    """`tree_map` whose function gets each leaf's path first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*pair, *xs) for pair, *xs in zip(pairs, *others)])


# --- text --------------------------------------------------------------------------------


_ASTERISK = type("_Asterisk", (), {"__repr__": lambda self: "*"})()


def treespec_pprint(treespec: TreeSpec) -> str:
    """The tree with ``*`` for leaves."""
    return repr(treespec.unflatten([_ASTERISK] * treespec.num_leaves))


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON.

    Raises:
        NotImplementedError: if a type was registered without a name for this.
    """
    from . import _pytree_json

    return _pytree_json.dumps(treespec, protocol)


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` made a text of."""
    from . import _pytree_json

    return _pytree_json.loads(serialized)


def _with_index_keys(values):
    return [(SequenceKey(i), v) for i, v in enumerate(values)], None


# Results with names are nodes.
def register_named_results(cls):
    """Makes a class of named results a node, whose children are the results."""
    register_pytree_node(
        cls,
        lambda results: (list(results), None),
        lambda values, _: cls(values),
        flatten_with_keys_fn=_with_index_keys,
    )


from ..eager.core.geometry import Size as _Size  # noqa: E402
from ..eager.core.return_values import of_all_ops as _of_all_ops  # noqa: E402
from ..eager.surface import attach as _attach  # noqa: E402, F401  (declares the ops)

register_pytree_node(
    _Size,
    lambda size: (list(size), None),
    # PyTorch's gives a tuple always; what compiled functions return is put together here, too, and stays a size.
    lambda sizes, _: _Size(sizes) if all(isinstance(n, int) for n in sizes) else tuple(sizes),
    serialized_type_name="torch.Size",
    flatten_with_keys_fn=_with_index_keys,
)
for _type in dict.fromkeys(type_ for _, type_ in sorted(_of_all_ops().items())):
    register_named_results(_type)
del _type
