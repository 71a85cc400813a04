"""Layers that PyTorch no longer has (``torch.jit.quantized``): making one says what takes its place."""

from __future__ import annotations

from .torchscript.program.modules import ScriptModule


def _former(name: str, instead: str, base: type[ScriptModule] = ScriptModule, said: str | None = None):
    def __init__(self, *args, **kwargs):  # noqa: N807
        raise RuntimeError(f"torch.jit.{said or name} is no longer supported. Please use {instead} instead.")

    return type(name, (base,), {
        "__init__": __init__, "__module__": __name__, "__doc__": f"Raises RuntimeError: use {instead} instead.",
    })


QuantizedLinear = _former("QuantizedLinear", "torch.ao.nn.quantized.dynamic.Linear")
QuantizedLinearFP16 = _former("QuantizedLinearFP16", "the torch.ao.nn.quantized.dynamic.Linear")
QuantizedRNNCellBase = _former("QuantizedRNNCellBase", "the torch.ao.nn.quantized.dynamic.RNNCell")
QuantizedRNNCell = _former("QuantizedRNNCell", "the torch.ao.nn.quantized.dynamic.RNNCell", QuantizedRNNCellBase)
QuantizedLSTMCell, QuantizedGRUCell = (
    _former(name, "the torch.ao.nn.quantized.dynamic.RNNCell", QuantizedRNNCellBase, "QuantizedRNNCellBase")
    for name in ("QuantizedLSTMCell", "QuantizedGRUCell")
)
QuantizedRNNBase = _former("QuantizedRNNBase", "the torch.ao.nn.quantized.dynamic")
QuantizedLSTM = _former("QuantizedLSTM", "the torch.ao.nn.quantized.dynamic.LSTM", QuantizedRNNBase)
QuantizedGRU = _former("QuantizedGRU", "the torch.ao.nn.quantized.dynamic.GRU", QuantizedRNNBase)


def _former_function(name: str):
    def function(module, dtype=None):
        raise RuntimeError(
            f"{name} function is no longer supported. Please use torch.ao.quantization.quantize_dynamic API instead."
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises RuntimeError: use ``torch.ao.quantization.quantize_dynamic`` instead."
    return function


quantize_rnn_cell_modules = _former_function("quantize_rnn_cell_modules")
quantize_linear_modules = _former_function("quantize_linear_modules")
quantize_rnn_modules = _former_function("quantize_rnn_modules")
