"""``torch.backends.mps``: JAX's Metal plug-in is not used, so there is never an MPS device."""

import importlib


def _asked(name, *args):
    return getattr(importlib.import_module(f"{__name__.removesuffix('.backends.mps')}._C"), name)(*args)


def is_built() -> bool:
    """False."""
    return False


def is_available() -> bool:
    """False, unless who tests replaces ``torch._C._mps_is_available``."""
    return _asked("_mps_is_available")


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Raises RuntimeError: there is no MPS backend to ask whether this is macOS of at least a version."""
    return _asked("_mps_is_on_macos_or_newer", major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13 of at least a minor version."""
    return is_macos_or_newer(13, minor)
