"""How much launchers say."""

__all__ = ["get_log_level"]


def get_log_level() -> str:
    """``WARNING``: overridden by the environment variable ``LOGLEVEL``."""
    return "WARNING"
