"""Passes: rewriting, splitting, shapes, common subexpressions, partitions, folding, drawing."""

import operator

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.fx.experimental.const_fold import split_const_subgraphs
from ftorch.fx.passes.dialect.common.cse_pass import CSEPass
from ftorch.fx.passes.graph_drawer import FxGraphDrawer
from ftorch.fx.passes.infra.pass_base import PassBase, PassResult
from ftorch.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from ftorch.fx.passes.operator_support import OpSupports, any_chain, chain, create_op_support
from ftorch.fx.passes.shape_prop import ShapeProp

from .both import assert_same_text, in_both, module

REWRITES = {}


def rewrite(program):
    REWRITES[program.__name__] = program
    return program


@rewrite
def chained(torch):
    def f(x, a, b):
        v = torch.cat([a, b]).sum()
        w = torch.cat([v, x]).sum()
        return w.max() + v

    return (f, lambda x, y: torch.cat([x, y]).sum(), lambda x, y: torch.stack([x, y]))


@rewrite
def inside_used_outside(torch):
    def f(x):
        y = torch.relu(x)
        return torch.neg(y) + y

    return (f, lambda x: torch.neg(torch.relu(x)), lambda x: torch.abs(x))


@rewrite
def same_argument_twice(torch):
    return (lambda x: torch.add(x, x) * 2, lambda a, b: torch.add(a, b), lambda a, b: torch.mul(a, b))


@rewrite
def literals(torch):
    def f(x):
        return torch.clamp(x + 1, 0, 6) + torch.clamp(x + 1, 0, 5)

    return (f, lambda x: torch.clamp(x + 1, 0, 6), lambda x: torch.nn.functional.relu6(x))


@rewrite
def several_results(torch):
    def f(x):
        a = torch.sin(x)
        b = torch.cos(x)
        return a * b

    def pattern(x):
        return torch.sin(x), torch.cos(x)

    def replacement(x):
        return torch.exp(x), torch.log(x)

    return f, pattern, replacement


@rewrite
def identity(torch):
    return (lambda x: torch.relu(torch.relu(x)), lambda x: torch.relu(x), lambda x: torch.relu(x))


@rewrite
def overlapping(torch):
    f = lambda x: torch.neg(torch.neg(torch.neg(x)))  # noqa: E731
    return (f, lambda x: torch.neg(torch.neg(x)), lambda x: torch.abs(x))


@pytest.mark.parametrize("program", REWRITES.values(), ids=REWRITES)
def test_replace_pattern(program):
    def run(torch):
        f, pattern, replacement = program(torch)
        gm = torch.fx.symbolic_trace(f)
        matches = torch.fx.replace_pattern(gm, pattern, replacement)
        gm.graph.lint()
        return gm, matches

    (theirs, their_matches), (mine, my_matches) = in_both(run)
    assert_same_text(mine.code, theirs.code)
    assert len(my_matches) == len(their_matches)
    assert [str(m.nodes_map) for m in my_matches] == [str(m.nodes_map) for m in their_matches]


def test_replacement_with_filters():
    def run(torch):
        rewriter = module(torch, "fx.subgraph_rewriter")
        gm = torch.fx.symbolic_trace(lambda x: torch.add(torch.add(x, 1), 2))
        found = rewriter.replace_pattern_with_filters(
            gm, lambda x: torch.add(x, 5), lambda x: torch.neg(x),
            match_filters=[lambda match, *_: next(iter(match.nodes_map)).op == "call_function"],
            ignore_literals=True,
        )
        return gm.code, len(found)

    theirs, mine = in_both(run)
    assert_same_text(mine[0], theirs[0])
    assert mine[1] == theirs[1]


def test_shape_prop():
    def run(torch):
        gm = torch.fx.symbolic_trace(lambda x: (x.sum(0), x.T, x.max(1), x.int(), x.shape[0]))
        module(torch, "fx.passes.shape_prop").ShapeProp(gm).propagate(torch.ones(3, 4))
        return "\n".join(f"{n.name}: {n.meta.get('tensor_meta')}" for n in gm.graph.nodes)

    theirs, mine = in_both(run)
    assert_same_text(mine, theirs)
    gm = ft.fx.symbolic_trace(lambda x: x @ x)
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%matmul"):
        ShapeProp(gm).propagate(ft.ones(2, 3))


def splitting(torch):
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(3, 3)
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x, y=2):
            a = x + y
            b = a.relu()
            c = self.lin(b) * self.w
            return c - a, b

    return M()


@pytest.mark.parametrize("where", [{"mul": 1, "sub": 1}, {"lin": 1, "mul": 1, "sub": 2}])
def test_split_module(where):
    def run(torch):
        split_module = module(torch, "fx.passes.split_module").split_module
        gm = torch.fx.symbolic_trace(splitting(torch))
        parts = split_module(gm, None, lambda n: where.get(n.name, 0))
        return gm, parts

    (_, theirs), (original, mine) = in_both(run)
    assert_same_text(mine.code, theirs.code)
    assert [n for n, _ in mine.named_children()] == [n for n, _ in theirs.named_children()]
    x = ft.randn(2, 3)
    for a, b in zip(mine(x), original(x)):
        assert ft.equal(a, b)


def test_split_module_refuses_circles():
    split_module = module(ft, "fx.passes.split_module").split_module
    gm = ft.fx.symbolic_trace(lambda x: x.relu().neg().abs())
    with pytest.raises(RuntimeError, match="cycle exists between partitions!"):
        split_module(gm, None, lambda n: n.name == "neg")


