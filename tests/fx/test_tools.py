"""Modules of passes and experimental helpers that programs import: the same graphs as PyTorch's."""

import operator
import typing
from types import SimpleNamespace

import pytest
import torch as pt

import ftorch as ft

from .both import assert_same_text, in_both, module

LIBRARIES = (ft, pt)


def traced(torch, function):
    return torch.fx.symbolic_trace(function)


def network(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.c = torch.nn.Conv2d(1, 2, 3, padding=1)
            self.bn = torch.nn.BatchNorm2d(2)
            self.r = torch.nn.ReLU()
            self.l = torch.nn.Linear(8, 3)
            self.p = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            x = torch.flatten(self.r(self.bn(self.c(x))), 1)
            return self.l(x) + self.p

    torch.manual_seed(0)
    return Net().eval()


def image(torch):
    return torch.arange(8.0).view(2, 1, 2, 2)


def horizontal(torch):
    return lambda x, y: (torch.relu(x) + 1, torch.sigmoid(x), torch.relu(y) * 2)


def circle(torch):
    def f(x, y):
        a = x + 1
        b = torch.tanh(a)
        c = a * 2
        d = b + c
        e = torch.tanh(c)
        return d * e

    return f


def around(torch):
    def f(x, y):
        a = torch.relu(x)
        b = a + y
        c = torch.sigmoid(b)
        d = torch.relu(c)
        return d + b, c

    return f


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("program", [horizontal, circle, around])
def test_partitions(program, single):
    def run(torch):
        wanted = (torch.relu, operator.add, operator.mul)
        support = module(torch, "fx.passes.operator_support").create_op_support(
            lambda _, n: n.target in wanted
        )
        partitioner = module(torch, "fx.passes.infra.partitioner").CapabilityBasedPartitioner
        maker = partitioner(traced(torch, program(torch)), support, single)
        parts = maker.propose_partitions()
        fused = maker.fuse_partitions(parts)
        names = [sorted(n.name for n in p.nodes) for p in parts]
        return SimpleNamespace(names=names, code=fused.code, parts=[m.code for m in fused.children()])

    mine, theirs = (run(torch) for torch in LIBRARIES)
    assert mine.names == theirs.names
    assert_same_text(mine.code, theirs.code)
    assert_same_text("\n".join(mine.parts), "\n".join(theirs.parts))


def fused(torch):
    optimization = module(torch, "fx.experimental.optimization")
    model = network(torch)
    made = optimization.fuse(model)
    assert torch.allclose(made(image(torch)), model(image(torch)), atol=1e-5)
    return made.code


def without_dropout(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.ReLU())
    return module(torch, "fx.experimental.optimization").remove_dropout(model).code


def normalized(torch):
    made = module(torch, "fx.experimental.normalize").NormalizeArgs(traced(torch, network(torch)))
    return made.transform().code


def operators(torch):
    made = traced(torch, lambda x, y: torch.add(torch.mul(x, y), torch.sub(x, 1)))
    return module(torch, "fx.experimental.normalize").NormalizeOperators(made).transform().code


def asserted(torch):
    def f(x):
        assert x.shape[0] > 1, "rows"
        return x

    f.__globals__["torch"] = torch  # PyTorch's finds the name among the globals
    try:
        return module(torch, "fx.experimental.rewriter").RewritingTracer().trace(f)
    finally:
        del f.__globals__["torch"]


def tagged(torch):
    utils = module(torch, "fx.passes.split_utils")
    model = network(torch)
    made = traced(torch, model)
    for i, node in enumerate(n for n in made.graph.nodes if n.op not in ("placeholder", "output")):
        node.tag = "first" if i < 3 else "second"
    split, paths = utils.split_by_tags(made, ["first", "second"], return_fqn_mapping=True)
    assert torch.allclose(split(image(torch)), model(image(torch)))
    return "\n".join([split.code, split.first.code, split.second.code, str(paths)])


def ordered(torch):
    tools = module(torch, "fx.passes.tools_common")
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    b = graph.call_function(torch.neg, (x,))
    a = graph.call_function(torch.abs, (x,))
    c = graph.call_function(torch.exp, (x,))
    graph.output((a, b, c))
    b.args = (a,)
    made = torch.fx.GraphModule(torch.nn.Module(), graph)
    stable = torch.fx.GraphModule(torch.nn.Module(), graph)
    tools.legalize_graph(made)
    tools.stable_topological_sort(stable)
    names = [tools.get_acc_ops_name(f) for f in (torch.relu, operator.add, "x")]
    return f"{made.code}{stable.code}{names}"


def parts(torch):
    utils = module(torch, "fx.passes.utils.fuser_utils")
    made = traced(torch, around(torch))
    nodes = {n.name: n for n in made.graph.nodes}
    valid = [utils.validate_partition([nodes[a], nodes[b]]) for a, b in (("relu", "add"), ("relu", "relu_1"))]
    made = utils.fuse_by_partitions(made, [{nodes["relu"]: None, nodes["add"]: None}])
    return f"{valid}{made.code}{made.fused_0.code}"


def lifted(torch):
    common = module(torch, "fx.passes.utils.common")
    made, other = traced(torch, network(torch)), traced(torch, network(torch))
    alike = [common.compare_graphs(made.graph, g) for g in (other.graph, traced(torch, lambda x: x + 1).graph)]
    part, paths = common.lift_subgraph_as_module(made, made.graph, "part", "Part")
    return f"{alike}{part.code}{paths}{type(part).__name__}"


def replaced(torch):
    made = traced(torch, lambda x: torch.relu(x) + torch.relu(x))
    module(torch, "fx.passes.graph_manipulation").replace_target_nodes_with(
        made, "call_function", torch.relu, "call_function", torch.tanh
    )
    return made.code


def sizes(torch):
    made = traced(torch, network(torch))
    module(torch, "fx.passes.graph_manipulation").get_size_of_all_nodes(made, [image(torch)])
    return [(n.name, tuple(n.size_bytes)) for n in made.graph.nodes if n.op != "output"]


def elements(torch):
    made = traced(torch, _elements)
    module(torch, "fx.passes.annotate_getitem_nodes").annotate_getitem_nodes(made.graph)
    return [(n.name, str(n.type)) for n in made.graph.nodes]


def _elements(t: tuple[int, list[str]], x: list[int]):
    return t[0] + x[0], t[1]


def lowering(torch):
    found = module(torch, "fx.passes.param_fetch").extract_attrs_for_lowering(torch.nn.MaxPool2d(2))
    return str(found)


def merged(torch):
    def f(x, y, a):
        return torch.matmul(x, a) + torch.matmul(y, a)

    made = module(torch, "fx.experimental.merge_matmul").merge_matmul(f)
    assert torch.equal(made(*[torch.ones(2, 3)] * 2, torch.ones(3, 4)), torch.full((2, 4), 6.0))
    return [n.target.__name__ for n in made.graph.nodes if n.op == "call_function"]


def in_place(torch):
    make_fx = module(torch, "fx.experimental.proxy_tensor").make_fx
    out = []
    for function in (_chain, _viewed):
        made = module(torch, "fx.passes.reinplace").reinplace(
            make_fx(function)(torch.ones(2)), torch.ones(2)
        )
        assert torch.equal(pt.utils._pytree.tree_leaves(made(torch.ones(2)))[0], function(torch.ones(2))[0])
        out.append(made.code)
    return "".join(out)


def _chain(x):
    return (x.clone().add(1).mul(2),)


def _viewed(x):
    a = x.clone()
    return a.view(-1).add(1), a


def managed(torch):
    passes = module(torch, "fx.passes.pass_manager")
    a, b = (lambda x: x + 1), (lambda x: x * 2)
    manager = passes.PassManager([a, b])
    results = [manager(3), passes.loop_pass(a, n_iter=3)(1), passes.loop_pass(a, predicate=lambda x: x < 7)(1)]
    manager.add_constraint(passes.this_before_that_pass_constraint(b, a))
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager(3)
    return results


def unified(torch):
    u = module(torch, "fx.experimental.unification")
    x = u.Var()
    with u.variables("q"):
        first = [u.unify("q", 3, {}), u.isvar("q")]
    return [*first, u.isvar("q"), u.reify((x, 3), {x: 5}), u.reify({"a": [x]}, {x: 5})]


def types(torch):
    t = module(torch, "fx.tensor_type")
    one, two = t.TensorType((1, t.Dyn)), t.TensorType((1, 2))
    annotate = module(torch, "fx.annotate").annotate
    schemas = module(torch, "fx.operator_schemas")
    return [
        one,
        t.is_consistent(one, two),
        t.is_consistent(t.TensorType((3,)), two),
        t.is_more_precise(two, one),
        t.is_more_precise(one, two),
        annotate(3, int),
        schemas.create_type_hint([int, bool]),
        schemas.create_type_hint((int, str)),
        schemas.type_matches(typing.Union[int, str], int),  # noqa: UP007
        schemas.type_matches(list[int], list[int]),
    ]


PROGRAMS = [fused, without_dropout, normalized, operators, asserted, tagged, ordered, parts, lifted,
            replaced, sizes, elements, lowering, merged, in_place, managed, unified, types]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_tools(program):
    theirs, mine = in_both(program)
    assert_same_text(mine, theirs)


def test_sources_of_exported_nodes():
    def run(torch):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
        made = torch.export.export(model, (torch.ones(1, 2),)).module()
        utils = module(torch, "fx.passes.utils.source_matcher_utils")
        found = utils.get_source_partitions(made.graph, [torch.nn.Linear, torch.nn.ReLU])
        first, last = found[torch.nn.Linear]
        (relu,) = found[torch.nn.ReLU]
        names = {k.__name__: [[n.name for n in p.nodes] for p in v] for k, v in found.items()}
        return names, utils.check_subgraphs_connected(first, relu), utils.check_subgraphs_connected(first, last)

    theirs, mine = in_both(run)
    assert mine == theirs


def test_observed_passes():
    made = ft.fx.symbolic_trace(lambda x: ft.relu(x))
    observer = module(ft, "fx.passes.graph_transform_observer").GraphTransformObserver(made, "p")
    with observer:
        relu = made.graph.find_nodes(op="call_function", target=ft.relu)[0]
        with made.graph.inserting_after(relu):
            relu.replace_all_uses_with(made.graph.call_function(ft.tanh, relu.args))
        made.graph.erase_node(relu)
    assert (observer.created_nodes, observer.erased_nodes) == ({"tanh"}, {"relu"})
