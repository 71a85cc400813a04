"""Layers that can be observed and quantized."""

from .rnn import LSTM, LSTMCell

__all__ = ["LSTM", "LSTMCell"]
