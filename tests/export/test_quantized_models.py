"""Models of quantized layers as graphs of every kind: symbolic, of compiled calls, and exported ones in files."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

import ftorch
from tests.ao.comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def _static(t):
    t.manual_seed(0)
    q = t.ao.quantization
    model = t.nn.Sequential(
        q.QuantStub(), t.nn.Conv2d(2, 3, 3), t.nn.ReLU(), t.nn.Flatten(), t.nn.Linear(12, 3), q.DeQuantStub()
    ).eval()
    model.qconfig = q.get_default_qconfig("fbgemm")
    q.prepare(model, inplace=True)
    model(t.linspace(-2, 2, 128).reshape(4, 2, 4, 4))
    return q.convert(model), t.linspace(-1, 1, 64).reshape(2, 2, 4, 4)


def _layers(t, first, last, has_state):
    class Layers(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = first, last

        def forward(self, x):
            return self.last(self.first(x)[0] if has_state else self.first(x))

    return Layers().eval()


def _dynamic(kind, dtype="qint8"):
    def made(t):
        t.manual_seed(0)
        has_state = kind != "Linear"
        layer = getattr(t.nn, kind)(5, 4, batch_first=True) if has_state else t.nn.Linear(5, 4)
        model = _layers(t, layer, t.nn.Linear(4, 3, bias=False), has_state)
        kinds = {t.nn.Linear, getattr(t.nn, kind)}
        return t.ao.quantization.quantize_dynamic(model, kinds, getattr(t, dtype)), t.linspace(-1, 1, 30).reshape(2, 3, 5)

    return made


MODELS = {
    "static": _static, "linear": _dynamic("Linear"), "lstm": _dynamic("LSTM"), "gru": _dynamic("GRU"),
    "half": _dynamic("LSTM", "float16"),
}


@pytest.mark.parametrize("name", MODELS)
def test_symbolic(name):
    """Quantized layers are steps of graphs, as other layers are."""
    def program(t):
        model, x = MODELS[name](t)
        graph = t.fx.symbolic_trace(model)
        return [(n.op, str(n.target)) for n in graph.graph.nodes], graph(x)

    assert_same(program)


@pytest.mark.parametrize("name", MODELS)
def test_compiled_by_a_backend(name):
    """Packed weights are arguments that no code says."""
    def program(t):
        model, x = MODELS[name](t)
        graphs = t.compile(model, backend="eager")
        return [graphs(x) for _ in range(3)]

    assert_same(program)


@pytest.mark.parametrize("name", [n for n in MODELS if n != "static"])
def test_exported(name):
    """Beside what the graph reads, no packed weights, dtypes or tuples come into files (PyTorch exports none of it)."""
    model, x = MODELS[name](ftorch)
    program = ftorch.export.export(model, (x,))
    assert all(isinstance(v, ftorch.Tensor) for v in program.state_dict.values())
    file = io.BytesIO()
    ftorch.export.save(program, file)
    file.seek(0)
    found = ftorch.export.load(file).module()(x)
    wanted, given = MODELS[name](torch)
    assert np.allclose(found.detach().numpy(), wanted(given).detach().numpy(), atol=1e-5)


def test_generators_are_attributes_of_graphs():
    """A generator prints no expression; it is the same one in every call."""
    drawn = []
    for t in (torch, ftorch):
        generator = t.Generator().manual_seed(3)

        def program(x, t=t, generator=generator):
            return t.bernoulli(x, generator=generator) + 1

        call = program if t is torch else t.compile(program, backend="eager")
        drawn.append([call(t.full((20,), 0.5)).tolist() for _ in range(3)])
    assert drawn[1] == drawn[0]
