"""Constant folding and matching of attributes: graphs as PyTorch's."""

from __future__ import annotations

import importlib

import pytest
import torch

import ftorch


def _modules(library):
    nn = library.nn

    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(library.ones(2))
            self.lin = nn.Linear(2, 2)

        def forward(self, x):
            return self.lin(self.w) + x + (self.w + 1)

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(library.ones(2))

        def forward(self, x):
            return x * (self.w + 1)

    return {"several": Several, "one": One}


@pytest.mark.parametrize("name", ["several", "one"])
def test_folded_graphs_are_pytorchs(name):
    found = []
    for library in (ftorch, torch):
        fold = importlib.import_module(f"{library.__name__}.fx.experimental.const_fold")
        folded = fold.split_const_subgraphs(_modules(library)[name]())
        before = folded.has_folding_been_run
        shape = tuple(folded(library.ones(2)).shape)
        text = str(folded).replace("# To see more debug info", "")
        found.append((folded.code, folded.const_subgraph_module.code, folded.fx_const_folded_attrs_name, before, shape, text,
                      folded.has_folding_been_run))
        with pytest.raises(AssertionError):
            folded.run_folding()
    assert found[0] == found[1]


class _Named(ftorch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.names = first, second
        for name in self.names:
            setattr(self, name, ftorch.nn.Parameter(ftorch.ones(2)))

    def forward(self, x):
        return x * getattr(self, self.names[0]) + getattr(self, self.names[1])


def test_attributes_of_other_names_match():
    from ftorch.fx.passes.utils.matcher_utils import SubgraphMatcher

    pattern, graph = (ftorch.fx.symbolic_trace(_Named(*names)).graph for names in ("ab", "cd"))
    assert len(SubgraphMatcher(pattern).match(graph)) == 1  # as in PyTorch, whose matcher compares no values
