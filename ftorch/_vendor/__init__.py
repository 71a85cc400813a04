"""Packages that PyTorch has a copy of (``torch._vendor``): here those that are installed."""
