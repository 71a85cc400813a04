"""What is logged of ``torch.compile`` (``torch._logging``): also by the variable ``TORCH_LOGS``."""

from .jit.graphs.logs import set_logs

__all__ = ["set_logs"]
