"""One worker that is a program."""

from .handlers import get_subprocess_handler
from .subprocess_handler import SubprocessHandler

__all__ = ["SubprocessHandler", "get_subprocess_handler"]
