"""Kept empty, as PyTorch has it (``torch.contrib``)."""
