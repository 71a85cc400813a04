"""Where libraries look for what makes backends (``torch._dynamo.backends.common``)."""

from . import aot_autograd

__all__ = ["aot_autograd"]
