"""``torch._inductor.exc``."""


class InductorError(RuntimeError):
    """What compiling raised; XLA's own errors come as they are."""
