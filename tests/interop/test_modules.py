"""Modules of Flax, Equinox and Haiku as modules here, and modules here as functions of arrays, against JAX's own results."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys

import equinox as eqx
import flax.linen
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import ftorch as torch
from ftorch import interop

X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)


class _Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first, self.norm = nnx.Linear(3, 8, rngs=rngs), nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(8, 8, rngs=rngs) for _ in range(2)])
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        x = self.dropout(nnx.relu(self.norm(self.first(x))))
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def _close(mine, theirs, tolerance=1e-5):
    np.testing.assert_allclose(mine.detach().numpy(), theirs, rtol=tolerance, atol=tolerance)


def test_nnx():
    """Values, statistics and dropped elements are those of Flax, in training and evaluation."""
    theirs = _Nnx(nnx.Rngs(0))
    mine = interop.from_flax(theirs)
    assert {n for n, _ in mine.named_parameters()} == {
        f"{layer}.{kind}" for layer in ("first", "last", "layers.0", "layers.1") for kind in ("bias", "kernel")
    } | {"norm.bias", "norm.scale"}
    for _ in range(3):
        _close(mine(torch.tensor(X)), theirs(X))
    _close(mine.state.norm.mean, theirs.norm.mean[...])
    mine.eval()
    theirs.eval()
    _close(mine(torch.tensor(X)), theirs(X))

    def loss(module):
        return (module(X) ** 2).sum()

    gradients = nnx.to_pure_dict(nnx.grad(loss)(theirs))
    mine(torch.tensor(X)).square().sum().backward()
    _close(mine.first.kernel.grad, gradients["first"]["kernel"])
    _close(mine.layers.get_submodule("1").bias.grad, gradients["layers"][1]["bias"])


def test_nnx_trains_is_saved_copied_and_compiled():
    torch.manual_seed(0)
    net = interop.from_flax(nnx.Linear(3, 1, rngs=nnx.Rngs(0)))
    x, optimizer = torch.randn(64, 3), torch.optim.Adam(net.parameters(), lr=0.1)
    target = x.sum(1, keepdim=True)
    step = torch.compile(lambda x, y: (net(x) - y).square().mean())
    for _ in range(150):
        optimizer.zero_grad()
        loss = step(x, target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    other = interop.from_flax(nnx.Linear(3, 1, rngs=nnx.Rngs(1)))
    other.load_state_dict(torch.load(file))
    assert other(x).equal(net(x))
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.kernel.zero_()
    assert net.kernel.abs().sum() > 2
    assert twin(x).abs().max() < 0.1


def test_linen():
    class Net(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, x, train=False):
            x = flax.linen.BatchNorm(use_running_average=not train)(flax.linen.Dense(4)(x))
            return flax.linen.Dropout(0.5, deterministic=not train)(x)

    net, key = Net(), jax.random.key(1)
    variables = net.init(jax.random.key(0), X)
    mine = interop.from_flax(net, variables)
    _close(mine(torch.tensor(X)), net.apply(variables, X))
    expected, following = net.apply(variables, X, train=True, mutable=["batch_stats"], rngs={"dropout": key})
    _close(mine(torch.tensor(X), train=True, mutable=True, rngs={"dropout": key}), expected)
    _close(mine(torch.tensor(X)), net.apply({**variables, **following}, X))
    with pytest.raises(TypeError, match="variables"):
        interop.from_flax(net)
    with pytest.raises(TypeError, match=r"flax\.nnx or flax\.linen"):
        interop.from_flax(3)


def test_equinox():
    class Net(eqx.Module):
        layers: list
        dropout: eqx.nn.Dropout
        name: str

        def __init__(self, key):
            one, two = jax.random.split(key)
            self.layers = [eqx.nn.Linear(3, 8, key=one), eqx.nn.Linear(8, 2, key=two)]
            self.dropout, self.name = eqx.nn.Dropout(0.5), "net"

        def __call__(self, x, key=None):
            return self.layers[1](self.dropout(jax.nn.relu(self.layers[0](x)), key=key))

    net, key = Net(jax.random.key(0)), jax.random.key(5)
    mine = interop.from_equinox(net)
    assert {n for n, _ in mine.named_parameters()} == {f"layers.{i}.{kind}" for i in "01" for kind in ("bias", "weight")}
    _close(mine(torch.tensor(X[0]), key=key), net(X[0], key=key))
    mine.eval()
    still = eqx.nn.inference_mode(net)
    _close(torch.vmap(mine)(torch.tensor(X)), jax.vmap(still)(X))
    torch.vmap(mine)(torch.tensor(X)).sum().backward()
    gradients = eqx.filter_grad(lambda net: jax.vmap(net)(X).sum())(still)
    _close(mine.layers.get_submodule("0").weight.grad, gradients.layers[0].weight)
    mine.train()
    _close(mine(torch.tensor(X[0]), key=key), net(X[0], key=key))
    with pytest.raises(TypeError, match=r"equinox\.Module"):
        interop.from_equinox(len)


def test_haiku():
    net = hk.transform(lambda x: hk.nets.MLP([8, 2])(x))
    params = net.init(jax.random.key(0), X)
    mine = interop.from_haiku(net, params)
    _close(mine(torch.tensor(X)), net.apply(params, None, X))
    mine(torch.tensor(X)).sum().backward()
    gradients = jax.grad(lambda p: net.apply(p, None, X).sum())(params)
    found = {n: p.grad for n, p in mine.named_parameters()}
    assert len(found) == 4
    _close(found["mlp.~.linear_0.w"], gradients["mlp/~/linear_0"]["w"])

    def with_state(x):
        count = hk.get_state("count", (), jnp.int32, init=jnp.zeros)
        hk.set_state("count", count + 1)
        return hk.dropout(hk.next_rng_key(), 0.5, hk.Linear(2)(x)) + count

    net = hk.transform_with_state(with_state)
    params, state = net.init(jax.random.key(0), X)
    mine = interop.from_haiku(net, params, state)
    for key in map(jax.random.key, range(3)):
        expected, state = net.apply(params, state, key, X)
        _close(mine(torch.tensor(X), rng=key), expected)


MODULES = {
    "linear": (lambda: torch.nn.Linear(3, 2), lambda: X),
    "batch norm": (lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.GELU()), lambda: X),
    "embedding": (lambda: torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2)), 
                  lambda: np.arange(6).reshape(2, 3)),
    "convolutions": (lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.MaxPool2d(2), torch.nn.Flatten()),
                     lambda: np.linspace(0, 1, 72, dtype=np.float32).reshape(2, 1, 6, 6)),
    "lstm": (lambda: torch.nn.LSTM(3, 4), lambda: X[:, None]),
    "attention": (lambda: torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
                  lambda: np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_as_jax(name):
    """Output, gradients and buffers are the module's, under `jax.jit`, `jax.grad` and optax."""
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    module, x = make(), inputs()
    apply, params, buffers = interop.as_jax(module)
    before = {n: b.clone() for n, b in module.named_buffers()}

    def loss(params, buffers, x):
        output, buffers = apply(params, buffers, x)
        return sum((o**2).sum() for o in jax.tree.leaves(output)), buffers

    (value, following), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params, buffers, jnp.asarray(x))
    for n, b in module.named_buffers():
        assert b.equal(before[n])  # it is left as it was
    output = module(torch.tensor(x))
    mine = sum(o.square().sum() for o in torch.utils._pytree.tree_leaves(output))
    mine.backward()
    np.testing.assert_allclose(value, mine.item(), rtol=1e-5)
    for n, p in module.named_parameters():
        _close(p.grad, gradients[n], 1e-4)
    for n, b in module.named_buffers():
        _close(b, following[n])
    optimizer = optax.adam(1e-3)
    updates, _ = optimizer.update(gradients, optimizer.init(params), params)
    assert set(optax.apply_updates(params, updates)) == set(params)


