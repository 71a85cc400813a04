"""``functorch``: the function transforms under their first name (now `torch.func`), which warn that it is that.

Top-level under the alias, where a relative import could not leave it: imports are absolute here.
"""

import functools as _functools
import warnings as _warnings

import ftorch as torch  # noqa: F401
from ftorch import func as _func
from ftorch._functorch import make_functional as _make
from ftorch._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers
from ftorch.fx.experimental.proxy_tensor import make_fx
from ftorch.version import __version__

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional",
    "make_functional_with_buffers", "make_fx", "vjp", "vmap", "__version__",
]


def _first_name(function, name, today):
    """A function that says that its name is another one today."""
    text = (
        "We've integrated functorch into PyTorch. As the final step of the integration, "
        f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. "
        f"Please use `torch.{today}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for "
        "more details https://pytorch.org/docs/main/func.migrating.html"
    )

    @_functools.wraps(function)
    def called(*args, **kwargs):
        _warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return called


functionalize = _first_name(_func.functionalize, "functionalize", "func.functionalize")
grad = _first_name(_func.grad, "grad", "func.grad")
grad_and_value = _first_name(_func.grad_and_value, "grad_and_value", "func.grad_and_value")
hessian = _first_name(_func.hessian, "hessian", "func.hessian")
jacfwd = _first_name(_func.jacfwd, "jacfwd", "func.jacfwd")
jacrev = _first_name(_func.jacrev, "jacrev", "func.jacrev")
jvp = _first_name(_func.jvp, "jvp", "func.jvp")
vjp = _first_name(_func.vjp, "vjp", "func.vjp")
vmap = _first_name(_func.vmap, "vmap", "vmap")
make_functional = _first_name(_make.make_functional, "make_functional", "func.functional_call")
make_functional_with_buffers = _first_name(
    _make.make_functional_with_buffers, "make_functional_with_buffers", "func.functional_call"
)
combine_state_for_ensemble = _first_name(
    _make.combine_state_for_ensemble, "combine_state_for_ensemble", "func.stack_module_state"
)
