"""``functorch.experimental``: what moved to `torch.func` and `torch._functorch`."""

from ftorch._functorch.apis import chunk_vmap
from ftorch.func import (
    functionalize,
    hessian,
    jacfwd,
    jvp,
    replace_all_batch_norm_modules_,
)

__all__ = [
    "chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_",
]
