"""Where libraries look for backends' names (``torch._dynamo.backends.registry``)."""

from . import list_backends, lookup_backend, register_backend

__all__ = ["list_backends", "lookup_backend", "register_backend"]
