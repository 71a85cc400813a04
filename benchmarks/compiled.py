"""Compiled speed: training steps and inference against JAX and against PyTorch's compiler.

    python benchmarks/compiled.py [--rounds 20] [--only gpt] [--torch] [--cold]

Everything runs in one process, in turns. The JAX code is written by hand, with donation, as one would
write it without ftorch; ``--torch`` adds ``torch.compile`` on the CPU (needs PyTorch and g++) and
generation against PyTorch's eager one; ``--cold`` measures the first call in new processes, without and
with JAX's persistent cache. A ratio below 1 means ftorch is faster.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

import ftorch

SETTLE = 0.02  # s of unmeasured runs at each turn: another library's threads go on spinning a while
LR, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8


# --- models for ftorch and PyTorch ------------------------------------------------------


def mlp(lib):
    nn = lib.nn
    return nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 10))


def cnn(lib):
    nn = lib.nn
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(32 * 8 * 8, 10))


WIDTH, HEADS, LAYERS, TIME, VOCABULARY = 128, 4, 3, 64, 256


def gpt(lib):
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            b, t, _ = x.shape
            heads = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            q, k, v = heads[0], heads[1], heads[2]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, WIDTH))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TIME, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens):
            x = self.token(tokens) + self.place(lib.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    return GPT()


def lstm(lib):
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    return Net()


# --- the same in JAX ----------------------------------------------------------------------


def linear(p, x, name):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def norm(p, x, name):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def jax_mlp(p, x):
    x = jax.nn.relu(linear(p, x, "0"))
    return linear(p, jax.nn.relu(linear(p, x, "2")), "4")


def jax_cnn(p, x):
    for name in ("0", "3"):
        x = jax.lax.conv_general_dilated(x, p[f"{name}.weight"], (1, 1), "SAME",
                                         dimension_numbers=("NCHW", "OIHW", "NCHW"))
        x = jax.nn.relu(x + p[f"{name}.bias"][None, :, None, None])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return linear(p, x.reshape(len(x), -1), "7")


def jax_gpt(p, tokens):
    b, t = tokens.shape
    x = p["token.weight"][tokens] + p["place.weight"][:t]
    mask = jnp.tril(jnp.ones((t, t), bool))
    for i in range(LAYERS):
        n = f"blocks.{i}."
        h = linear(p, norm(p, x, n + "norm1"), n + "qkv")
        q, k, v = h.reshape(b, t, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        a = jnp.where(mask, q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5, -jnp.inf)
        y = (jax.nn.softmax(a, -1) @ v).swapaxes(1, 2).reshape(b, t, WIDTH)
        x = x + linear(p, y, n + "out")
        h = jax.nn.gelu(linear(p, norm(p, x, n + "norm2"), n + "up"), approximate=True)
        x = x + linear(p, h, n + "down")
    return linear(p, norm(p, x, "norm"), "head").reshape(b * t, -1)


def jax_lstm(p, x):
    bias = p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"]
    given = x @ p["lstm.weight_ih_l0"].T + bias

    def cell(carry, g):
        h, c = carry
        i, f, z, o = jnp.split(g + h @ p["lstm.weight_hh_l0"].T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(z)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), None

    zero = jnp.zeros((len(x), 128), x.dtype)
    (h, _), _ = jax.lax.scan(cell, (zero, zero), given.swapaxes(0, 1))
    return linear(p, h, "head")


def jax_step(forward):
    """A training step with Adam, donating its state."""

    def loss_of(p, x, y):
        logits = forward(p, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, x, y):
        p, m, v, n = state
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        n = n + 1
        m = jax.tree.map(lambda a, b: B1 * a + (1 - B1) * b, m, g)
        v = jax.tree.map(lambda a, b: B2 * a + (1 - B2) * b * b, v, g)
        c1, c2 = 1 - B1**n, 1 - B2**n
        p = jax.tree.map(
            lambda p, m, v: p - LR / c1 * m / (jnp.sqrt(v) / jnp.sqrt(c2) + EPS), p, m, v
        )
        return (p, m, v, n), loss

    return step


# name: (model, the same in JAX, (shape of x, whether tokens), rows of y)
MODELS = {
    "mlp": (mlp, jax_mlp, ((128, 512), False), 128),
    "cnn": (cnn, jax_cnn, ((32, 3, 32, 32), False), 32),
    "gpt": (gpt, jax_gpt, ((8, TIME), True), 8 * TIME),
    "lstm": (lstm, jax_lstm, ((32, 32, 64), False), 32),
}


def data(name):
    random = np.random.RandomState(0)
    _, _, (shape, tokens), rows = MODELS[name]
    x = random.randint(0, VOCABULARY, shape) if tokens else random.randn(*shape).astype(np.float32)
    return x, random.randint(0, 10, rows)


# --- runs -----------------------------------------------------------------------------------


def with_library(lib, name, train, compiled=True):
    """A run with ftorch or PyTorch."""
    lib.manual_seed(0)
    model = MODELS[name][0](lib)
    x, y = (lib.tensor(a) for a in data(name))
    if not train:
        call = lib.compile(model.eval()) if compiled else model.eval()

        def infer():
            with lib.no_grad():
                return call(x)

        return infer
    optimizer = lib.optim.Adam(model.parameters(), lr=LR)

    def step(x, y):
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if lib is not ftorch:  # PyTorch compiles the model; the optimizer is its fastest one
        optimizer = lib.optim.Adam(model.parameters(), lr=LR, fused=True)
        call = lib.compile(model) if compiled else model

        def torch_step():
            optimizer.zero_grad()
            loss = lib.nn.functional.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return torch_step
    return functools.partial(lib.compile(step), x, y)


def with_jax(name, train):
    """A run in JAX, from the weights that ftorch starts with."""
    ftorch.manual_seed(0)
    make, forward = MODELS[name][:2]
    p = {k: jnp.array(v.detach().numpy()) for k, v in make(ftorch).named_parameters()}
    x, y = map(jnp.asarray, data(name))
    if not train:
        return functools.partial(jax.jit(forward), p, x)
    zeros = functools.partial(jax.tree.map, jnp.zeros_like)
    state = (p, zeros(p), zeros(p), jnp.zeros((), jnp.float32))
    step = jax_step(forward)

    def run():
        nonlocal state
        state, loss = step(state, x, y)
        return loss

    return run


def wait(result):
    """Waits for a result and gives it as NumPy."""
    if isinstance(result, jax.Array):
        return np.asarray(result)
    return result.detach().numpy() if result.dim() else result.item()


def measure(runs, rounds, budget=20.0):
    """Median seconds of each run, the runs taking turns."""
    times = [[] for _ in runs]
    for run in runs:
        for _ in range(3):
            wait(run())
    start = time.perf_counter()
    for i in range(rounds):
        for run, own in zip(runs if i % 2 else runs[::-1], times if i % 2 else times[::-1]):
            settled = time.perf_counter() + SETTLE
            while True:
                wait(run())
                if time.perf_counter() > settled:
                    break
            for _ in range(3):
                before = time.perf_counter()
                wait(run())
                own.append(time.perf_counter() - before)
        if time.perf_counter() - start > budget:
            break
    return [statistics.median(own) for own in times]


def show(label, mine, theirs, goal, count=1):
    print(f"{label:34}{mine * 1e3 / count:>9.3f} ms{theirs * 1e3 / count:>9.3f} ms"
          f"{mine / theirs:>8.2f}{goal:>6.2f}", flush=True)


# --- generation -------------------------------------------------------------------------------


def generation(lib, steps, batch=4):
    """Greedy generation with a cache: ftorch's compiled loop, PyTorch's eager one."""
    F = lib.nn.functional
    lib.manual_seed(0)
    model = gpt(lib).eval()
    size = (LAYERS, batch, HEADS, steps, WIDTH // HEADS)
    start = lib.arange(batch)

    def token_step(token, position, keys, values):
        x = model.token(token) + model.place(position)
        mask = (lib.arange(steps) <= position).view(1, 1, 1, -1)
        new_keys, new_values = [], []
        for i, block in enumerate(model.blocks):
            q, k, v = (
                t.reshape(batch, HEADS, 1, -1) for t in block.qkv(block.norm1(x)).chunk(3, -1)
            )
            keys_i = keys[i].index_copy(2, position.view(1), k)
            values_i = values[i].index_copy(2, position.view(1), v)
            y = F.scaled_dot_product_attention(q, keys_i, values_i, attn_mask=mask)
            x = x + block.out(y.reshape(batch, WIDTH))
            x = x + block.down(F.gelu(block.up(block.norm2(x)), approximate="tanh"))
            new_keys.append(keys_i)
            new_values.append(values_i)
        token = model.head(model.norm(x)).argmax(-1)
        return token, tuple(new_keys), tuple(new_values)

    def caches():
        return tuple(lib.zeros(size[1:]) for _ in range(LAYERS))

    if lib is ftorch:
        from ftorch._higher_order_ops import scan

        def run(start):
            def body(carry, position):
                token, keys, values = token_step(carry[0], position, carry[1], carry[2])
                return (token, keys, values), token

            return scan(body, (start, caches(), caches()), lib.arange(steps))[1]

        call = lib.compile(run, fullgraph=True)
    else:

        def call(start):
            token, keys, values, found = start, caches(), caches(), []
            for i in range(steps):
                token, keys, values = token_step(token, lib.tensor(i), keys, values)
                found.append(token)
            return lib.stack(found)

    def generate():
        with lib.no_grad():
            return call(start)

    return generate


# --- cold starts --------------------------------------------------------------------------------

_COLD = """
import sys, time
sys.path.insert(0, {folder!r})
import compiled
run = compiled.{maker}
start = time.perf_counter()
compiled.wait(run())
print(time.perf_counter() - start)
"""


def first_call(maker, cache):
    """Seconds of the first call in a new process."""
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache, "FTORCH_CACHE_DIR": "0",
                   "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                   "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    code = _COLD.format(folder=here, maker=maker)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                          text=True, check=True)
    return float(done.stdout.split()[-1])


def cold(name):
    """First calls: (ftorch's cold, JAX's cold, ftorch's warm)."""
    with tempfile.TemporaryDirectory() as mine, tempfile.TemporaryDirectory() as theirs:
        own = f"with_library(compiled.ftorch, {name!r}, True)"
        other = f"with_jax({name!r}, True)"
        return first_call(own, mine), first_call(other, theirs), first_call(own, mine)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=list(MODELS))
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    names = [options.only] if options.only else list(MODELS)
    print(f"{'':34}{'ftorch':>12}{'JAX':>12}{'ratio':>8}{'goal':>6}")
    for train, goal in ((True, 1.03), (False, 1.02)):
        for name in names:
            runs = [with_library(ftorch, name, train), with_jax(name, train)]
            first = [wait(run()) for run in runs]
            np.testing.assert_allclose(first[0], first[1], rtol=2e-2, atol=2e-3)
            show(f"{name}, {'training step' if train else 'inference'}",
                 *measure(runs, options.rounds), goal)
    if options.torch:
        import torch

        print(f"{'':34}{'ftorch':>12}{'PyTorch':>12}{'ratio':>8}{'goal':>6}")
        for name in names:
            runs = [with_library(ftorch, name, True), with_library(torch, name, True)]
            show(f"{name}, step, torch.compile", *measure(runs, options.rounds), 0.8)
        steps = TIME
        runs = [generation(ftorch, steps), generation(torch, steps)]
        show("gpt, a generated token, eager", *measure(runs, options.rounds), 0.67, steps)
    if options.cold:
        print(f"{'first call':34}{'ftorch':>12}{'JAX':>12}{'ratio':>8}{'goal':>6}")
        for name in names:
            mine, theirs, warm = cold(name)
            show(f"{name}, cold", mine, theirs, 1.3)
            show(f"{name}, ftorch's cache is warm", warm, theirs, 0.4)


if __name__ == "__main__":
    main()
