"""The version of ftorch, and what it was built against (``torch.version``).

Programs decide by ``torch.__version__`` what they may call, so it is that of the PyTorch whose behaviour
this is; ftorch's own version is its local part. ``cuda``, ``hip`` and ``xpu`` are None: accelerators are
found by JAX at run time.
"""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

ftorch_version = "0.1.0"
__version__ = f"2.13.0+ftorch{ftorch_version}"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None
