"""Function transforms: ``vmap``, ``grad``, ``vjp``, ``jvp``, ``jacrev``, ... (``torch.func``).

The names of PyTorch's module ``torch.functional`` (``einsum``, ``stft``, ...) are found here, too.
"""

from ..eager.core import api as _api
from ..eager.tensor import Tensor as Tensor
from ..eager.transforms.eager_transforms import grad, grad_and_value, jacrev, vjp
from ..eager.transforms.forward import jacfwd, jvp, linearize
from ..eager.transforms.functional_call import functional_call, stack_module_state
from ..eager.transforms.vmap import vmap
from .higher import debug_unwrap, functionalize, hessian
from .modules import replace_all_batch_norm_modules_
from .rearrange import rearrange

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_",
    "stack_module_state", "vjp", "vmap",
]

# The names of torch.functional, which the top level has.
_TOP_LEVEL = frozenset({
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm",
    "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
})


def __getattr__(name):
    if name in _TOP_LEVEL:
        return getattr(_api, name)
    if name == "F":  # programs write ``torch.functional.F.relu``
        from ..nn import functional

        return functional
    raise AttributeError(f"module 'ftorch.functional' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_TOP_LEVEL})
