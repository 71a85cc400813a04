"""`symbolic_trace`: the graphs, code and results of PyTorch."""

import collections
import copy
import math
import operator
import pickle

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.fx.passes.shape_prop import ShapeProp
from tests.oracle import assert_same

from .both import assert_same_text, in_both, module, normal
from .programs import ALL, constants, convolutional, perceptron


def traced(program):
    """(ftorch's, PyTorch's) traced program, with the same state."""
    theirs, mine = [torch.fx.symbolic_trace(program(torch)[0]) for torch in (pt, ft)]
    if isinstance(program(pt)[0], pt.nn.Module):
        state = {k: ft.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()}
        mine.load_state_dict(state)
    return mine, theirs


def examples(program, seed=0):
    random = np.random.default_rng(seed)
    shapes = program(pt)[1]
    arrays = [random.standard_normal(s).astype(np.float32) for s in shapes]
    return [ft.from_numpy(a) for a in arrays], [pt.from_numpy(a) for a in arrays]


def assert_same_tree(mine, theirs):
    if isinstance(theirs, dict):
        assert mine.keys() == theirs.keys()
        for key, value in theirs.items():
            assert_same_tree(mine[key], value)
    elif isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs):
            assert_same_tree(a, b)
    elif isinstance(theirs, pt.dtype):
        assert str(mine) == str(theirs)
    else:
        assert_same(mine, theirs, tolerance=(1e-4, 1e-5))


@pytest.mark.parametrize("program", ALL, ids=lambda p: p.__name__)
def test_graph_and_code(program):
    mine, theirs = traced(program)
    assert_same_text(mine.graph, theirs.graph)
    assert_same_text(mine.code, theirs.code)


@pytest.mark.parametrize("program", [p for p in ALL if p(pt)[1]], ids=lambda p: p.__name__)
def test_results(program):
    mine, theirs = traced(program)
    a, b = examples(program)
    assert_same_tree(mine(*a), theirs(*b))
    assert_same_tree(ft.fx.Interpreter(mine).run(*a), theirs(*b))
    assert_same_tree(ft.fx.Transformer(mine).transform()(*a), theirs(*b))
    assert_same_tree(copy.deepcopy(mine)(*a), theirs(*b))


