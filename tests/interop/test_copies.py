"""Modules made of other libraries' as wholes: copies, pickles, files. Their states go with them, their parameters part."""

from __future__ import annotations

import copy
import io
import pickle

import cloudpickle
import equinox as eqx
import flax.linen
import haiku as hk
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import ftorch as torch
from ftorch import interop


def counted(params, state, x):
    return x @ params["w"] + state["n"], {"n": state["n"] + 1}


def _function():
    return interop.JaxModule(counted, {"w": jnp.ones((3, 1))}, {"n": jnp.zeros(())})


def _nnx():
    return interop.from_flax(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))


def _nnx_dropout():
    return interop.from_flax(nnx.Sequential(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1))))


def _linen():
    module = flax.linen.Dense(2)
    return interop.from_flax(module, module.init(jax.random.key(0), jnp.ones((1, 3))))


def _equinox():
    return interop.from_equinox(eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0)))


def _haiku():
    net = hk.transform(lambda x: hk.Linear(2)(x))
    return interop.from_haiku(net, net.init(jax.random.key(0), jnp.ones((1, 3))))


def _saved(module, pickler=pickle):
    file = io.BytesIO()
    torch.save(module, file, pickle_module=pickler)
    file.seek(0)
    return torch.load(file, weights_only=False)


MADE = [_function, _nnx, _nnx_dropout, _linen, _equinox, _haiku]
WAYS = {
    "copy": (copy.deepcopy, MADE),
    # Initializers of Linen and Haiku and functions of Equinox are closures, which only cloudpickle takes.
    "pickle": (lambda module: pickle.loads(pickle.dumps(module)), [_function, _nnx, _nnx_dropout]),
    "file": (_saved, [_function, _nnx, _nnx_dropout]),
    "cloudpickle": (lambda module: cloudpickle.loads(cloudpickle.dumps(module)), MADE),
    "cloudpickled file": (lambda module: _saved(module, cloudpickle), MADE),
}


@pytest.mark.parametrize(("way", "made"), [(way, made) for way, (_, several) in WAYS.items() for made in several])
def test_whole(way, made):
    module = made()
    x = torch.linspace(-1, 1, 3) if made is _equinox else torch.linspace(-1, 1, 6).reshape(2, 3)
    module(x)  # what a call leaves behind is not in the way, and its state is copied
    other = WAYS[way][0](module)
    assert list(other.state_dict()) == list(module.state_dict())
    for _ in range(2):
        assert other(x).tolist() == module(x).tolist()
    module.eval()
    other.eval()
    before = module(x).tolist()
    other(x).sum().backward()
    assert all(p.grad is None for p in module.parameters())
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    if made is not _function:
        assert module(x).tolist() == before
        assert not any(other(x).flatten().tolist())
