"""Modules of Flax, Equinox and Haiku as ``nn.Module``s."""

from __future__ import annotations

from typing import Any

from .functions import Calls
from .modules import JaxModule


class _ByMode(JaxModule):
    """A module whose function is another one in training than in evaluation.

    Args:
        functions: {whether it trains: ``apply``}.
    """

    def __init__(self, functions, params, state):
        super().__init__(functions[True], params, state)
        self._ftorch_functions = {True: self._ftorch_apply, False: Calls(functions[False])}

    def forward(self, *args, **kwargs):
        """See `JaxModule.forward`."""
        return self._ftorch_run(self._ftorch_functions[self.training], args, kwargs)


def from_flax(module: Any, variables: Any = None, *, method: str = "__call__") -> JaxModule:
    """A module of Flax as an ``nn.Module``.

    Args:
        module: of NNX; it is copied, and follows ``train()`` and ``eval()``. Or of Linen, with its ``variables``
            (``module.init(key, x)``); its statistics change in calls with ``mutable=True``, and ``rngs={"dropout": key}``
            is passed on.
        method: the name of the method that is called.

    Raises:
        TypeError: for anything else.

    >>> import ftorch as torch
    >>> from flax import nnx
    >>> net = torch.interop.from_flax(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
    >>> [(name, tuple(p.shape)) for name, p in net.named_parameters()]
    [('bias', (2,)), ('kernel', (3, 2))]
    >>> net(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    import flax.linen
    from flax import nnx

    if isinstance(module, nnx.Module):
        return _from_nnx(nnx, module, method)
    if not isinstance(module, flax.linen.Module):
        raise TypeError(f"from_flax() needs a module of flax.nnx or flax.linen, not {type(module).__name__}")
    if variables is None:
        raise TypeError("from_flax() needs the variables of a module of flax.linen: module.init(key, inputs)")
    variables = dict(variables)
    params = variables.pop("params", {})

    return JaxModule(_Linen(module, method), params, variables)


# What the modules call: objects, since functions made in functions cannot be pickled.
class _Linen:
    def __init__(self, module, method):
        self.module, self.method = module, method

    def __call__(self, params, state, *args, mutable=False, **kwargs):
        names = sorted(state) if mutable else False
        out = self.module.apply({"params": params, **state}, *args, mutable=names, method=self.method, **kwargs)
        return (out[0], {**state, **out[1]}) if mutable else (out, state)


def _from_nnx(nnx, module, method):
    functions, (_, params, state) = {}, nnx.split(module, nnx.Param, ...)
    copy = nnx.clone(module)
    for training in (False, True):
        (copy.train if training else copy.eval)()
        functions[training] = _Nnx(nnx.split(copy, nnx.Param, ...)[0], method)
    return _ByMode(functions, _plain(nnx, params), _plain(nnx, state))


def _plain(nnx, state):
    """A state as dictionaries of arrays."""
    return nnx.to_pure_dict(state)


def _joined(one, other):
    """Two nested dictionaries as one."""
    return {
        **one, **other, **{k: _joined(one[k], other[k]) for k in one.keys() & other.keys() if isinstance(one[k], dict)},
    }


class _Nnx:
    def __init__(self, graph, method):
        self.graph, self.method = graph, method

    def __call__(self, params, state, *args, **kwargs):
        from flax import nnx

        module = nnx.merge(self.graph, _joined(params, state))
        output = getattr(module, self.method)(*args, **kwargs)
        return output, _plain(nnx, nnx.split(module, nnx.Param, ...)[2])


def from_equinox(module: Any) -> JaxModule:
    """A module of Equinox as an ``nn.Module``; it follows ``train()`` and ``eval()`` once one of them is called.

    Inputs are those of the module, without a batch: ``torch.vmap(net)(x)`` as ``jax.vmap(module)(x)``. Statistics
    (``equinox.nn.State``) are an argument and a result, as in Equinox.

    Raises:
        TypeError: for what is no module.

    >>> import ftorch as torch, equinox as eqx, jax
    >>> net = torch.interop.from_equinox(eqx.nn.Linear(3, 2, key=jax.random.key(0)))
    >>> torch.vmap(net)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    import equinox as eqx

    if not isinstance(module, eqx.Module):
        raise TypeError(f"from_equinox() needs an equinox.Module, not {type(module).__name__}")
    params, static = eqx.partition(module, eqx.is_array)
    return _Equinox(params, static)


class _EquinoxFunction:
    def __init__(self, static, training):
        self.static, self.training = static, training

    def __call__(self, params, state, *args, **kwargs):
        import equinox as eqx

        static = self.static
        if self.training is not None:
            static = eqx.nn.inference_mode(static, value=not self.training)
        return eqx.combine(params, static)(*args, **kwargs), state


class _Equinox(JaxModule):
    def __init__(self, params, static):
        self.__dict__["_ftorch_static"] = (static, {})
        super().__init__(_EquinoxFunction(static, None), params)

    def train(self, mode=True):
        """See `Module.train`: layers that act otherwise in evaluation do."""
        super().train(mode)
        static, functions = self._ftorch_static
        if mode not in functions:
            functions[mode] = Calls(_EquinoxFunction(static, mode))
        self._ftorch_apply = functions[mode]
        return self


def from_haiku(transformed: Any, params: Any, state: Any = None) -> JaxModule:
    """A transformed function of Haiku as an ``nn.Module``.

    Args:
        transformed: of ``haiku.transform`` or ``haiku.transform_with_state``.
        params, state: what its ``init`` gives.

    The module is called with the inputs and ``rng=key``, where the function draws.

    >>> import ftorch as torch, haiku as hk, jax, jax.numpy as jnp
    >>> net = hk.transform(lambda x: hk.Linear(2)(x))
    >>> module = torch.interop.from_haiku(net, net.init(jax.random.key(0), jnp.ones((1, 3))))
    >>> module(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    import haiku as hk

    return JaxModule(_Haiku(transformed, isinstance(transformed, hk.TransformedWithState)), params, state)


class _Haiku:
    def __init__(self, transformed, has_state):
        self.transformed, self.has_state = transformed, has_state

    def __call__(self, params, state, *args, rng=None, **kwargs):
        if self.has_state:
            return self.transformed.apply(params, state, rng, *args, **kwargs)
        return self.transformed.apply(params, rng, *args, **kwargs), state


__all__ = ["from_equinox", "from_flax", "from_haiku"]
