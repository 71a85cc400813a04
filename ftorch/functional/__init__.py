"""Function transforms: ``vmap``, ``grad``, ``vjp``, ``jvp``, ``jacrev``, ... (``torch.func``)."""

from . import custom_function as _custom_function  # noqa: F401  (autograd.Function)
from .eager_transforms import grad, grad_and_value, jacrev, vjp
from .forward import jacfwd, jvp, linearize
from .functional_call import functional_call, stack_module_state
from .higher import debug_unwrap, functionalize, hessian
from .modules import replace_all_batch_norm_modules_
from .rearrange import rearrange
from .vmap import vmap

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip
