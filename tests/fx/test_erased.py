"""What stays of nodes that were erased, and what passes of libraries read of graphs."""

import pytest
import torch

import ftorch


def test_numbers_stay_at_erased_nodes():
    def run(t):
        graph = t.fx.Graph()
        x = graph.placeholder("x")
        node = graph.call_function(t.clamp, (x, 0.5), {"max": 2.0})
        graph.output(x)
        graph.erase_node(node)
        return node.args, node.kwargs, len(x.users)

    assert run(ftorch) == run(torch)


def test_sources_of_nodes():
    from torch.fx.traceback import NodeSource, NodeSourceAction

    from ftorch.fx.traceback import NodeSource as Own
    from ftorch.fx.traceback import NodeSourceAction as OwnAction

    def run(t, source, action):
        graph = t.fx.Graph()
        node = graph.call_function(abs, (graph.placeholder("x"),))
        node.meta["from_node"] = [source(None, "first", action.CREATE)]
        made = source(node, "second", [action.CREATE, action.REPLACE])
        again = source._from_dict(made.to_dict())
        assert again == made and hash(again) == hash(made)
        return made.print_readable().replace(str(id(graph)), "graph")

    assert run(ftorch, Own, OwnAction) == run(torch, NodeSource, NodeSourceAction)


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm", "group_norm", "conv2d", "conv1d"])
def test_schemas_say_names_and_defaults(name):
    def run(t):
        found = getattr(t.ops.aten, name).default._schema.arguments
        return [(a.name, a.default_value if a.has_default_value() else None) for a in found] if t is torch else [
            (a.name, a.default_value) for a in found]

    assert run(ftorch) == run(torch)


@pytest.mark.parametrize("name", ["conv", "padded", "norm", "reshape"])
def test_exported_calls_are_pytorchs(name):
    def run(t):
        nn = t.nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = {"conv": lambda: nn.Conv2d(2, 3, 3), "padded": lambda: nn.Conv2d(2, 3, 3, padding=1),
                              "norm": lambda: nn.BatchNorm2d(2), "reshape": lambda: nn.Identity()}[name]()

            def forward(self, x):
                x = self.layer(x)
                return x.view([-1] + [1] * 3) if name == "reshape" else x

        graph = t.export.export(Model(), (t.ones(1, 2, 4, 4),)).module().graph
        return [(n.op, n.name, str(n.args).replace("ftorch", "torch")) for n in graph.nodes]

    assert run(ftorch) == run(torch)


def test_graphs_of_loops_are_called():
    def run(t):
        ops, x = t.ops.higher_order, t.arange(6.0).reshape(3, 2)
        carry, ys = ops.scan(lambda c, s: (c + s, c * s), [t.zeros(2)], [x], ())
        (sums,) = ops.associative_scan(lambda a, b: (a + b,), [x], ())
        (products,) = ops.map_impl(lambda a, b: (a * b,), [x], [t.tensor(3.0)])
        return [v.tolist() for v in (carry, ys, sums, products)]

    assert run(ftorch) == run(torch)
    assert isinstance(ftorch.ops.higher_order.scan, ftorch._ops.HigherOrderOperator)


def test_ordered_sets():
    def run(kind):
        a, b = kind([3, 1, 2]), kind([2, 5])
        return [list(v) for v in (a | b, a & b, a - b, a ^ b, a.union([9], b), a.difference([3]))] + [
            repr(a), a == kind([3, 1, 2]), a == kind([1, 2, 3]), a.pop(), list(reversed(a)), a.issuperset([3]), len(a)]

    from torch.utils._ordered_set import OrderedSet

    from ftorch.utils._ordered_set import OrderedSet as Own

    assert run(Own) == run(OrderedSet)
