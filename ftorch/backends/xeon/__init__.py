"""``torch.backends.xeon``: a launcher for Intel's processors."""
