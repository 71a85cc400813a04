"""Numbers that vary from call to call are inputs of a backend's graph, as in PyTorch."""

from __future__ import annotations

import pytest
import torch

import ftorch

PROGRAMS = {
    "int": ("x.sin() - n", [("torch.ones(3)", n) for n in (2, 3, 5, 31, 6)], {}),
    "float": ("x * n + n", [("torch.ones(1)", n) for n in (3.0, 4.0, 5.0)], {}),
    "item of a dict": ("x * n['scale']", [("torch.ones(1)", {"scale": n}) for n in (3, 4, 5, 9)], {}),
    "slice": ("x[:n]", [("torch.arange(10.)", n) for n in (3, 4, 5, 9)], {}),
    "size": ("x * x.shape[0] + x.size(1)", [(f"torch.ones{s}", 0) for s in ((3, 4), (5, 4), (6, 4), (6, 7), (8, 9))], {}),
    "zero and one": ("torch.zeros(n, n) + x", [("torch.ones(1)", n) for n in (3, 4, 5, 1, 0)], {}),
    "dynamic": ("x.view(-1, n) * x.shape[0]", [("torch.ones(6, 4)", 3), ("torch.ones(10, 4)", 5)], {"dynamic": True}),
    "static": ("x * x.shape[0]", [(f"torch.ones({n})", 0) for n in (3, 4, 5)], {"dynamic": False}),
    "many": ("x * n + 1", [("torch.ones(2)", n) for n in range(2, 16)], {"fullgraph": True}),
}


def _run(library, text, calls, options):
    library._dynamo.reset()
    codes, inputs = [], []

    def backend(module, given):
        codes.append(module.code)
        inputs.append([type(i).__name__ for i in given])
        return module.forward

    scope = {"torch": library}
    function = library.compile(eval(f"lambda x, n: {text}", scope), backend=backend, **options)
    values = [function(eval(x, scope), n).tolist() for x, n in calls]
    return codes, inputs, values


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_are_pytorchs(name):
    mine, theirs = (_run(library, *PROGRAMS[name]) for library in (ftorch, torch))
    assert mine == theirs


def test_a_wrong_guess_costs_a_graph_and_no_result():
    counter = ftorch._dynamo.testing.CompileCounter()
    function = ftorch.compile(lambda x: x[: x.shape[0] + 1] * x.shape[1], backend=counter)
    for shape in ((3, 4), (5, 6), (7, 9), (9, 20)):  # until the third call both sizes would explain the end
        assert function(ftorch.ones(shape)).tolist() == [[float(shape[1])] * shape[1]] * shape[0]
    assert counter.frame_count <= 3
