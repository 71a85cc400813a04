"""A JAX function of parameters as an ``nn.Module``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..autograd import no_grad
from ..eager.tensor_api.jax_interop import from_jax
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from .functions import Calls, RandomKey, is_leaf


class JaxModule(Module):
    """A function of parameters, state and inputs as a module that trains, is saved and compiled as any other.

    Args:
        apply: ``apply(params, state, *args, **kwargs)`` gives the output and the state that follows, as JAX arrays.
        params: a pytree of arrays. Those of floating or complex dtype become parameters, named by their paths
            (``dense.kernel``), others buffers.
        state: a pytree of arrays (statistics, counters, random keys) that become buffers; they change in each call to what
            ``apply`` gives.

    Shapes and dtypes are those of ``apply``. The module can be copied, and pickled where ``apply`` can be.

    >>> import ftorch as torch, jax.numpy as jnp
    >>> net = torch.interop.JaxModule(lambda p, state, x: (x @ p["w"], state), {"w": jnp.ones((3, 1))})
    >>> net(torch.ones(2, 3)).sum().backward()
    >>> net.w.grad.flatten()
    tensor([2., 2., 2.])
    """

    def __init__(self, apply: Callable, params: Any, state: Any = None):
        super().__init__()
        self._ftorch_apply = Calls(apply)
        self._ftorch_params = _Places(self, params, "", as_parameters=True)
        self._ftorch_state = _Places(self, state, "state", as_parameters=False)

    def forward(self, *args, **kwargs):
        """What the function gives for the inputs; the state becomes what it gives."""
        return self._ftorch_run(self._ftorch_apply, args, kwargs)

    def _ftorch_run(self, apply, args, kwargs):
        state = self._ftorch_state
        # Copies, since what the derivative reads must not be written to.
        output, following = apply(self._ftorch_params.tree(), state.tree(copies=True), *args, **kwargs)
        if state.names:
            state.write(following)
        return output


class _Places:
    """Where a module holds the leaves of a pytree of arrays."""

    def __init__(self, module, tree, prefix, as_parameters):
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(tree)
        self.names: list[tuple[Module, str]] = []
        self._keys = []  # the implementations of random keys
        taken: set[tuple[int, str]] = set()
        for path, leaf in leaves:
            holder, name = _holder(module, [prefix, *map(_word, path)] if prefix else list(map(_word, path)))
            while (id(holder), name) in taken or hasattr(holder, name):
                name += "_"
            taken.add((id(holder), name))
            is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            self._keys.append(jax.random.key_impl(leaf) if is_key else None)
            tensor = from_jax(jax.random.key_data(leaf) if is_key else jnp.asarray(leaf)).clone()
            if as_parameters and (tensor.is_floating_point() or tensor.is_complex()):
                holder.register_parameter(name, Parameter(tensor))
            else:
                holder.register_buffer(name, tensor)
            self.names.append((holder, name))

    def __getstate__(self):
        # In place of the structure, which cannot be pickled, a tree that has it.
        tree = jax.tree.unflatten(self._structure, range(len(self.names)))
        return self.names, self._keys, tree

    def __setstate__(self, state):
        self.names, self._keys, tree = state
        self._structure = jax.tree.structure(tree)

    def tree(self, copies=False):
        """The pytree of the tensors that are there now, or of copies of them."""
        tensors = [getattr(holder, name) for holder, name in self.names]
        if copies:
            tensors = [t.detach().clone() for t in tensors]
        return jax.tree.unflatten(self._structure, [
            t if key is None else RandomKey(t, key) for t, key in zip(tensors, self._keys)
        ])

    def write(self, tree):
        """Writes another pytree's values there.

        Raises:
            ValueError: it has another structure.
        """
        leaves, structure = jax.tree.flatten(tree, is_leaf=is_leaf)
        if len(leaves) != len(self.names):
            raise ValueError(f"the state had the structure {self._structure}, now {structure}")
        with no_grad():
            for (holder, name), leaf in zip(self.names, leaves):
                getattr(holder, name).copy_(leaf.data if isinstance(leaf, RandomKey) else leaf)


def _word(key) -> str:
    """A key of a path as a name."""
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute)).replace(".", "_").lstrip("_") or "_"
    return str(key).strip(".[]'")


def _holder(module, words):
    """The module that holds a path's last name, made on the way."""
    if not words:
        return module, "value"
    for word in words[:-1]:
        for part in word.split("/"):  # as in Haiku's names
            child = module._modules.get(part)
            if child is None:
                while hasattr(module, part):
                    part += "_"
                child = Module()
                module.add_module(part, child)
            module = child
    return module, words[-1].replace("/", "_")


__all__ = ["JaxModule"]
