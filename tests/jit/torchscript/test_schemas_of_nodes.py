"""``node.schema()``: the overload of each call of a graph, as PyTorch names it."""

import linecache

import pytest
import torch

import ftorch

FUNCTION = """
def f(x, y, k: int, s: str):
    z = torch.add(x, y, alpha=2).relu() * 2
    if k > 1:
        z = z + k
    a, b = z.max(0)
    w = torch.nn.functional.linear(x, y)
    z += 1.5
    t = s == 'a'
    return torch.cat([z, a[None]], 0).view(-1), [b, b], k + 1, w.sum(dim=[0]), z[0], z[:, 1:], z.softmax(0), t
"""


def _schemas(block):
    found = []
    for node in block.nodes():
        found.append((node.kind(), node.schema()))
        for inner in node.blocks():
            found += _schemas(inner)
    return found


def _of_script(t):
    name = f"<{__name__} of {t.__name__}>"
    linecache.cache[name] = (len(FUNCTION), None, FUNCTION.splitlines(keepends=True), name)
    scope = {"torch": t, "__name__": __name__}
    exec(compile(FUNCTION, name, "exec"), scope)
    return t.jit.script(scope["f"]).graph


def _of_trace(t):
    return t.jit.trace(lambda x: (x + 1).sum(0).exp().transpose(0, 0), t.ones(2, 2)).graph


@pytest.mark.parametrize("graph", [_of_script, _of_trace])
def test_schemas_of_nodes(graph):
    assert sorted(_schemas(graph(ftorch))) == sorted(_schemas(graph(torch)))
