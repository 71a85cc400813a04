"""The package ``packaging`` by the name that PyTorch's copy has (``torch._vendor.packaging``)."""

from . import version

__all__ = ["version"]
