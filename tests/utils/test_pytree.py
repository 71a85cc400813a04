"""``ftorch.utils._pytree`` against ``torch.utils._pytree``."""

import dataclasses
import enum
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
import torch.utils._pytree as reference

from ftorch.utils import _pytree as pytree

Point = namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1


TREES = [
    1, None, "text", [], (), {}, [1, (2, [3]), {"a": 4, "b": None}],
    OrderedDict(b=1, a=[2]), defaultdict(list, {"k": (1, 2)}), deque([1, 2], maxlen=3),
    Point(1, [2, 3]), {"nested": [Point({"z": 1}, ()), deque()]}, time.gmtime(0),
    {Color.RED: 1},
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_flatten_agrees(tree):
    leaves, spec = pytree.tree_flatten(tree)
    expected, expected_spec = reference.tree_flatten(tree)
    assert leaves == expected
    assert repr(spec) == repr(expected_spec)
    assert spec == pytree.tree_structure(tree)
    assert hash(spec) == hash(pytree.tree_structure(tree))
    assert (spec.num_nodes, spec.num_leaves, spec.num_children) == (
        expected_spec.num_nodes, expected_spec.num_leaves, expected_spec.num_children,
    )
    assert pytree.tree_unflatten(leaves, spec) == tree
    assert type(pytree.tree_unflatten(leaves, spec)) is type(tree)
    assert list(pytree.tree_iter(tree)) == pytree.tree_leaves(tree) == leaves
    assert pytree.treespec_pprint(spec) == reference.treespec_pprint(expected_spec)


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_paths_agree(tree):
    def paths(module):
        return [(module.keystr(p), x) for p, x in module.tree_leaves_with_path(tree)]

    assert paths(pytree) == paths(reference)
    for path, leaf in pytree.tree_leaves_with_path(tree):
        assert pytree.key_get(tree, path) == leaf


@pytest.mark.parametrize("tree", [t for t in TREES if "Point" not in repr(t)], ids=repr)
def test_text_agrees(tree):
    if isinstance(tree, dict) and Color.RED in tree:
        tree = [tree]
    spec = pytree.tree_structure(tree)
    text = pytree.treespec_dumps(spec)
    assert text == reference.treespec_dumps(reference.tree_structure(tree))
    assert pytree.treespec_loads(text) == spec


def test_named_tuples_need_a_name_to_become_text():
    with pytest.raises(NotImplementedError, match="not registered|didn't register"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    Named = namedtuple("Named", "a")
    pytree._register_namedtuple(Named, serialized_type_name="test.Named")
    spec = pytree.tree_structure([Named(1)])
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    pytree._deregister_pytree_node(Named)


@pytest.mark.parametrize(
    ("tree", "other"),
    [
        ([1, 2], [1]), ([1, 2], (1, 2)), ({"a": 1}, {"b": 1}), ({"a": 1}, OrderedDict(a=[2])),
        (Point(1, 2), namedtuple("Other", "x y")(1, 2)), ([1], 5), (deque([1], 2), deque([1], 3)),
        ([1, [2]], [[5], [[6, 7]]]),
    ],
)
def test_flatten_up_to_agrees(tree, other):
    def results(module):
        try:
            return module.tree_structure(tree).flatten_up_to(other)
        except ValueError as e:
            return str(e).partition(";")[0]

    assert results(pytree) == results(reference)


def test_map():
    assert pytree.tree_map(lambda a, b: (a, b), [1, {"k": 2}], [[3], {"k": 4}]) == [
        (1, [3]), {"k": (2, 4)},
    ]
    assert pytree.tree_map_only((int, str), str, [1, 2.5, "x"]) == ["1", 2.5, "x"]
    assert pytree.tree_map_only(int | str, str, [1, 2.5]) == ["1", 2.5]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: x + 1, [1, 2]) == [2, 2]
    seen = []
    tree = [1, (2,)]
    assert pytree.tree_map_(seen.append, tree) is tree
    assert seen == [1, 2]
    assert pytree.tree_map_with_path(
        lambda path, x, y: (pytree.keystr(path), x + y), {"a": [1]}, {"a": [2]}
    ) == {"a": [("[\'a\'][0]", 3)]}
    assert pytree.tree_map(sum, [(1, 2), (3,)], is_leaf=lambda x: type(x) is tuple) == [3, 3]
    with pytest.raises(TypeError, match="Argument must be a type"):
        pytree.map_only(3)


def test_any_and_all():
    tree = [1, "a", {"k": 3}]
    assert pytree.tree_any(lambda x: x == 3, tree)
    assert not pytree.tree_all(lambda x: x == 3, tree)
    assert pytree.tree_all_only(int, lambda x: x < 4, tree)
    assert not pytree.tree_any_only(int, lambda x: x > 4, tree)


@pytest.mark.parametrize(
    ("tree", "full"),
    [(0, [1, 2]), ([0, 1], [[1, 2], 3]), ([0], [1, 2]), ((0, None), ({"a": 1, "b": 2}, 3))],
)
def test_broadcast_agrees(tree, full):
    assert pytree._broadcast_to_and_flatten(tree, pytree.tree_structure(full)) == (
        reference._broadcast_to_and_flatten(tree, reference.tree_structure(full))
    )


def test_registered_types():
    class Box:
        def __init__(self, value):
            self.value = value

    pytree.register_pytree_node(Box, lambda b: ([b.value], "context"), lambda v, _: Box(*v))
    leaves, spec = pytree.tree_flatten({"k": Box((1, 2))})
    assert leaves == [1, 2]
    assert pytree.tree_unflatten([3, 4], spec)["k"].value == (3, 4)
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, None, None)
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_leaves_with_path(Box(1))
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        pytree.treespec_dumps(pytree.tree_structure(Box(1)))
    pytree._deregister_pytree_node(Box)
    assert pytree.tree_is_leaf(Box(1))


def test_dataclasses():
    @dataclasses.dataclass
    class Config:
        a: int
        b: object = None

    pytree.register_dataclass(Config, serialized_type_name="test.Config")
    leaves, spec = pytree.tree_flatten(Config([1, 2]))
    assert leaves == [1, 2]
    assert pytree.tree_unflatten([3, 4], spec) == Config([3, 4])
    assert pytree.keystr(pytree.tree_leaves_with_path(Config(1))[0][0]) == ".a"
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    pytree._deregister_pytree_node(Config)
    with pytest.raises(ValueError, match="Unexpected fields"):
        pytree.register_dataclass(Config, field_names=["a", "b", "c"])


def test_constants():
    @dataclasses.dataclass(frozen=True)
    class Norm:
        name: str

    pytree.register_constant(Norm)
    leaves, spec = pytree.tree_flatten([Norm("l2"), 1])
    assert leaves == [1]
    assert pytree.tree_unflatten([2], spec) == [Norm("l2"), 2]
    assert pytree.is_constant_class(Norm)
    pytree._deregister_pytree_node(Norm)
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(type("Plain", (), {}))


def test_wrong_number_of_leaves():
    with pytest.raises(ValueError, match=r"`leaves` has length 1 but the spec refers to"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
    with pytest.raises(TypeError, match="Expected `treespec` to be an instance of PyTreeSpec"):
        pytree.tree_unflatten([1], 3)
