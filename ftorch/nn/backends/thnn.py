"""A name in old pickles (``torch.nn.backends.thnn``)."""


def _get_thnn_function_backend() -> None:
    """None: what old pickles of modules refer to."""