@pytest.mark.parametrize("program", [perceptron, convolutional, constants], ids=lambda p: p.__name__)
def test_pickle(program):
    mine, theirs = traced(program)
    again = pickle.loads(pickle.dumps(mine))
    assert again.code == mine.code
    a, b = examples(program)
    assert_same_tree(again(*a), theirs(*b))
    assert list(again.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize("program", [perceptron, convolutional], ids=lambda p: p.__name__)
def test_compiled(program):
    mine, theirs = traced(program)
    compiled = ft.compile(mine)
    a, b = examples(program)
    with ft.no_grad():
        for _ in range(3):
            assert_same_tree(compiled(*a), theirs(*b))


@pytest.mark.parametrize("program", [perceptron, convolutional], ids=lambda p: p.__name__)
def test_print_readable(program):
    mine, theirs = traced(program)
    assert_same_text(mine.print_readable(print_output=False), theirs.print_readable(print_output=False))
    a, b = examples(program)
    ShapeProp(mine).propagate(*a)
    module(pt, "fx.passes.shape_prop").ShapeProp(theirs).propagate(*b)
    assert_same_text(mine.print_readable(print_output=False), theirs.print_readable(print_output=False))
    assert "f32[" in mine.print_readable(print_output=False)
    assert_same_text(str(mine), str(theirs))


# --- control flow and errors -------------------------------------------------------------


def _branch(x):
    return x if x.sum() > 0 else -x


def _loop(x):
    for i in x:
        x = x + i
    return x


def _star(x):
    a, *b = x
    return a


def _length(x):
    return len(x)


def _contains(x):
    return 1 in x


def _mapping(x):
    return dict(**x)


def _assertion(x):
    assert x.sum() > 0
    return x


def _range(x):
    return range(x)


def _assign(x):
    x[0] = 1
    return x


def _as_float(x):
    return float(x)


def _unknown(x):
    return object(), x


def _and(x):
    return x and 1


@pytest.mark.parametrize(
    "function",
    [_branch, _loop, _star, _length, _contains, _mapping, _assertion, _range, _assign, _as_float,
     _unknown, _and],
)
def test_errors(function):
    errors = []
    for torch in (pt, ft):
        with pytest.raises(Exception) as caught:
            torch.fx.symbolic_trace(function)
        errors.append((type(caught.value).__name__, str(caught.value)))
    assert errors[0] == errors[1]


def _flagged(x, flag, scale=None):
    if flag:
        x = x + 1
    return x if scale is None else x * scale


def _nested(d, y):
    return d["a"] + d["b"][0] * y


@pytest.mark.parametrize("case", ["bool", "none", "dict"])
def test_concrete_args(case):
    def program(torch):
        ph = torch.fx._symbolic_trace.PH
        function, concrete = {
            "bool": (_flagged, {"flag": True}),
            "none": (_flagged, {"flag": False, "scale": None}),
            "dict": (_nested, {"d": {"a": ph, "b": [ph]}}),
        }[case]
        return torch.fx.symbolic_trace(function, concrete_args=concrete)

    theirs, mine = in_both(program)
    assert_same_text(mine.code, theirs.code)
    if case == "dict":
        assert mine({"a": ft.ones(2), "b": [ft.ones(2)]}, 2.0).tolist() == [3.0, 3.0]
    if case == "bool":
        with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
            mine(ft.ones(2), False, 1.0)


def test_functions_taken_out_of_the_namespaces_are_recorded():
    activation, table = ft.relu, {"gelu": ft.nn.functional.gelu}
    graph = ft.fx.symbolic_trace(lambda x: table["gelu"](activation(x))).graph
    assert [n.target for n in graph.nodes if n.op == "call_function"] == [ft.relu, table["gelu"]]


def test_nothing_stays_patched():
    before = ft.relu, ft.Tensor.add, ft.nn.Module.__call__, ft.nn.functional.linear
    with pytest.raises(ft.fx.TraceError):
        ft.fx.symbolic_trace(_branch)
    assert before == (ft.relu, ft.Tensor.add, ft.nn.Module.__call__, ft.nn.functional.linear)


def test_tracer_subclass():
    class Everything(ft.fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    class All(pt.fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    mine = Everything().trace(ft.nn.Sequential(ft.nn.Linear(2, 2), ft.nn.ReLU()))
    theirs = All().trace(pt.nn.Sequential(pt.nn.Linear(2, 2), pt.nn.ReLU()))
    assert_same_text(mine, theirs)


def test_stack_traces():
    class Tracer(ft.fx.Tracer):
        record_stack_traces = True

    def f(x):
        return x + 1

    graph = Tracer().trace(f)
    (add,) = graph.find_nodes(op="call_function", target=operator.add)
    assert add.stack_trace.count("File ") == 1 and "return x + 1" in add.stack_trace
    text = ft.fx.GraphModule(ft.nn.Module(), graph).print_readable(print_output=False)
    assert "in f, code: return x + 1" in text


def test_module_that_is_no_submodule():
    outside = ft.nn.Linear(2, 2)

    class M(ft.nn.Module):
        def forward(self, x):
            return outside(x)

    with pytest.raises(NameError, match="module is not installed as a submodule"):
        ft.fx.symbolic_trace(M())


def test_autowrapped_math():
    def f(x):
        return math.sqrt(x.size(0))

    mine = ft.fx.symbolic_trace(f)
    assert normal(mine.code) == normal(pt.fx.symbolic_trace(f).code)
    assert mine(ft.ones(4)) == 2.0


def test_nested_graph_module_is_traced_into():
    class Outer(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = ft.fx.symbolic_trace(ft.nn.Sequential(ft.nn.ReLU()))

        def forward(self, x):
            return self.inner(x) + 1

    outer = ft.fx.symbolic_trace(Outer())
    assert [n.target for n in outer.graph.nodes if n.op == "call_module"] == ["inner.0"]
    assert outer(-ft.ones(2)).tolist() == [1.0, 1.0]


def _checked(library):
    def function(x):
        library._assert(x.shape[-1] == 3, "another size")
        return x + 1

    return library.fx.symbolic_trace(function)


def test_assertions_of_traced_values_are_steps():
    codes = []
    for library in (pt, ft):
        traced = _checked(library)
        codes.append([(n.op, n.name) for n in traced.graph.nodes])
        assert traced(library.ones(3)).tolist() == [2, 2, 2]
        with pytest.raises(AssertionError, match="another size"):
            traced(library.ones(2))
    assert codes[0] == codes[1]


@pytest.mark.parametrize("tree", [
    [1, 2], (1, 2), {"a": 1, "b": 2}, {"a": (1, [2]), "b": 3}, collections.namedtuple("Pair", "x y")(1, 2),
    collections.OrderedDict(a=1, b=2)])
@pytest.mark.parametrize("given", [[3, 4], (3, 4), {"a": 3, "b": 4, "c": 5}, {"a": (3, [4]), "b": 5}, [3], "ab", None])
def test_trees_are_read_by_their_spec(tree, given):
    def raised(t):
        spec = t.utils._pytree.tree_flatten(tree)[1]
        try:
            return t.fx._pytree.tree_flatten_spec(given, spec)
        except (LookupError, TypeError, RuntimeError) as error:
            return type(error), str(error).replace(f"'{t.__name__}", "'torch")

    assert raised(ft) == raised(pt)


def test_a_module_that_takes_trees_is_traced_again():
    def retraced(t):
        tree = {"x": {"a": t.fx.PH, "z": (t.fx.PH, [t.fx.PH])}}
        graph = t.fx.symbolic_trace(lambda x: x["a"] + x["z"][0] * x["z"][1][0], concrete_args=tree)
        again = t.fx.symbolic_trace(graph)
        return again.code, again({"a": 1, "z": (2, [3])})

    assert retraced(ft) == retraced(pt)
