"""Modules as pure functions of JAX arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..eager.core.jax_internals import is_top_level
from ..eager.tensor import Tensor
from ..eager.tensor_api.jax_interop import from_jax
from ..eager.transforms.dual import Dual, dual
from ..func import functional_call
from ..functional.tracing import TraceLevel
from ..nn.modules.module import Module


def as_jax(module: Module) -> tuple[Callable, dict[str, jax.Array], dict[str, jax.Array]]:
    """A module as a pure function of JAX arrays, for ``jax.jit``, ``jax.grad``, ``jax.vmap`` and ``jax.shard_map``.

    Returns:
        (``apply``, its parameters, its buffers), by their names. ``apply(params, buffers, *args, **kwargs)`` gives the
        output and the buffers that follow (statistics of batch norm), and leaves the module as it is. It does what the
        module does in the mode that it is in (``train()``, ``eval()``) when it is traced. What it draws (dropout) is made
        of ``rng``, a key of JAX's; inside a transformation of JAX's nothing can be drawn without one.

    >>> import ftorch as torch, jax, jax.numpy as jnp
    >>> apply, params, buffers = torch.interop.as_jax(torch.nn.Linear(3, 1))
    >>> loss = lambda params, x: apply(params, buffers, x)[0].sum()
    >>> jax.jit(jax.grad(loss))(params, jnp.ones((4, 3)))["bias"].tolist()
    [4.0]
    """
    params = {name: p.detach().jax() for name, p in module.named_parameters()}
    buffers = {name: b.detach().jax() for name, b in module.named_buffers()}

    def apply(params, buffers, *args, rng=None, **kwargs) -> tuple[Any, dict[str, jax.Array]]:
        level = None if rng is None and is_top_level() else _Drawing(rng)
        enter = (lambda t: t) if level is None else lambda t: dual(level, t, None)
        leave = (lambda t: t) if level is None else level._primal
        with contextlib.nullcontext() if level is None else level:
            args, kwargs = jax.tree.map(lambda v: enter(_as_tensor(v)), (args, kwargs), is_leaf=_is_tensor)
            held = {name: enter(_as_tensor(b).clone()) for name, b in buffers.items()}  # the module may write to them
            given = {name: enter(_as_tensor(p)) for name, p in params.items()}
            output = functional_call(module, {**given, **held}, args, kwargs)
            output = jax.tree.map(lambda v: _as_array(leave(v)), output, is_leaf=_is_tensor)
            return output, {name: _as_array(leave(b)) for name, b in held.items()}

    return apply, params, buffers


class _Drawing(TraceLevel):
    """Draws from a seed that is made of a key; other tensors are what they are."""

    def __init__(self, key):
        # Not of 64 bits: whoever transforms the function may have none.
        super().__init__(seed=None if key is None else jax.random.bits(key, dtype=np.uint32))

    def _primal(self, t):
        return t._inner if isinstance(t, Dual) and t._ftorch_level is self else t

    def random(self, kind, function, args, kwargs):
        if self.seed is None:
            raise RuntimeError(
                "the module draws random numbers, which would be the same in each call of what JAX makes of this function: "
                "give rng=key, or put the module into evaluation mode"
            )
        return super().random(kind, function, args, kwargs)


def _is_tensor(value):
    return isinstance(value, Tensor)


def _as_tensor(leaf):
    return from_jax(leaf) if isinstance(leaf, jax.Array) else leaf


def _as_array(leaf):
    return leaf.jax() if isinstance(leaf, Tensor) else leaf


__all__ = ["as_jax"]
