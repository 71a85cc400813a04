"""Layers that can be observed and quantized (``torch.ao.nn.quantizable``)."""

from .modules import LSTM, LSTMCell, MultiheadAttention

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]
