"""Symbolic numbers beside sympy's (``torch.utils._sympy``)."""
