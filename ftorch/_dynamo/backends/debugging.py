"""Where libraries look for backends that show graphs or run them as they are (``torch._dynamo.backends.debugging``)."""

from . import (
    aot_autograd,
    eager,
    eager_noexcept,
    list_backends,
    lookup_backend,
    pre_dispatch_eager,
    register_backend,
)

__all__ = ["aot_autograd", "eager", "eager_noexcept", "list_backends", "lookup_backend", "pre_dispatch_eager",
           "register_backend"]
