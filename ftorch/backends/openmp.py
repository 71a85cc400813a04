"""``torch.backends.openmp``: XLA has a thread pool of its own."""


def is_available() -> bool:
    """False."""
    return False
