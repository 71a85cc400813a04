"""``functorch``: the function transforms under their first name (now `torch.func`).

Top-level under the alias, where a relative import could not leave it: imports are absolute here.
"""

import ftorch as torch  # noqa: F401
from ftorch._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from ftorch.func import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)
from ftorch.fx.experimental.proxy_tensor import make_fx
from ftorch.version import __version__

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional",
    "make_functional_with_buffers", "make_fx", "vjp", "vmap", "__version__",
]
