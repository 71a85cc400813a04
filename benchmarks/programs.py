"""Training programs of several sizes that `memory.py` and `start.py` measure: each is a function of the library that
gives a function of no arguments, one training step, which returns the loss.
"""

from __future__ import annotations

import math
import os
import sys


def _supervised(lib, model, optimizer, x, y):
    def step():
        optimizer.zero_grad()
        logits = model(x)
        loss = lib.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# --- perceptrons


def mlp(lib, width=256, batch=64, depth=3):
    """Layers of one width, ReLU between, Adam."""
    lib.manual_seed(0)
    nn, layers = lib.nn, []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 10))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    return _supervised(lib, model, optimizer, lib.randn(batch, width), lib.randint(0, 10, (batch,)))


# --- transformers


def gpt(lib, layers=4, width=128, heads=4, length=64, batch=8, vocabulary=1000):
    """GPT-2's architecture with AdamW."""
    lib.manual_seed(0)
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            rows, columns, _ = x.shape
            parts = self.attention(self.first(x)).split(width, 2)
            q, k, v = (p.view(rows, columns, heads, width // heads).transpose(1, 2) for p in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(rows, columns, width))
            return x + self.down(functional.gelu(self.up(self.second(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.last = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2))
            self.head.weight = self.tokens.weight

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(lib.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x))

    model = GPT()
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = lib.randint(0, vocabulary, (batch, length + 1))
    return _supervised(lib, model, optimizer, tokens[:, :-1], tokens[:, 1:])


# --- convolutional networks


def resnet(lib, counts=(1, 1, 1, 1), width=16, size=64, batch=8, classes=100):
    """A ResNet of bottleneck blocks with SGD and momentum; (3, 4, 6, 3) of width 64 is ResNet-50."""
    lib.manual_seed(0)
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self, given, inner, stride):
            super().__init__()
            self.convs = nn.ModuleList([
                nn.Conv2d(given, inner, 1, bias=False),
                nn.Conv2d(inner, inner, 3, stride, 1, bias=False),
                nn.Conv2d(inner, 4 * inner, 1, bias=False),
            ])
            self.norms = nn.ModuleList([nn.BatchNorm2d(c) for c in (inner, inner, 4 * inner)])
            self.short = None
            if stride != 1 or given != 4 * inner:
                conv = nn.Conv2d(given, 4 * inner, 1, stride, bias=False)
                self.short = nn.Sequential(conv, nn.BatchNorm2d(4 * inner))

        def forward(self, x):
            y = x
            for place, (conv, norm) in enumerate(zip(self.convs, self.norms)):
                y = norm(conv(y))
                if place < 2:
                    y = functional.relu(y, inplace=True)
            return functional.relu(y + (x if self.short is None else self.short(x)), inplace=True)

    parts, given = [], width
    for stage, count in enumerate(counts):
        inner = width << stage
        for place in range(count):
            parts.append(Block(given, inner, 2 if stage and not place else 1))
            given = 4 * inner
    model = nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, classes),
    )
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return _supervised(lib, model, optimizer, lib.randn(batch, 3, size, size), lib.randint(0, classes, (batch,)))


# --- what is computed again


def blocks(lib, count=16, width=256, batch=8192, checkpointed=True, saved_on_cpu=False):
    """Blocks of two layers, checkpointed or not."""
    lib.manual_seed(0)
    nn = lib.nn
    parts = nn.ModuleList([
        nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count)
    ])
    optimizer = lib.optim.SGD(parts.parameters(), lr=1e-3)
    x = lib.randn(batch, width)

    def step():
        optimizer.zero_grad()
        with lib.autograd.graph.save_on_cpu() if saved_on_cpu else lib.enable_grad():
            y = x
            for part in parts:
                y = y + (lib.utils.checkpoint.checkpoint(part, y, use_reentrant=False) if checkpointed else part(y))
            loss = y.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    import importlib

    importlib.import_module(f"{lib.__name__}.utils.checkpoint")
    return step


# --- the recipes of examples/


def recipe(name):
    """A step of a recipe of ``examples/``."""

    def make(lib):
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
        import inspect

        import common  # examples/common.py

        lib.manual_seed(0)
        trainer = common.load(name, lib.__name__).trainer
        has_schedule = "steps" in inspect.signature(trainer).parameters
        return trainer(**{"steps": 1000} if has_schedule else {})[0]

    return make


PROGRAMS = {
    "mlp": mlp,
    "mlp wide": lambda lib: mlp(lib, 4096, 1024, 3),
    "mlp deep": lambda lib: mlp(lib, 512, 8192, 24),
    "gpt small": gpt,
    "gpt medium": lambda lib: gpt(lib, 6, 384, 6, 256, 8, 5000),
    "gpt 124M": lambda lib: gpt(lib, 12, 768, 12, 256, 4, 50257),
    "resnet small": resnet,
    "resnet medium": lambda lib: resnet(lib, (2, 2, 2, 2), 32, 128, 8),
    "resnet 50": lambda lib: resnet(lib, (3, 4, 6, 3), 64, 160, 8, 1000),
    "blocks": lambda lib: blocks(lib, checkpointed=False),
    "checkpoint": blocks,
    "save_on_cpu": lambda lib: blocks(lib, 8, 256, 4096, False, True),
    **{
        f"recipe {name}": recipe(name)
        for name in ("mlp", "cnn", "resnet", "lstm", "gpt", "vit", "vae", "gan", "dqn", "graph")
    },
}
"""{name: program}"""
