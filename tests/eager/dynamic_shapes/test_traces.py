"""Traces whose sizes vary share padded programs where there is no host tier: the CPU is told to do as accelerators do."""

import os
import subprocess
import sys

import pytest

from ftorch.eager.dynamic_shapes.size_dependence import Size, fixed, infer, product

SCRIPT = """
import sys
import numpy as np
import torch
import ftorch
from ftorch.eager.runtime.counters import stats

rng = np.random.default_rng(0)

def text(lib):
    # a language model of one layer: batches and lengths vary
    lib.manual_seed(0)
    words, layer = lib.nn.Embedding(30, 16), lib.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
    out = lib.nn.Linear(16, 30)
    optimizer = lib.optim.Adam([*words.parameters(), *layer.parameters(), *out.parameters()], lr=1e-2)
    def step(tokens):
        x = lib.tensor(tokens)
        optimizer.zero_grad()
        logits = out(layer(words(x)))
        loss = lib.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.item(), logits.detach().numpy()
    return step

def graph(lib):
    # message passing: numbers of nodes and edges vary
    lib.manual_seed(0)
    linear = lib.nn.Linear(8, 8)
    def step(data):
        x, source, target = map(lib.from_numpy, data)
        sent = linear(x)[source].relu()
        found = lib.zeros(x.shape[0], 8).index_add(0, target, sent)
        return found.square().mean().item(), found.detach().numpy()
    return step

def mlp(lib):
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(8, 16), lib.nn.ReLU(), lib.nn.Linear(16, 4))
    def step(x):
        y = model(lib.from_numpy(x))
        return y.softmax(-1).amax().item(), y.detach().numpy()
    return step

def tokens():
    return rng.integers(0, 30, (int(rng.integers(3, 9)), int(rng.integers(5, 40)))).tolist()

def nodes():
    n, m = int(rng.integers(6, 40)), int(rng.integers(20, 90))
    return rng.random((n, 8), np.float32), rng.integers(0, n, m), rng.integers(0, n, m)

def batch():
    return rng.random((int(rng.integers(4, 60)), 8), np.float32)

make, data = {"text": (text, tokens), "graph": (graph, nodes), "mlp": (mlp, batch)}[sys.argv[1]]
steps = {lib: make(lib) for lib in (torch, ftorch)}
compiled = []
for _ in range(int(sys.argv[2])):
    given = data()
    stats.reset()
    results = [steps[lib](given) for lib in (torch, ftorch)]
    compiled.append(stats.compilations)
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)
print(*compiled)
"""


@pytest.mark.parametrize("program, count", [("mlp", 30), ("graph", 30), ("text", 14)])
def test_new_sizes_compile_a_handful(program, count):
    environment = {**os.environ, "FTORCH_HOST_TIER": "padded", "FTORCH_COMPILE_THREAD": "0"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, program, str(count)], env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-3000:]
    compiled = list(map(int, found.stdout.split()))
    assert len(compiled) == count
    assert not sum(compiled[count // 2 :]), compiled
    assert sum(compiled) < 16, compiled


@pytest.mark.parametrize(
    "formula",
    [
        lambda b, t: 7, lambda b, t: b, lambda b, t: 3 * t, lambda b, t: b * t, lambda b, t: 5 * b * t, lambda b, t: t - 1,
        lambda b, t: 2 * t + 3, lambda b, t: b * (t - 1), lambda b, t: 50 * b * (t - 1), lambda b, t: b + t + 1,
    ],
)
def test_formulas_of_sizes_are_found(formula):
    samples = (7, 30), (4, 18)  # t - 1 could be 4 * b + 1
    found = infer(tuple(formula(*sizes) for sizes in samples), samples)
    assert found is not None
    for sizes in (*samples, (5, 11), (64, 3)):
        assert product(found, sizes) == formula(*sizes)


def test_a_product_keeps_its_factors():
    assert infer((7 * 29 * 5, 4 * 17 * 5), ((7, 30), (4, 18))) == (Size(((0, 1),), 0), Size(((1, 1),), -1), *fixed(5))
    assert infer((3, 17), ((7, 30), (4, 18))) is None
