"""Threads that compile, trace and script at once, and others that just compute."""

import threading

import torch as reference

import ftorch as torch
from ftorch import fx
from ftorch.eager.tensor import Tensor


def _program(x, k):
    return torch.relu(x.sin() + x.T.T * 2).sum(-1) * k


def _expected(x, k):
    x = reference.tensor(x.tolist())
    return (reference.relu(x.sin() + x.T.T * 2).sum(-1) * k).tolist()


def _compiles(k, wrong):
    graphs = []

    def backend(module, example_inputs):
        graphs.append(module)
        return module.forward

    compiled = torch.compile(lambda x: _program(x, k), backend=backend)
    for n in (2, 3):
        x = torch.arange(float(n * n)).reshape(n, n) / 10
        if not reference.allclose(reference.tensor(compiled(x).tolist()), reference.tensor(_expected(x, k))):
            wrong.append(("compile", k))
    for module in graphs:
        called = [n.target for n in module.graph.nodes]
        if called.count("sin") != 1 or called.count("sum") != 1:
            wrong.append(("graph", called))


def _traces_symbolically(k, wrong):
    for _ in range(2):
        module = fx.symbolic_trace(lambda x: _program(x, k))
        called = [n.target for n in module.graph.nodes]
        if called.count("sin") != 1 or called.count("sum") != 1 or len(called) != 10:
            wrong.append(("symbolic_trace", called))


def _traces(k, wrong):
    traced = torch.jit.trace(lambda x: _program(x, k), torch.ones(2, 2))
    x = torch.tensor([[0.5, 2.0], [3.0, -1.0]])
    if not reference.allclose(reference.tensor(traced(x).tolist()), reference.tensor(_expected(x, k))):
        wrong.append(("trace", k))


def _computes(k, wrong):
    for _ in range(100):
        x = torch.full((2, 2), float(k))
        if x.T.sin().shape != (2, 2):
            wrong.append(("eager", k))


def test_threads_that_record_at_once_leave_nothing_behind():
    names = [vars(Tensor), vars(torch), vars(torch.nn.functional), vars(torch.nn.Module)]
    torch.jit.trace(lambda x: x.sin(), torch.ones(1))  # tables are filled and lazy modules loaded
    before = [dict(scope) for scope in names]
    wrong: list = []
    work = [_compiles] * 6 + [_traces_symbolically] * 2 + [_traces] * 2 + [_computes]
    threads = [threading.Thread(target=w, args=(k, wrong)) for k, w in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for scope, was in zip(names, before):
        assert {k for k in was if scope.get(k) is not was[k]} == set()
