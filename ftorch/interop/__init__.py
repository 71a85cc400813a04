"""JAX's world, both ways: JAX functions and the modules of its libraries on tensors, modules as pure functions of arrays.

    net = ftorch.interop.from_flax(flax_module)          # an nn.Module; from_equinox and from_haiku, too
    f = ftorch.interop.on_tensors(jax_function)          # tensors in, tensors out, with gradients
    apply, params, buffers = ftorch.interop.as_jax(net)  # a pure function for jax.jit, grad, vmap, shard_map

PyTorch has no counterpart. The libraries are imported when a module of theirs is given.
"""

from .functions import on_tensors
from .libraries import from_equinox, from_flax, from_haiku
from .modules import JaxModule
from .pure import as_jax

__all__ = ["JaxModule", "as_jax", "from_equinox", "from_flax", "from_haiku", "on_tensors"]
