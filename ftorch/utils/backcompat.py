"""Warnings about broadcasting and ``keepdim`` as they were before 0.2 (``torch.utils.backcompat``)."""


class Warning:
    """A switch that is remembered: what it warned of is long gone."""

    def __init__(self):
        self.enabled = False


broadcast_warning = Warning()
keepdim_warning = Warning()
