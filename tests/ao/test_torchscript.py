"""Quantized models as TorchScript: PyTorch's files give the same results here, and go back to PyTorch."""

import importlib
import io
import pickle

import pytest
import torch

import ftorch

pytestmark = pytest.mark.filterwarnings("ignore")


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        q = torch.ao.quantization
        self.conv, self.quant, self.dequant = torch.nn.Conv2d(3, 3, 1), q.QuantStub(), q.DeQuantStub()
        self.sum = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x):
        x = self.quant(x)
        return self.dequant(self.sum.add(self.conv(x), x))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(8, 6, num_layers=2)

    def forward(self, x):
        return self.lstm(x)[0]


def _static(model, x):
    q = torch.ao.quantization
    model.eval().qconfig = q.get_default_qconfig("x86")
    prepared = q.prepare(model)
    prepared(x)
    return q.convert(prepared), (x,)


def _dynamic(model, x, dtype=torch.qint8):
    kinds = {torch.nn.Linear, torch.nn.LSTM}
    return torch.ao.quantization.quantize_dynamic(model.eval(), kinds, dtype=dtype), (x,)


def _linears():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def _convolutions():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3, stride=2))


def _graph():
    q, fx = torch.ao.quantization, importlib.import_module("torch.ao.quantization.quantize_fx")
    x, model = torch.randn(5, 8), _linears().eval()
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    return fx.convert_fx(prepared), (x,)


def _bags():
    model = torch.nn.ModuleDict({"bag": torch.nn.EmbeddingBag(10, 8)})["bag"].eval()
    wrapped = torch.nn.Sequential(model)
    model.qconfig = torch.ao.quantization.qconfig.float_qparams_weight_only_qconfig
    torch.ao.quantization.prepare(wrapped, inplace=True)
    return torch.ao.quantization.convert(wrapped), (torch.randint(0, 10, (3, 4)),)


def _wrapped(model):
    return torch.ao.quantization.QuantWrapper(model)


MODELS = {
    "dynamic": lambda: _dynamic(_linears(), torch.randn(5, 8)),
    "half": lambda: _dynamic(_linears(), torch.randn(5, 8), torch.float16),
    "lstm": lambda: _dynamic(Recurrent(), torch.randn(4, 2, 8)),
    "linear": lambda: _static(_wrapped(_linears()), torch.randn(5, 8)),
    "conv": lambda: _static(_wrapped(_convolutions()), torch.randn(2, 3, 9, 9)),
    "conv1d": lambda: _static(_wrapped(torch.nn.Conv1d(3, 4, 3)), torch.randn(2, 3, 9)),
    "sum": lambda: _static(Sum(), torch.randn(2, 3, 5, 5)),
    "graph": _graph,
    "bags": _bags,
}


def _file(module):
    file = io.BytesIO()
    (torch if isinstance(module, torch.nn.Module) else ftorch).jit.save(module, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", ["script", "trace"])
def test_files_of_pytorch(name, how):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    with torch.no_grad():
        compiled = torch.jit.script(model) if how == "script" else torch.jit.trace(model, inputs)
        expected = model(*inputs)
    loaded = ftorch.jit.load(_file(compiled))
    found = loaded(*[ftorch.tensor(x.numpy()) for x in inputs])
    torch.testing.assert_close(torch.tensor(found.detach().numpy()), expected, rtol=1e-5, atol=1e-6)
    back = torch.jit.load(_file(loaded))
    torch.testing.assert_close(back(*inputs), expected)


def test_states_that_are_none():
    from ftorch._quantized._script_states import CLASSES, restored

    for name in CLASSES:
        for state in ((), (1, 2), ("2", [], []), [], ("2", [torch.zeros(1), 3], [None])):
            with pytest.raises((RuntimeError, IndexError, TypeError, AttributeError, pickle.UnpicklingError)):
                restored(name, state)
