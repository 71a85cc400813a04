"""Traces with known shapes, merging of equal calls, and copies of tracers, as PyTorch has them."""

import copy
import importlib

import torch as reference

import ftorch


def _module(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = lib.nn.Linear(4, 6), lib.nn.Sequential(lib.nn.ReLU(), lib.nn.Linear(6, 2))

        def forward(self, x, y):
            rows = x.shape[0] * x.size(1)
            h = lib.relu(self.first(x)).reshape(rows, -1)
            h = h + y.view(-1)[: x.shape[0] * 3]
            return self.second(h).reshape(x.shape[0], x.shape[1], -1) * len(x.shape)

    return Net()


def test_meta_tracer():
    codes = []
    for lib, root in ((reference, "torch"), (ftorch, "ftorch")):
        tracer = importlib.import_module(f"{root}.fx.experimental.meta_tracer")
        meta = {"x": lib.rand(2, 3, 4, device="meta"), "y": lib.rand(2, 3, device="meta")}
        module = tracer.symbolic_trace(_module(lib), meta)
        codes.append(module.code.strip())
        assert module(lib.ones(2, 3, 4), lib.ones(2, 3)).shape == (2, 3, 2)
    assert codes[0] == codes[1]


def _twice(lib):
    return lambda x: lib.sin(x) + lib.sin(x) * lib.cos(x)


def test_cse_pass_makes_a_module_of_its_own():
    found = []
    for lib, root in ((reference, "torch"), (ftorch, "ftorch")):
        cse = importlib.import_module(f"{root}.fx.passes.dialect.common.cse_pass")
        graph = lib.fx.symbolic_trace(_twice(lib))
        result = cse.CSEPass(banned_ops=cse.get_CSE_banned_ops())(graph)
        kept = cse.CSEPass(banned_ops={lib.sin})(graph)
        found.append((
            len(graph.graph.nodes), len(result.graph_module.graph.nodes), result.modified,
            result.graph_module is graph, len(kept.graph_module.graph.nodes), kept.modified,
        ))
    assert found[0] == found[1]


def test_tracers_are_copied():
    tracer = copy.deepcopy(ftorch.fx.Tracer())
    assert len(tracer.trace(lambda x: ftorch.relu(x) + 1).nodes) == 4
