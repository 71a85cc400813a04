"""Quantized models as TorchScript: PyTorch's files give the same results here, and go back to PyTorch."""

import importlib
import io
import linecache
import pickle
import re

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


class OwnSum(ftorch.nn.Module):
    def __init__(self):
        super().__init__()
        q = ftorch.ao.quantization
        self.conv, self.quant, self.dequant = ftorch.nn.Conv2d(3, 3, 1), q.QuantStub(), q.DeQuantStub()
        self.sum = ftorch.ao.nn.quantized.FloatFunctional()

    def forward(self, x):
        x = self.quant(x)
        return self.dequant(self.sum.add(self.conv(x), x))


def _recurrent(t, kind):
    class Recurrent(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = getattr(t.nn, kind)(8, 6, num_layers=2, bidirectional=True)

        def forward(self, x):
            return self.lstm(x)[0]

    return Recurrent()


def _static(t, model, x):
    q = t.ao.quantization
    model.eval().qconfig = q.get_default_qconfig("x86")
    prepared = q.prepare(model)
    prepared(x)
    return q.convert(prepared), (x,)


def _dynamic(t, model, x, dtype="qint8"):
    kinds, dtype = {t.nn.Linear, t.nn.LSTM, t.nn.GRU}, getattr(t, dtype)
    return t.ao.quantization.quantize_dynamic(model.eval(), kinds, dtype=dtype), (x,)


def _linears(t):
    return t.nn.Sequential(t.nn.Linear(8, 16), t.nn.ReLU(), t.nn.Linear(16, 4))


def _convolutions(t):
    return t.nn.Sequential(t.nn.Conv2d(3, 8, 3), t.nn.ReLU(), t.nn.Conv2d(8, 4, 3, stride=2))


def _graph(t):
    q, fx = t.ao.quantization, importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
    x, model = t.randn(5, 8), _linears(t).eval()
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    return fx.convert_fx(prepared), (x,)


def _bags(t):
    model = t.nn.ModuleDict({"bag": t.nn.EmbeddingBag(10, 8)})["bag"].eval()
    wrapped = t.nn.Sequential(model)
    model.qconfig = t.ao.quantization.qconfig.float_qparams_weight_only_qconfig
    t.ao.quantization.prepare(wrapped, inplace=True)
    return t.ao.quantization.convert(wrapped), (t.randint(0, 10, (3, 4)),)


def _wrapped(t, model):
    return t.ao.quantization.QuantWrapper(model)


MODELS = {
    "dynamic": lambda t: _dynamic(t, _linears(t), t.randn(5, 8)),
    "half": lambda t: _dynamic(t, _linears(t), t.randn(5, 8), "float16"),
    "lstm": lambda t: _dynamic(t, _recurrent(t, "LSTM"), t.randn(4, 2, 8)),
    "gru": lambda t: _dynamic(t, _recurrent(t, "GRU"), t.randn(4, 2, 8)),
    "half lstm": lambda t: _dynamic(t, _recurrent(t, "LSTM"), t.randn(4, 2, 8), "float16"),
    "linear": lambda t: _static(t, _wrapped(t, _linears(t)), t.randn(5, 8)),
    "conv": lambda t: _static(t, _wrapped(t, _convolutions(t)), t.randn(2, 3, 9, 9)),
    "conv1d": lambda t: _static(t, _wrapped(t, t.nn.Conv1d(3, 4, 3)), t.randn(2, 3, 9)),
    "sum": lambda t: _static(t, Sum() if t is torch else OwnSum(), t.randn(2, 3, 5, 5)),
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
    for known in [key for key in linecache.cache if key.startswith("<eval_with_key>")]:
        del linecache.cache[known]  # sources of ftorch's graphs go by the same names, and PyTorch's would not be read
    torch.manual_seed(0)
    model, inputs = MODELS[name](torch)
    with torch.no_grad():
        compiled = torch.jit.script(model) if how == "script" else torch.jit.trace(model, inputs)
        expected = model(*inputs)
    loaded = ftorch.jit.load(_file(compiled))
    found = loaded(*[ftorch.tensor(x.numpy()) for x in inputs])
    torch.testing.assert_close(torch.tensor(found.detach().numpy()), expected, rtol=1e-5, atol=1e-6)
    back = torch.jit.load(_file(loaded))
    torch.testing.assert_close(back(*inputs), expected)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", ["script", "trace"])
def test_own_files(name, how):
    ftorch.manual_seed(0)
    model, inputs = MODELS[name](ftorch)
    with ftorch.no_grad():
        compiled = ftorch.jit.script(model) if how == "script" else ftorch.jit.trace(model, inputs)
        expected = model(*inputs)
    file = _file(compiled)
    for found in (compiled(*inputs), ftorch.jit.load(file)(*inputs)):
        ftorch.testing.assert_close(found, expected)
    file.seek(0)
    found = torch.jit.load(file)(*[torch.tensor(x.numpy()) for x in inputs])
    torch.testing.assert_close(found, torch.tensor(expected.detach().numpy()), rtol=1e-5, atol=1e-6)


def test_states_that_are_none():
    from ftorch._quantized._script_states import CLASSES, restored

    for name in CLASSES:
        for state in ((), (1, 2), ("2", [], []), [], ("2", [torch.zeros(1), 3], [None])):
            with pytest.raises((RuntimeError, IndexError, TypeError, AttributeError, pickle.UnpicklingError)):
                restored(name, state)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_traced_recurrent_layers_are_one_step(kind):
    x = torch.randn(4, 3, 8)
    graphs = []
    for t in (torch, ftorch):
        model, _ = _dynamic(t, _recurrent(t, kind), None)
        graphs.append(t.jit.trace(model, t.tensor(x.numpy())).inlined_graph)
    lines = [[line for line in str(graph).splitlines() if "quantized_" in line] for graph in graphs]
    assert len(lines[0]) == len(lines[1]) == 1
    types = [re.findall(r"Float\(.*?\)", line[0].partition(" = ")[0]) for line in lines]
    assert types[0] == types[1]


def test_traced_recurrent_layers_take_other_batches():
    model, _ = _dynamic(ftorch, _recurrent(ftorch, "LSTM"), None)
    traced = ftorch.jit.trace(model, ftorch.randn(4, 3, 8))
    x = ftorch.randn(6, 5, 8)
    ftorch.testing.assert_close(traced(x), model(x))
