"""``torch._library.infer_schema``."""

from ..library._schema import infer_schema  # noqa: F401
