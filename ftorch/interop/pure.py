"""Modules as pure functions of JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from ..eager.tensor import Tensor
from ..eager.tensor_api.jax_interop import from_jax
from ..func import functional_call
from ..nn.modules.module import Module


def as_jax(module: Module) -> tuple[Callable, dict[str, jax.Array], dict[str, jax.Array]]:
    """A module as a pure function of JAX arrays, for ``jax.jit``, ``jax.grad``, ``jax.vmap`` and ``jax.shard_map``.

    Returns:
        (``apply``, its parameters, its buffers), by their names. ``apply(params, buffers, *args, **kwargs)`` gives the
        output and the buffers that follow (statistics of batch norm), and leaves the module as it is. It does what the
        module does in the mode that it is in (``train()``, ``eval()``) when it is traced.

    >>> import ftorch as torch, jax, jax.numpy as jnp
    >>> apply, params, buffers = torch.interop.as_jax(torch.nn.Linear(3, 1))
    >>> loss = lambda params, x: apply(params, buffers, x)[0].sum()
    >>> jax.jit(jax.grad(loss))(params, jnp.ones((4, 3)))["bias"].tolist()
    [4.0]
    """
    params = {name: p.detach().jax() for name, p in module.named_parameters()}
    buffers = {name: b.detach().jax() for name, b in module.named_buffers()}

    def apply(params, buffers, *args, **kwargs) -> tuple[Any, dict[str, jax.Array]]:
        args, kwargs = jax.tree.map(_as_tensor, (args, kwargs), is_leaf=lambda v: isinstance(v, Tensor))
        held = {name: _as_tensor(b).clone() for name, b in buffers.items()}  # the module may write to them
        output = functional_call(module, {**{n: _as_tensor(p) for n, p in params.items()}, **held}, args, kwargs)
        output = jax.tree.map(_as_array, output, is_leaf=lambda v: isinstance(v, Tensor))
        return output, {name: _as_array(b) for name, b in held.items()}

    return apply, params, buffers


def _as_tensor(leaf):
    return from_jax(leaf) if isinstance(leaf, jax.Array) else leaf


def _as_array(leaf):
    return leaf.jax() if isinstance(leaf, Tensor) else leaf


__all__ = ["as_jax"]
