"""Processes bound to processors and their memory (``torch.numa``)."""
