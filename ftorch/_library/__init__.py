"""What ``torch.library`` is made of, under PyTorch's private names (``torch._library``)."""

from . import custom_ops, infer_schema  # noqa: F401