def test_as_jax_over_examples():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    apply, params, buffers = interop.as_jax(module)
    each = jax.vmap(jax.grad(lambda p, x: apply(p, buffers, x)[0].sum()), (None, 0))(params, jnp.asarray(X))
    expected = torch.vmap(torch.func.grad(lambda p, x: torch.func.functional_call(module, p, (x,)).sum()), (None, 0))(
        {n: p.detach() for n, p in module.named_parameters()}, torch.tensor(X)
    )
    for n, g in expected.items():
        _close(g, each[n])


def test_as_jax_over_devices():
    """Within `jax.shard_map`: each device computes its rows."""
    script = """
import jax, jax.numpy as jnp, numpy as np
import ftorch as torch
import ftorch.interop
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
rows, whole = jax.sharding.PartitionSpec("rows"), jax.sharding.PartitionSpec()
module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
apply, params, buffers = torch.interop.as_jax(module)
params = jax.device_put(params, jax.sharding.NamedSharding(mesh, whole))
def loss(params, x):
    return jax.lax.pmean((apply(params, buffers, x)[0] ** 2).mean(), "rows")
x = jnp.linspace(-1, 1, 24).reshape(8, 3)
part = jax.shard_map(
    jax.value_and_grad(loss), mesh=mesh, in_specs=(whole, rows), out_specs=(whole, whole), check_vma=False
)
value, gradients = jax.jit(part)(params, x)
mine = module(torch.from_jax(x)).square().mean()
np.testing.assert_allclose(value, mine.item(), rtol=1e-5)
on = jax.device_put(x, jax.sharding.NamedSharding(mesh, rows))
np.testing.assert_allclose(torch.from_jax(on, sharded=True).square().sum().item(), (x ** 2).sum(), rtol=1e-5)
assert torch.from_jax(on).equal(torch.from_jax(x))
print("agrees")
"""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"XLA_FLAGS": flags}, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "agrees", done.stderr


