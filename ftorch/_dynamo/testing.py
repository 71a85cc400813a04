"""Backends that count, for tests (``torch._dynamo.testing``)."""

from __future__ import annotations

import re


class CompileCounter:
    """A backend that counts graphs and the functions in them.

    >>> import ftorch as torch
    >>> from ftorch._dynamo.testing import CompileCounter
    >>> counter = CompileCounter()
    >>> f = torch.compile(torch.sin, backend=counter)
    >>> _ = f(torch.zeros(2)), f(torch.ones(2)), f(torch.zeros(3))
    >>> counter.frame_count, counter.op_count
    (2, 2)
    """

    def __init__(self):
        self.clear()

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        return gm.forward

    def clear(self):
        """Counts from zero."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend:
    """Counts, and compiles with a backend; ``graphs`` keeps what it was given."""

    def __init__(self, backend):
        self.backend = backend
        self.clear()

    def __call__(self, gm, example_inputs):
        from .backends import lookup_backend

        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self):
        """Counts from zero."""
        self.frame_count = self.op_count = 0
        self.graphs = []


class EagerAndRecordGraphs:
    """A backend that keeps the graphs and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs:
    """A backend that keeps the graphs of calls, and those of ATen's ops of both passes, and runs them."""

    def __init__(self):
        self.graphs, self.fw_graphs, self.bw_graphs = [], [], []

    def __call__(self, gm, example_inputs):
        from .backends import aot_autograd

        self.graphs.append(gm)
        backend = aot_autograd(_keeping(self.fw_graphs), _keeping(self.bw_graphs))
        return backend(gm, example_inputs)


def _keeping(graphs):
    def compiler(gm, example_inputs):
        graphs.append(gm)
        return gm

    return compiler


def normalize_gm(gm_str: str) -> str:
    """A graph's code without empty lines, comments and spaces behind lines."""
    lines = (re.sub(r"#.*$", "", line).rstrip() for line in gm_str.splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def same(ref, res, tol=1e-4, equal_nan=False, **_) -> bool:
    """Whether two nested results are close."""
    from ..eager.core import api as torch
    from ..eager.tensor import TensorBase

    if isinstance(ref, (list, tuple)):
        return len(ref) == len(res) and all(same(a, b, tol, equal_nan) for a, b in zip(ref, res))
    if isinstance(ref, dict):
        return ref.keys() == res.keys() and all(same(ref[k], res[k], tol, equal_nan) for k in ref)
    if isinstance(ref, TensorBase):
        return torch.allclose(ref, res, tol, tol, equal_nan)
    return ref == res
