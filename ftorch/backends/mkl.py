"""``torch.backends.mkl``: XLA brings its own matrix products for the CPU."""

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False."""
    return False


class verbose:
    """A block in which PyTorch's MKL or oneDNN say what they do: they are not here, and nothing is said."""

    def __init__(self, enable):
        self.enable = enable

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False
