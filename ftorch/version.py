"""The version of ftorch, and what it was built against (``torch.version``).

``cuda``, ``hip`` and ``xpu`` are None: accelerators are found by JAX at run time.
"""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = "0.1.0"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None
