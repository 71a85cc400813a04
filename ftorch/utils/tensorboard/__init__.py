"""Logs for TensorBoard (``torch.utils.tensorboard``), written with the ``tensorboard`` package.

It is an optional dependency: ``pip install 'ftorch[tensorboard]'``.
"""

try:
    import tensorboard as _tensorboard  # noqa: F401 - the check
except ImportError as error:
    raise ImportError(
        "ftorch.utils.tensorboard needs the package tensorboard: pip install 'ftorch[tensorboard]'"
    ) from error

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
