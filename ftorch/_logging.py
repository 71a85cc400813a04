"""What is logged of ``torch.compile`` (``torch._logging``): also by the variable ``TORCH_LOGS``."""

from ._dynamo.logs import set_logs

__all__ = ["set_logs"]
