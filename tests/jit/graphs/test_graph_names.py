"""What nodes of graphs for backends are called, and what they say of where they come from, as in PyTorch."""

from __future__ import annotations

import re

import pytest
import torch as pt
import torch._dynamo.testing

import ftorch as ft
import ftorch._dynamo.testing


def module(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.l = torch.nn.Linear(3, 4)
            self.register_buffer("s", torch.ones(4))
            self.blocks = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

        def forward(self, x):
            x = self.l(x) + self.s
            return self.blocks(x) * 2

    return Net(), torch.ones(2, 3)


def variables(torch):
    def returned(t):
        return t.sin()

    def stored(t):
        q = t.cos()
        return q

    def function(x, y):
        a = b = x + y
        c, d = torch.split(x, 1)
        e, z = returned(x), stored(x)
        parts = [x.exp(), x.tan()]
        m = parts[0]
        for r in [x.abs(), y.abs()]:
            m = m + r
        x += 1
        w = x.neg()

        def inner():
            return w + 1

        n, o = x.max(0)
        p, s = x.cosh(), y.cosh()
        return a, b, c, d, e, z, m, inner(), n, o, p, s, [j.sinh() for j in (x, y)], returned(stored(x))

    return function, torch.ones(2, 2), torch.ones(2, 2)


def layers(torch):
    def function(x, w):
        h = torch.nn.functional.gelu(torch.nn.functional.linear(x, w))
        h = torch.einsum("ij,ij->i", h, h)
        return torch.nn.functional.softplus(h)

    return function, torch.ones(2, 3), torch.ones(4, 3)


def graph(torch, program):
    torch._dynamo.reset()
    backend = torch._dynamo.testing.EagerAndRecordGraphs()
    function, *args = program(torch)
    torch.compile(function, backend=backend)(*args)
    return backend.graphs[0]


def described(node):
    trace = re.findall(r"line (\d+), in (\w+)", node.stack_trace or "") if node.op != "placeholder" else None
    stack = [(name, kind.__name__) for name, kind in node.meta.get("nn_module_stack", {}).values()]
    sources = [(name, getattr(f, "__name__", f)) for name, f in node.meta.get("source_fn_stack", ())]
    return node.name, trace, stack if node.op != "placeholder" else [], sources


@pytest.mark.parametrize("program", [module, variables, layers], ids=lambda p: p.__name__)
def test_names(program):
    mine, theirs = graph(ft, program), graph(pt, program)
    assert mine.code.strip() == theirs.code.strip()
    assert [described(n) for n in mine.graph.nodes] == [described(n) for n in theirs.graph.nodes]


def test_names_of_sizes():
    def sizes(torch):
        class Join(torch.nn.Module):
            def forward(self, a, b, c):
                return torch.cat([a, b, c[0]], 0), a.shape[0]

        d, e = torch.export.Dim("d"), torch.export.Dim("e")
        args = torch.ones(4, 2), torch.ones(4, 2), [torch.ones(5, 2)]
        exported = torch.export.export(Join(), args, dynamic_shapes=({0: d}, {0: d}, [{0: e}]))
        nodes = [n.name for n in exported.graph.nodes]
        return nodes, {str(k): str(v) for k, v in exported.range_constraints.items()}

    assert sizes(ft) == sizes(pt)
