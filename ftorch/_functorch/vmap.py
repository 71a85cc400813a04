"""``torch._functorch.vmap``."""

from ..functional.batching import is_batchedtensor  # noqa: F401
from ..functional.vmap import vmap, vmap_impl  # noqa: F401

in_dims_t = int | tuple
out_dims_t = int | tuple[int, ...]
