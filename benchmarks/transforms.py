"""Function transforms: eager and compiled ftorch against ``torch.func``, with the machine's threads.

    python benchmarks/transforms.py [--seconds 2] [--only hessian]

The libraries take turns, so that a machine's moods hit both; every result is computed. Each line gives
the median times and their ratios to PyTorch's (below 1 is faster).
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch as pt

import ftorch as ft
import ftorch.nn.functional  # noqa: F401


def _state(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def _per_sample(torch, model, inputs, labels):
    params = _state(model)

    def loss(params, x, y):
        logits = torch.func.functional_call(model, params, (x.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), y.reshape(-1))

    mapped = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return mapped, (params, inputs, labels)


def per_sample_cnn(torch):
    """Per-sample gradients of a CNN, 32 images."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 36, 64), nn.ReLU(), nn.Linear(64, 10),
    )
    return _per_sample(torch, model, torch.randn(32, 1, 16, 16), torch.randint(0, 10, (32,)))


def per_sample_transformer(torch):
    """Per-sample gradients of a transformer block, 16 sequences of 16."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(32, 32), nn.Linear(32, 32)
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
            self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)
            self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
            weights = (q @ k.transpose(-1, -2) / 32**0.5).softmax(-1)
            x = x + self.out(weights @ v)
            x = x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))
            return self.head(x)

    tokens = torch.randint(0, 32, (16, 16))
    return _per_sample(torch, Block(), tokens, tokens)


def ensemble(torch):
    """16 MLPs on one batch of 64, forward and gradient."""
    nn = torch.nn
    models = [
        nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                      nn.Linear(128, 10)) for _ in range(16)
    ]
    params, _ = torch.func.stack_module_state(models)
    params = {k: p.detach() for k, p in params.items()}

    def loss(params, x):
        return torch.func.functional_call(models[0], params, (x,)).square().mean()

    mapped = torch.vmap(torch.func.grad(loss), in_dims=(0, None))
    return mapped, (params, torch.randn(64, 32))


def hessian(torch):
    """The Hessian of an MLP in its 24 inputs, for 8 examples."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 1))
    params = _state(net)

    def energy(x):
        return torch.func.functional_call(net, params, (x,)).sum()

    mapped = torch.vmap(torch.func.hessian(energy))
    return mapped, (torch.randn(8, 24),)


SETTLE = 0.02  # s of unmeasured runs at each turn: the other library's threads go on spinning some 10 ms
CASES = [per_sample_cnn, per_sample_transformer, ensemble, hessian]


def _finish(result):
    """Computes all tensors of a result, which are held meanwhile: else they need not be computed."""
    parts = [result]
    while any(isinstance(p, dict) for p in parts):
        parts = [q for p in parts for q in (p.values() if isinstance(p, dict) else [p])]
    for t in parts:
        if isinstance(t, ft.Tensor):
            t.jax().block_until_ready()


def _settled(run):
    """Runs it unmeasured a while: the other library's threads go on spinning after their turn."""
    end = time.perf_counter() + SETTLE
    while time.perf_counter() < end:
        _finish(run())


def _measure(runs, seconds):
    """Median seconds of each run, taking turns."""
    times = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(4):
            _finish(run())
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end:
        for name, run in runs.items():
            _settled(run)
            start = time.perf_counter()
            _finish(run())
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"{'':24}{'torch.func':>12}{'eager':>12}{'compiled':>12}{'ratios':>16}")
    for case in CASES:
        if options.only not in case.__name__:
            continue
        runs = {}
        for name, torch in (("torch", pt), ("eager", ft)):
            torch.manual_seed(0)
            function, args = case(torch)
            runs[name] = lambda f=function, args=args: f(*args)
            if torch is ft:
                runs["compiled"] = lambda f=ft.compile(function), args=args: f(*args)
        found = _measure(runs, options.seconds)
        ratios = [found[name] / found["torch"] for name in ("eager", "compiled")]
        columns = "".join(f"{1e3 * found[n]:10.2f}ms" for n in ("torch", "eager", "compiled"))
        print(f"{case.__name__:24}{columns}{ratios[0]:10.2f}{ratios[1]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
