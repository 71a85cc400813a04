"""``torch.cuda.amp.common``."""

import importlib.util

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is neither a GPU nor PyTorch/XLA."""
    from .. import is_available

    return not (is_available() or importlib.util.find_spec("torch_xla"))
