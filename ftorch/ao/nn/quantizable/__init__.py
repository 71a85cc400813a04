"""Layers that can be observed and quantized (``torch.ao.nn.quantizable``)."""

from .modules import LSTM, LSTMCell

__all__ = ["LSTM", "LSTMCell"]
