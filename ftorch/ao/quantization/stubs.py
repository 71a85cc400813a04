"""Where tensors become quantized and floating again (``torch.ao.quantization.stubs``)."""

from __future__ import annotations

from ...eager.bindings.constructors import own_constructors
from ...nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(Module):
    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class QuantStub(_Stub):
    """The place where a model's input becomes quantized: an identity until the model is converted.

    >>> import ftorch as torch
    >>> torch.ao.quantization.QuantStub()(torch.ones(2))
    tensor([1., 1.])
    """


class DeQuantStub(_Stub):
    """The place where a model's result becomes floating-point again."""


class QuantWrapper(Module):
    """A module between the two stubs."""

    quant: QuantStub
    dequant: DeQuantStub

    def __init__(self, module):
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X):
        return self.dequant(self.module(self.quant(X)))

own_constructors([DeQuantStub, QuantStub])
