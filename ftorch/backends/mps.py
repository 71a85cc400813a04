"""``torch.backends.mps``: JAX's Metal plug-in is not used, so there is never an MPS device."""


def is_built() -> bool:
    """False."""
    return False


def is_available() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of at least a version."""
    import platform

    found = platform.mac_ver()[0]
    if not found:
        return False
    return tuple(int(part) for part in found.split(".")[:2]) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13 of at least a minor version."""
    return is_macos_or_newer(13, minor)
