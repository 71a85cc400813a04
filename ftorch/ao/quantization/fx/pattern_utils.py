"""Patterns, the longest first (``torch.ao.quantization.fx.pattern_utils``)."""

from __future__ import annotations

import copy
from collections import OrderedDict

from ftorch.ao.quantization.fake_quantize import FixedQParamsFakeQuantize

__all__ = [
    "get_default_fusion_patterns",
    "get_default_output_activation_post_process_map",
    "get_default_quant_patterns",
]

QuantizeHandler = object

_DEFAULT_FUSION_PATTERNS: dict = OrderedDict()
_DEFAULT_QUANTIZATION_PATTERNS: dict = OrderedDict()
_DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP: dict = {}
_DEFAULT_OUTPUT_OBSERVER_MAP: dict = {}


def _register_fusion_pattern(pattern):
    def insert(fn):
        _DEFAULT_FUSION_PATTERNS[pattern] = fn
        return fn

    return insert


def get_default_fusion_patterns() -> dict:
    """The patterns that were registered to be joined."""
    return copy.copy(_DEFAULT_FUSION_PATTERNS)


def _register_quant_pattern(pattern, fixed_qparams_observer=None):
    def insert(fn):
        _DEFAULT_QUANTIZATION_PATTERNS[pattern] = fn
        if fixed_qparams_observer is not None:
            fake = FixedQParamsFakeQuantize.with_args(observer=fixed_qparams_observer)
            _DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP[pattern] = fake
            _DEFAULT_OUTPUT_OBSERVER_MAP[pattern] = fixed_qparams_observer
        return fn

    return insert


def get_default_quant_patterns() -> dict:
    """The patterns that were registered to be quantized."""
    return copy.copy(_DEFAULT_QUANTIZATION_PATTERNS)


def get_default_output_activation_post_process_map(is_training) -> dict:
    """The observers (in training, fake quantizers) that were registered with patterns."""
    return copy.copy(_DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP if is_training else _DEFAULT_OUTPUT_OBSERVER_MAP)


def _length(pattern) -> int:
    return sum(map(_length, pattern)) if isinstance(pattern, tuple) else 1


def _sorted_patterns_dict(patterns_dict: dict) -> dict:
    """Patterns of more calls before those of fewer."""
    ordered = sorted(patterns_dict.items(), key=lambda item: -_length(item[0]) if isinstance(item[0], tuple) else 1)
    return OrderedDict(ordered)
