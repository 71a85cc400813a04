"""Random programs by family, run in PyTorch and in ftorch: see `__main__` for how."""
