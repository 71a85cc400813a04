"""What a compiled function leaves behind: parameters of lazy modules, nothing of its first call's arguments."""

import gc
import weakref

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_same


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_arguments_are_freed_with_the_call(backend):
    compiled = ft.compile(lambda x: x + x, backend=backend)
    x = ft.rand(4)
    seen = weakref.ref(x)
    compiled(x)
    compiled(x)
    gc.disable()
    try:
        del x
        assert seen() is None
    finally:
        gc.enable()


def lazy_modules(torch):
    nn = torch.nn

    class Lists(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def initialize_parameters(self, given):
            with torch.no_grad():
                self.extra = nn.Parameter(torch.empty(given[0].shape).fill_(0.5))

        def forward(self, given):
            return sum(given) + self.extra

    class Broken(nn.modules.lazy.LazyModuleMixin, nn.Linear):
        def __init__(self):
            super().__init__(1, 2)
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, x):
            torch._dynamo.graph_break()
            with torch.no_grad():
                self.weight.materialize((2, x.shape[-1]))
                self.weight.fill_(2.0)
                self.bias.fill_(1.0)

    return Lists(), Broken()


def of_lazy(torch, number, fullgraph):
    torch._dynamo.reset()
    module = lazy_modules(torch)[number]
    x = torch.arange(3.0)
    given = [x, x + 1] if number == 0 else x
    compiled = torch.compile(module, backend="eager", fullgraph=fullgraph)
    results = [compiled(given) for _ in range(3)]
    return [*results, *module.parameters()]


@pytest.mark.parametrize("number, fullgraph", [(0, True), (0, False), (1, False)])
def test_lazy_modules_keep_what_their_first_call_gave_them(number, fullgraph):
    found, wanted = of_lazy(ft, number, fullgraph), of_lazy(pt, number, fullgraph)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert_same(a.detach(), b.detach())


def test_an_optimizer_of_large_parameters_with_a_backend():
    model = ft.nn.Linear(1500, 1500, bias=False)
    optimizer = ft.optim.SGD(model.parameters(), lr=0.5)
    step = ft.compile(lambda: optimizer.step(), backend="eager")
    before = model.weight.detach().clone()
    for _ in range(2):
        optimizer.zero_grad()
        model(ft.ones(1500)).sum().backward()
        step()
    assert ft.allclose(model.weight, before - 1.0)
