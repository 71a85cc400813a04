"""Equalization of inputs and weights of graphs: names, scales, results and calls as PyTorch's."""

import copy
import importlib

import numpy as np
import pytest
import torch

import ftorch

pytestmark = pytest.mark.filterwarnings("ignore")


def _models(t):
    nn, F = t.nn, t.nn.functional

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.relu, self.second = nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4)

        def forward(self, x):
            return self.second(self.relu(self.first(x))) + 1

    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            for name, shape in (("w", (6, 5)), ("bias", (6,)), ("v", (4, 6))):
                self.register_buffer(name, t.randn(shape))

        def forward(self, x):
            return F.linear(F.relu(F.linear(x, self.w, self.bias)), self.v)

    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(5, 4, 3), nn.Conv2d(4, 2, 3)

        def forward(self, x):
            return F.relu(self.second(F.relu(self.first(x))))

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(5, 6), nn.Linear(5, 6)

        def forward(self, x):
            return self.first(x) + self.second(x)

    return {"two": (Two, (7, 5)), "functional": (Functional, (7, 5)), "convolutions": (Convolutions, (2, 5, 8, 8)),
            "branches": (Branches, (7, 5))}


def _run(t, name, qconfig):
    q = t.ao.quantization
    fx = importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
    equalize = importlib.import_module(f"{t.__name__}.ao.quantization.fx._equalize")
    kind, shape = _models(t)[name]
    t.manual_seed(0)
    model = kind().eval()
    x = t.randn(shape) * t.arange(1, 6).float().reshape(-1, *[1] * (len(shape) - 2))
    prepared = fx.prepare_fx(
        copy.deepcopy(model), q.QConfigMapping().set_global(getattr(q, qconfig)), (x,),
        _equalization_config=q.QConfigMapping().set_global(equalize.default_equalization_qconfig),
    )
    prepared(x)
    nodes = [str(n.target) if n.op == "call_module" else n.name for n in prepared.graph.nodes]
    reference = equalize._convert_equalization_ref(copy.deepcopy(prepared))(x).detach().numpy()
    converted = fx.convert_fx(prepared)
    code = converted.code.replace("ftorch", "torch")
    return nodes, reference, converted(x).detach().numpy(), code.replace("torch", "")


@pytest.mark.parametrize("qconfig", ["default_qconfig", "default_per_channel_qconfig"])
@pytest.mark.parametrize("name", ["two", "functional", "convolutions", "branches"])
def test_models_are_equalized_as_pytorchs(name, qconfig):
    (nodes, reference, result, code), found = _run(torch, name, qconfig), _run(ftorch, name, qconfig)
    assert found[0] == nodes and found[3] == code
    np.testing.assert_allclose(found[1], reference, atol=1e-5)
    np.testing.assert_allclose(found[2], result, atol=1e-5)


def test_the_worst_layers_are_found():
    def found(t):
        q = t.ao.quantization
        fx = importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
        equalize = importlib.import_module(f"{t.__name__}.ao.quantization.fx._equalize")
        t.manual_seed(0)
        kind, shape = _models(t)["two"]
        model, x = kind().eval(), t.randn(shape)
        prepared = fx.prepare_fx(copy.deepcopy(model), q.QConfigMapping().set_global(q.default_qconfig), (x,))
        prepared(x)
        noise = equalize.get_layer_sqnr_dict(copy.deepcopy(model), fx.convert_fx(prepared), x)
        worst = equalize.get_equalization_qconfig_dict(noise, 1)["module_name"]
        return {k: round(float(v), 3) for k, v in noise.items()}, [name for name, _ in worst]

    assert found(ftorch) == found(torch)


@pytest.mark.parametrize("case", ["scheme", "shape", "instance", "columns"])
def test_errors(case):
    def results(t):
        equalize = importlib.import_module(f"{t.__name__}.ao.quantization.fx._equalize")
        try:
            if case == "scheme":
                equalize._InputEqualizationObserver(qscheme=t.per_channel_affine)
            elif case == "shape":
                equalize._InputEqualizationObserver()(t.ones(3))
            elif case == "instance":
                equalize.EqualizationQConfig(input_activation=t.nn.Identity())
            else:
                inputs, weights = equalize._InputEqualizationObserver(), equalize._WeightEqualizationObserver()
                inputs(t.ones(2, 3)), weights(t.ones(2, 4))
                equalize.calculate_equalization_scale(inputs, weights)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__, str(error)

    assert results(ftorch) == results(torch) != None  # noqa: E711
