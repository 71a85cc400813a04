"""Eager speed where sizes change from step to step, against PyTorch: a new size in every step.

    python benchmarks/dynamic.py [--steps 16] [--warm 8] [--cases NAME ...] [--compiled]

Both libraries run in one process and take turns, step by step, with the same sizes and the same values; results
are compared. Each line is the median over the steps, PyTorch's, their ratio, and the slowest step over the median.
``--compiled`` wraps each case's step in ``ftorch.compile(dynamic=True)``; PyTorch stays eager. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import ftorch

SETTLE = 0.02  # s: the other library's threads go on spinning some 10 ms after its turn


# --- the cases: (library, compile) -> step, sizes -> step's numbers ---------------------------


class Case:
    """A program and its sizes.

    Attributes:
        make: (library) -> (function of prepared inputs -> numbers to compare, prepare(rng) -> inputs).
    """

    def __init__(self, make: Callable, tolerance: float = 2e-3):
        self.make, self.tolerance = make, tolerance


def _tensor(lib, array):
    return lib.tensor(array)


def transformer(lib):
    """Training of a two-layer transformer language model; batch and length are new each step."""
    nn, F = lib.nn, lib.nn.functional
    lib.manual_seed(0)
    vocabulary, width, heads = 500, 128, 4

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(256, width)
            self.blocks = nn.ModuleList([Block(), Block()])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, ids):
            x = self.tokens(ids) + self.places(lib.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    model = Model()
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids):
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, vocabulary), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    def prepare(rng):
        shape = int(rng.integers(4, 13)), int(rng.integers(24, 97))
        return (_tensor(lib, rng.integers(0, vocabulary, shape)),)

    return step, prepare


def generation(lib):
    """24 tokens of a small transformer, key and value cache grown by ``cat``, prompts of new lengths."""
    nn, F = lib.nn, lib.nn.functional
    lib.manual_seed(0)
    vocabulary, width, heads, layers = 300, 128, 4, 3

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, past):
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in (q, k, v))
            if past is not None:
                k, v = lib.cat([past[0], k], dim=2), lib.cat([past[1], v], dim=2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x)))), (k, v)

    blocks = nn.ModuleList([Block() for _ in range(layers)])
    tokens, places, head = nn.Embedding(vocabulary, width), nn.Embedding(256, width), nn.Linear(width, vocabulary)

    def step(ids):
        with lib.no_grad():
            pasts: Any = [None] * layers
            out, at = [], 0
            for _ in range(24):
                x = tokens(ids) + places(lib.arange(at, at + ids.shape[1]))
                at += ids.shape[1]
                for i, block in enumerate(blocks):
                    x, pasts[i] = block(x, pasts[i])
                ids = head(x[:, -1]).argmax(-1, keepdim=True)
                out.append(ids)
            return float(lib.cat(out, dim=1).sum().item())

    def prepare(rng):
        return (_tensor(lib, rng.integers(0, vocabulary, (1, int(rng.integers(8, 96))))),)

    return step, prepare


def lstm(lib):
    """An LSTM tagger over packed sequences of new lengths."""
    nn, F = lib.nn, lib.nn.functional
    lib.manual_seed(0)
    embedding, rnn, head = nn.Embedding(200, 32), nn.LSTM(32, 48, batch_first=True), nn.Linear(48, 10)
    parameters = [*embedding.parameters(), *rnn.parameters(), *head.parameters()]
    optimizer = lib.optim.SGD(parameters, lr=0.1)
    pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence

    def step(ids, lengths, targets):
        optimizer.zero_grad()
        packed = pack(embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        out, _ = unpack(rnn(packed)[0], batch_first=True)
        loss = F.cross_entropy(head(out).flatten(0, 1), targets.flatten(), ignore_index=-1)
        loss.backward()
        optimizer.step()
        return loss.item()

    def prepare(rng):
        batch = int(rng.integers(6, 20))
        lengths = rng.integers(5, 50, batch)
        longest = int(lengths.max())
        ids = rng.integers(0, 200, (batch, longest))
        targets = rng.integers(0, 10, (batch, longest))
        targets[np.arange(longest) >= lengths[:, None]] = -1
        return _tensor(lib, ids), _tensor(lib, lengths), _tensor(lib, targets)

    return step, prepare


def message_passing(lib):
    """Two rounds of message passing over graphs with new numbers of nodes and edges."""
    nn, F = lib.nn, lib.nn.functional
    lib.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])
    head = nn.Linear(64, 7)
    optimizer = lib.optim.Adam([*layers.parameters(), *head.parameters()], lr=1e-2)

    def step(x, source, target, y):
        optimizer.zero_grad()
        for layer in layers:
            messages = F.relu(layer(x))[source]
            total = lib.zeros(x.shape[0], 64).index_add(0, target, messages)
            degree = lib.zeros(x.shape[0]).index_add(0, target, lib.ones(target.shape[0]))
            x = x + total / degree.clamp(min=1)[:, None]
        loss = F.cross_entropy(head(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def prepare(rng):
        nodes, edges = int(rng.integers(200, 600)), int(rng.integers(1000, 4000))
        return (
            _tensor(lib, rng.standard_normal((nodes, 64), np.float32)), _tensor(lib, rng.integers(0, nodes, edges)),
            _tensor(lib, rng.integers(0, nodes, edges)), _tensor(lib, rng.integers(0, 7, nodes)),
        )

    return step, prepare


def detection(lib):
    """Boxes by score: boolean masks, argsort, pairwise IoU, ``nonzero``."""

    def step(boxes, scores):
        keep = scores > 0.4
        boxes, scores = boxes[keep], scores[keep]
        order = scores.argsort(descending=True)
        boxes, scores = boxes[order], scores[order]
        low = lib.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = lib.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        inner = (high - low).clamp(min=0).prod(2)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        iou = inner / (area[:, None] + area[None] - inner)
        worse = (iou.triu(1) > 0.5).any(0)
        kept = lib.nonzero(~worse).squeeze(1)
        return float((boxes[kept].sum() + scores[kept].sum()).item()) + kept.shape[0]

    def prepare(rng):
        count = int(rng.integers(80, 320))
        low = rng.random((count, 2), np.float32) * 100
        boxes = np.concatenate([low, low + 5 + rng.random((count, 2), np.float32) * 40], 1)
        return _tensor(lib, boxes), _tensor(lib, rng.random(count, np.float32))

    return step, prepare


def cnn(lib):
    """Training of a small CNN with ``interpolate`` on images of new sizes."""
    nn, F = lib.nn, lib.nn.functional
    lib.manual_seed(0)
    down1, down2 = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
    up, out = nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, 4, 1)
    modules = nn.ModuleList([down1, down2, up, out])
    optimizer = lib.optim.SGD(modules.parameters(), lr=0.05, momentum=0.9)

    def step(images, labels):
        optimizer.zero_grad()
        x = F.relu(down2(F.relu(down1(images))))
        x = F.relu(up(F.max_pool2d(x, 2)))
        x = F.interpolate(out(x), size=images.shape[-2:], mode="bilinear", align_corners=False)
        loss = F.cross_entropy(x, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def prepare(rng):
        height, width = int(rng.integers(48, 97)), int(rng.integers(48, 97))
        images = rng.standard_normal((2, 3, height, width), np.float32)
        return _tensor(lib, images), _tensor(lib, rng.integers(0, 4, (2, height, width)))

    return step, prepare


def ragged_losses(lib):
    """Losses of ``x[mask]`` and a ``masked_fill`` softmax over ragged batches."""
    F = lib.nn.functional
    lib.manual_seed(0)
    weight = lib.randn(32, 32, requires_grad=True)

    def step(x, lengths, targets):
        weight.grad = None
        mask = lib.arange(x.shape[1])[None] < lengths[:, None]
        h = x @ weight
        scores = (h @ h.transpose(1, 2)).masked_fill(~mask[:, None], -math.inf)
        h = scores.softmax(-1) @ h
        loss = F.cross_entropy(h[mask], targets[mask]) + (h[mask] ** 2).mean()
        loss.backward()
        return loss.item() + weight.grad.sum().item()

    def prepare(rng):
        batch, longest = int(rng.integers(3, 9)), int(rng.integers(10, 40))
        lengths = rng.integers(2, longest + 1, batch)
        x = 0.1 * rng.standard_normal((batch, longest, 32))
        return (
            _tensor(lib, x.astype(np.float32)), _tensor(lib, lengths),
            _tensor(lib, rng.integers(0, 32, (batch, longest))),
        )

    return step, prepare


def mlp(lib):
    """Training of an MLP with BatchNorm and dropout; new batch size each step."""
    nn, F = lib.nn, lib.nn.functional
    lib.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 128), nn.BatchNorm1d(128),
        nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10),
    )
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def prepare(rng):
        batch = int(rng.integers(16, 400))
        return (
            _tensor(lib, rng.standard_normal((batch, 64), np.float32)), _tensor(lib, rng.integers(0, 10, batch)),
        )

    return step, prepare


CASES = {
    "transformer training": Case(transformer), "generation": Case(generation), "lstm packed": Case(lstm),
    "message passing": Case(message_passing), "detection": Case(detection), "cnn interpolate": Case(cnn),
    "ragged losses": Case(ragged_losses), "mlp batchnorm": Case(mlp),
}


# --- measuring --------------------------------------------------------------------------------


def measure(case: Case, warm: int, steps: int, seed: int, compiled: bool):
    """({library: seconds of each step}, greatest relative difference of results)."""
    sides: dict[str, Any] = {}
    for name, lib in (("ftorch", ftorch), ("torch", torch)):
        step, prepare = case.make(lib)
        if compiled and lib is ftorch:
            step = ftorch.compile(step, dynamic=True)
        sides[name] = (step, prepare, np.random.default_rng(seed))
    times: dict[str, list[float]] = {name: [] for name in sides}
    worst = 0.0
    for turn in range(warm + steps):
        results = {}
        for name in ("ftorch", "torch") if turn % 2 else ("torch", "ftorch"):
            step, prepare, rng = sides[name]
            inputs = prepare(rng)
            time.sleep(SETTLE)
            start = time.perf_counter()
            results[name] = step(*inputs)
            if turn >= warm:
                times[name].append(time.perf_counter() - start)
        ours, theirs = results["ftorch"], results["torch"]
        worst = max(worst, abs(ours - theirs) / max(1e-6, abs(theirs)))
    return times, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    parser.add_argument("--compiled", action="store_true")
    options = parser.parse_args()
    ratios = []
    # What two libraries import together makes each full collection of Python's take .16 s; nobody else has both.
    gc.freeze()
    print(f"{'case':24}{'ftorch ms':>11}{'PyTorch ms':>12}{'ratio':>8}{'slowest':>9}{'differs':>10}")
    for name in options.cases:
        case = CASES[name]
        times, worst = measure(case, options.warm, options.steps, options.seed, options.compiled)
        ours, theirs = (statistics.median(times[side]) for side in ("ftorch", "torch"))
        ratios.append(ours / theirs)
        slowest = max(times["ftorch"]) / ours
        note = "" if worst <= case.tolerance else "  VALUES DIFFER"
        print(
            f"{name:24}{ours * 1e3:11.2f}{theirs * 1e3:12.2f}{ours / theirs:8.2f}{slowest:9.1f}{worst:10.1e}{note}",
            flush=True,
        )
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
