"""``torch._functorch``: the transforms' private modules, as far as libraries use them."""

import sys as _sys

from .._submodules import on_demand as _on_demand
from ..eager.transforms import vmap as _vmap

# One module under both names: its functions may be replaced, and are looked up where they are replaced.
vmap = _sys.modules[f"{__name__}.vmap"] = _vmap

__getattr__ = _on_demand(globals(), "_aot_autograd apis batch_norm_replacement eager_transforms functional_call")
