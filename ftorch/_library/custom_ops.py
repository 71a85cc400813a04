"""``torch._library.custom_ops``."""

from ..library._custom_op import CustomOpDef, custom_op  # noqa: F401
