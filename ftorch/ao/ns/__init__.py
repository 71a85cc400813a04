"""Comparing models in floating point with quantized ones, layer by layer (``torch.ao.ns``)."""
