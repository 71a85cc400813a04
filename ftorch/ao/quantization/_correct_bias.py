"""Biases that make up for the mean error of quantized weights (``torch.ao.quantization._correct_bias``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn import quantized as nnq
from ftorch.ao.ns import _numeric_suite as ns

__all__ = ["MeanShadowLogger", "bias_correction", "get_module", "get_param", "parent_child_names"]

_supported_modules = {nn.Linear, nn.Conv2d}
_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}


def get_module(model, name):
    """The submodule of a path."""
    return dict(model.named_modules())[name]


def parent_child_names(name):
    """(the path of the module that a path's last name belongs to, that name)."""
    parent, _, child = name.rpartition(".")
    return parent, child


def get_param(module, attr):
    """An attribute, or what it gives when it is called: quantized layers have methods for weights and biases."""
    found = getattr(module, attr, None)
    return found() if callable(found) else found


class MeanShadowLogger(ns.Logger):
    """Keeps the mean of what passes through a quantized layer, and through its shadow."""

    def __init__(self):
        super().__init__()
        self.clear()

    def forward(self, x, y):  # type: ignore[override]
        """Adds a pair of results, which are of one shape."""
        if x.is_quantized:
            x = x.dequantize()
        self.count += 1
        if self.count == 1:
            self.stats["quantized"], self.stats["float"] = x, y
            self.quant_sum, self.float_sum = x, y
        else:
            self.quant_sum, self.float_sum = self.quant_sum + x, self.float_sum + y
            self.stats["quantized"] = self.quant_sum / self.count
            self.stats["float"] = self.float_sum / self.count

    def clear(self):
        """Forgets what was seen."""
        self.stats["float"] = self.stats["quantized"] = None
        self.count, self.float_sum, self.quant_sum = 0, None, None


def bias_correction(float_model, quantized_model, img_data, target_modules=_supported_modules_quantized,
                    neval_batches=None):
    """Shifts the biases of quantized layers by the mean error of their results, one layer after the other.

    Args:
        img_data: batches, tuples whose first element is the model's input.
        target_modules: the classes of layers that are corrected.
        neval_batches: how many batches are used, by default all.
    """
    ns.prepare_model_with_stubs(float_model, quantized_model, _supported_modules, MeanShadowLogger)
    targets = [name for name, module in quantized_model.named_modules() if type(module) in target_modules]
    for name in targets:
        bias = get_param(get_module(quantized_model, name), "bias")
        if bias is None:
            continue
        for count, batch in enumerate(img_data, start=1):
            quantized_model(batch[0])
            if count == neval_batches:
                break
        stats = ns.get_logger_dict(quantized_model)[parent_child_names(name)[0] + ".stats"]
        error = stats["quantized"] - stats["float"]
        others = [d for d in range(error.dim()) if d != 1]
        bias.data = bias.data - torch.mean(error, others)
        for module in quantized_model.modules():
            if isinstance(module, MeanShadowLogger):
                module.clear()