def test_common_subexpressions():
    def f(x):
        a = ft.sin(x) + ft.sin(x)
        b = ft.sum(x, 1) * ft.sum(x, 1) - ft.sum(x, dim=1)
        return a, b, ft.rand(1) if False else ft.add(x, 1) + ft.add(x, 1.0) + ft.add(x, True)

    gm = ft.fx.symbolic_trace(f)
    x = ft.randn(2, 2)
    before = gm(x)
    result = CSEPass()(gm)
    merged = result.graph_module
    assert result.modified and CSEPass()(gm).modified and not CSEPass()(merged).modified
    targets = [n.target for n in merged.graph.nodes]
    assert targets.count(ft.sin) == 1 and targets.count(ft.sum) == 2 and targets.count(ft.add) == 3
    for a, b in zip(merged(x), before):
        assert ft.equal(a, b)


def test_common_subexpressions_see_writes():
    def f(x):
        a = ft.sin(x)
        b = operator.iadd(x, 1) if isinstance(x, ft.Tensor) else x.add_(1)
        return a + ft.sin(x), b

    gm = ft.fx.symbolic_trace(f)
    assert not CSEPass()(gm).modified


def test_pass_manager():
    order = []

    def first(gm):
        order.append("first")

    def second(gm):
        order.append("second")
        return PassResult(gm, False)

    class Nothing(PassBase):
        def call(self, graph_module):
            order.append("nothing")
            return PassResult(graph_module, False)

    a, b = pass_result_wrapper(first), pass_result_wrapper(second)
    manager = PassManager([b, a, Nothing()], [this_before_that_pass_constraint(a, b)])
    assert manager(ft.fx.symbolic_trace(lambda x: x)).modified
    assert order.index("first") < order.index("second") and "nothing" in order
    manager.add_constraint(this_before_that_pass_constraint(b, a))
    with pytest.raises(RuntimeError, match="Circular dependency"):
        manager(ft.fx.symbolic_trace(lambda x: x))
    with pytest.raises(Exception, match="An error occurred when running the '<lambda>' pass") as info:
        PassManager([lambda gm: None])(ft.fx.symbolic_trace(lambda x: x))
    assert isinstance(info.value.__cause__, TypeError)


def partitioning(torch):
    def f(x, y):
        a = torch.sin(x)
        b = torch.cos(a)
        c = b.neg()  # not supported
        d = torch.sin(c)
        e = torch.cos(y)
        return torch.sin(d) + torch.cos(e) + a, b

    return f


def test_partitioner():
    def run(torch):
        supported = {torch.sin, torch.cos, operator.add}
        create = module(torch, "fx.passes.operator_support").create_op_support
        support = create(lambda modules, n: n.target in supported)
        cls = module(torch, "fx.passes.infra.partitioner").CapabilityBasedPartitioner
        gm = torch.fx.symbolic_trace(partitioning(torch))
        partitioner = cls(gm, support)
        found = partitioner.propose_partitions()
        return {frozenset(n.name for n in p.nodes) for p in found}, partitioner.fuse_partitions(found)

    (_, theirs), (groups, mine) = in_both(run)
    names = [n.target for n in mine.graph.nodes if n.op == "call_module"]
    assert len(names) == len(groups)
    x, y = np.linspace(-1, 1, 4).astype(np.float32), np.linspace(0, 2, 4).astype(np.float32)
    for a, b in zip(mine(ft.from_numpy(x), ft.from_numpy(y)), theirs(pt.from_numpy(x), pt.from_numpy(y))):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert {"neg"} == {n.name for n in mine.graph.nodes if n.op == "call_method"}


def test_operator_support():
    yes = create_op_support(lambda modules, node: True)
    no = OpSupports.decline_if_node_in_names({"relu"})
    node = ft.fx.Graph().call_function(ft.relu, ())
    assert any_chain(yes, no).is_node_supported({}, node)
    assert not chain(yes, no).is_node_supported({}, node)


def test_constant_folding():
    class M(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = ft.nn.Parameter(ft.randn(3, 3))
            self.register_buffer("b", ft.randn(3))

        def forward(self, x):
            scaled = (self.w * 2).T + self.b
            return x @ scaled + self.b, scaled.sum()

    m, x = M(), ft.randn(2, 3)
    folded = split_const_subgraphs(m)
    for a, b in zip(folded(x), m(x)):
        assert ft.allclose(a, b)
    targets = [n.target for n in folded.graph.nodes if n.op == "get_attr"]
    assert set(targets) == {"_FX_CONST_FOLDED_ATTRS", "b"}  # a list of both, as in PyTorch
    assert folded.has_folding_been_run


def test_graph_drawer():
    gm = ft.fx.symbolic_trace(ft.nn.Sequential(ft.nn.Linear(2, 3), ft.nn.ReLU()))
    try:
        import pydot  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(RuntimeError, match="requires the pydot package"):
            FxGraphDrawer(gm, "model")
        return
    text = FxGraphDrawer(gm, "model").get_dot_graph().to_string()
    assert "op_code=call_module" in text and "->" in text and "in_features" in text


def test_shapes_without_values():
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp as Theirs

    from ftorch.fx.passes.fake_tensor_prop import FakeTensorProp

    shapes = []
    for torch, prop in ((pt, Theirs), (ft, FakeTensorProp)):
        traced = torch.fx.symbolic_trace(lambda x: torch.relu(x.sum(0) + 1))
        result = prop(traced).propagate(torch.ones(2, 3))
        shapes.append([(n.name, tuple(n.meta["val"].shape), list(n.meta))
                       for n in traced.graph.nodes])
        assert type(result).__name__ == "FakeTensor"
    assert shapes[0] == shapes[1]