def test_orbax(tmp_path):
    """A state dict is a pytree: orbax writes and reads it."""
    import orbax.checkpoint as ocp

    module = torch.nn.Linear(3, 2)
    arrays = {n: p.detach().jax() for n, p in module.state_dict().items()}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "step", arrays)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "step", arrays)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict({n: torch.from_jax(a) for n, a in restored.items()})
    assert other.weight.equal(module.weight)


def test_grain():
    """Datasets of ours are sources of grain, and its datasets are ours."""
    import grain

    source = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    dataset = grain.MapDataset.source(source).shuffle(seed=1).batch(2)
    batches = [(torch.as_tensor(x), torch.as_tensor(n)) for x, n in dataset]
    assert sorted(torch.cat([n for _, n in batches]).tolist()) == [*range(6)]
    assert all((x[:, 0] == 2 * n).all() for x, n in batches)
    loader = torch.utils.data.DataLoader(grain.MapDataset.range(6).map(lambda n: np.float32([n, 2 * n])), batch_size=3)
    assert torch.cat(list(loader)).tolist() == [[n, 2 * n] for n in range(6)]


def test_jaxtyping():
    jaxtyping = pytest.importorskip("jaxtyping")
    kind = jaxtyping.Float[torch.Tensor, "batch 3"]
    assert isinstance(torch.ones(2, 3), kind)
    assert not isinstance(torch.ones(2, 4), kind)
    assert not isinstance(torch.ones(2, 3, dtype=torch.int32), kind)


def test_as_jax_draws_from_a_key():
    module = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.5))
    torch.nn.init.constant_(module[1].bias, 0.1)  # what is kept is not zero
    apply, params, buffers = interop.as_jax(module)
    f = jax.jit(lambda params, x, key: apply(params, buffers, x, rng=key))
    with pytest.raises(RuntimeError, match="give rng=key"):
        jax.jit(lambda x: apply(params, buffers, x)[0])(X)
    keys = jax.random.split(jax.random.key(0), 3)
    outputs = [f(params, jnp.asarray(X), key)[0] for key in keys]
    np.testing.assert_array_equal(outputs[0], f(params, jnp.asarray(X), keys[0])[0])
    assert all(0.35 < (np.asarray(o) == 0).mean() < 0.65 for o in outputs)
    assert not np.array_equal(outputs[0], outputs[1])
    assert int(f(params, jnp.asarray(X), keys[0])[1]["1.num_batches_tracked"]) == 1
    loss = jax.jit(jax.grad(lambda p, x, key: apply(p, buffers, x, rng=key)[0].sum()))
    gradients = loss(params, jnp.asarray(X), keys[0])
    np.testing.assert_allclose(gradients["1.bias"], 2 * (np.asarray(outputs[0]) != 0).sum(0), rtol=1e-5)
    assert np.isfinite(apply(params, buffers, jnp.asarray(X))[0]).all()  # outside of JAX's transformations: the generator's
    module.eval()
    jax.jit(lambda x: apply(params, buffers, x)[0])(X)
