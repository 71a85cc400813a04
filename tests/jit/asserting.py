"""Functions with ``assert``: pytest rewrites those in files of tests."""


def assertions(m):
    """Of tensors of a library `m`."""

    def plain(x):
        assert (x > 0).all()
        return x + 1

    def said(x):
        assert x.sum() > 0, "bad sum"
        x.add_(1)
        return x * 2

    def computed(x):
        assert (x > 0).all(), f"bad {tuple(x.shape)}"
        return x + 1

    return plain, said, computed
