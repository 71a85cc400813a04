"""``torch.utils.cpp_backtrace``: there is no C++ of PyTorch's below a call; Python's frames say where it is."""

from __future__ import annotations

import traceback

__all__ = ["get_cpp_backtrace"]


def get_cpp_backtrace(frames_to_skip: int = 0, maximum_number_of_frames: int = 64) -> str:
    """The frames that lead here, the innermost first, one per line.

    >>> from ftorch.utils.cpp_backtrace import get_cpp_backtrace
    >>> get_cpp_backtrace(maximum_number_of_frames=1).startswith("frame #0")
    True
    """
    frames = traceback.extract_stack()[:-1][::-1][frames_to_skip:][:maximum_number_of_frames]
    return "\n".join(f"frame #{i}: {f.name} ({f.filename}:{f.lineno})" for i, f in enumerate(frames))
