"""``torch.backends.mkl``: XLA brings its own matrix products for the CPU."""


def is_available() -> bool:
    """False."""
    return False
