"""Inference against PyTorch, eager and compiled, in turns in one process; a ratio below 1 means ftorch is faster.

    python benchmarks/inference.py [--only gpt2] [--dtypes float32,bfloat16,int8] [--small] [--torch-compile]

ResNet-50, BERT-base, GPT-2 (124M: the prompt of 512 tokens, and decoding with a static and with a growing cache), ViT-B and an
LSTM. ``int8`` is dynamic quantization of linear layers, ``int8w`` and ``int4w`` are products with narrow weights alone.
Weights are random. ``--small`` takes a tenth of the layers, to see that everything runs. The compiled ratio is to
the better of PyTorch's: eager, and ``torch.compile`` where ``--torch-compile`` says so (needs g++).
"""

from __future__ import annotations

import argparse
import math
import statistics
import time

import numpy as np
import torch

import ftorch

SETTLE = 0.02  # s of unmeasured runs at each turn: another library's threads go on spinning a while


# --- models: functions of the library ---------------------------------------------------------


def resnet50(lib, small):
    nn = lib.nn

    class Bottleneck(nn.Module):
        def __init__(self, inside, width, stride):
            super().__init__()
            outside = 4 * width
            self.main = nn.Sequential(
                nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside),
            )
            self.side = nn.Identity() if inside == outside and stride == 1 else nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

        def forward(self, x):
            return lib.relu(self.main(x) + self.side(x))

    layers, inside = [], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(1 if small else count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *layers,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000),
    )


def transformer(lib, width, heads, causal):
    """A class of blocks: ``block(x, cache=None)``."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, cache=None):
            q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
            if cache is None:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            else:
                k, v, mask = cache(k, v)
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    return Block


def bert(lib, small):
    nn, block = lib.nn, transformer(lib, 768, 12, False)

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(30522, 768), nn.Embedding(512, 768)
            self.blocks = nn.ModuleList(block() for _ in range(1 if small else 12))
            self.head = nn.Linear(768, 2)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(lib.arange(tokens.shape[1]))
            for b in self.blocks:
                x = b(x)
            return self.head(x[:, 0])

    return Bert()


def vit(lib, small):
    nn, block = lib.nn, transformer(lib, 768, 12, False)

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 768, 16, 16)
            self.first = nn.Parameter(lib.zeros(1, 1, 768))
            self.places = nn.Parameter(lib.zeros(1, 197, 768))
            self.blocks = nn.ModuleList(block() for _ in range(1 if small else 12))
            self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

        def forward(self, images):
            x = self.patches(images).flatten(2).transpose(1, 2)
            x = lib.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
            for b in self.blocks:
                x = b(x)
            return self.head(self.norm(x)[:, 0])

    return ViT()


def lstm(lib, small):
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(256, 512, 1 if small else 2, batch_first=True)
            self.head = nn.Linear(512, 256)

        def forward(self, x):
            return self.head(self.lstm(x)[0])

    return Net()


def gpt2(lib, small):
    nn, block = lib.nn, transformer(lib, 768, 12, True)

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
            self.blocks = nn.ModuleList(block() for _ in range(1 if small else 12))
            self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 50257, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens, position=None, caches=None):
            place = lib.arange(tokens.shape[1]) if position is None else position
            x = self.tokens(tokens) + self.places(place)
            for i, b in enumerate(self.blocks):
                x = b(x, None if caches is None else caches[i])
            return self.head(self.norm(x[:, -1:]))

    return GPT2()


# --- what is run: name -> (model, function of (library, model, dtype, small, compiled) giving a run) -------------


def forward(make):
    """A run of one call with inputs that ``make(numpy, small)`` gives."""

    def build(lib, model, dtype, small, compiled):
        x = lib.tensor(make(np.random.RandomState(0), small))
        x = x.to(dtype) if x.is_floating_point() else x
        call = lib.compile(model) if compiled else model

        def run():
            with lib.no_grad():
                return call(x)

        return run, 1

    return build


def prefill(random, small):
    return random.randint(0, 50257, (1, 64 if small else 512))


def decode(growing):
    """Decoding of tokens one by one: run() gives the last scores; time is for a token."""

    def build(lib, model, dtype, small, compiled):
        start, count = (16, 8) if small else (512, 128)
        layers, size = len(model.blocks), start + count
        zeros = lib.zeros(layers, 2, 1, 12, size, 64, dtype=dtype)

        def static(position, keys_and_values):
            mask = (lib.arange(size) <= position)[None]

            def cache(i):
                def add(k, v):
                    keys_and_values[i, 0].index_copy_(2, position, k)
                    keys_and_values[i, 1].index_copy_(2, position, v)
                    return keys_and_values[i, 0], keys_and_values[i, 1], mask

                return add

            return [cache(i) for i in range(layers)]

        def step(token, position, held):
            return model(token, position, static(position, held)).argmax(-1)

        def growing_step(token, position, *held):
            new = []

            def cache(i):
                def add(k, v):
                    new.extend((lib.cat([held[2 * i], k], 2), lib.cat([held[2 * i + 1], v], 2)))
                    return new[-2], new[-1], None

                return add

            token = model(token, position, [cache(i) for i in range(layers)]).argmax(-1)
            return token, *new

        call = growing_step if growing else step
        call = lib.compile(call, **({"dynamic": True} if growing else {})) if compiled else call

        def run():
            token = lib.tensor([[5]])
            with lib.no_grad():
                held = [zeros[i, j, :, :, :start] for i in range(layers) for j in (0, 1)] if growing else zeros
                for i in range(start, size):
                    position = lib.tensor([i])
                    if growing:
                        token, *held = call(token, position, *held)
                    else:
                        token = call(token, position, held)
            return token

        return run, count

    return build


def pictures(random, small):
    return random.randn(1, 3, 64 if small else 224, 64 if small else 224).astype(np.float32)


RUNS = {
    "resnet50": (resnet50, forward(pictures)),
    "bert": (bert, forward(lambda random, small: random.randint(0, 30522, (1, 32 if small else 128)))),
    "vit": (vit, forward(lambda random, small: random.randn(1, 3, 224, 224).astype(np.float32))),
    "lstm": (lstm, forward(lambda random, small: random.randn(4, 8 if small else 64, 256).astype(np.float32))),
    "gpt2 prefill": (gpt2, forward(prefill)),
    "gpt2 static": (gpt2, decode(False)),
    "gpt2 growing": (gpt2, decode(True)),
}


# --- dtypes -----------------------------------------------------------------------------------


def narrow_linear(lib, bits):
    """A class of linear layers with narrow weights, by the packed product of the library."""
    nn = lib.nn

    class Narrow(nn.Module):
        def __init__(self, linear):
            super().__init__()
            weight = linear.weight.detach()
            self.bias, self.rows = linear.bias, weight.shape[0]
            if bits == 8:
                scales = weight.abs().amax(1) / 127
                self.weight = (weight / scales[:, None]).round().to(lib.int8)
                self.scales = scales.to(lib.bfloat16)
            else:
                groups = weight.unflatten(1, (-1, 32))
                scales = groups.abs().amax(2).clamp(min=1e-8) / 7
                numbers = ((groups / scales[..., None]).round() + 8).clamp(0, 15).flatten(1).to(lib.int32)
                self.weight = lib.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
                zeros = lib.zeros_like(scales)
                self.scales = lib.stack([scales, zeros], -1).transpose(0, 1).contiguous().to(lib.bfloat16)

        def forward(self, x):
            rows = x.to(lib.bfloat16).flatten(0, -2)
            if bits == 8:
                y = lib.ops.aten._weight_int8pack_mm(rows, self.weight, self.scales)
            else:
                y = lib.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, 32, self.scales)
            y = y.unflatten(0, x.shape[:-1]).to(x.dtype)
            return y if self.bias is None else y + self.bias

    return Narrow


def converted(lib, model, kind):
    """(the model, the dtype of its inputs)."""
    if kind == "bfloat16":
        return model.to(lib.bfloat16), lib.bfloat16
    if kind == "int8":
        return lib.ao.quantization.quantize_dynamic(model, {lib.nn.Linear, lib.nn.LSTM}, lib.qint8), lib.float32
    if kind in ("int8w", "int4w"):
        narrow = narrow_linear(lib, int(kind[3]))
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, lib.nn.Linear) and child.weight.shape[0] % 32 == 0:
                    setattr(module, name, narrow(child))
    return model, lib.float32


# --- measuring --------------------------------------------------------------------------------


def wait(result):
    result = result[0] if isinstance(result, tuple) else result
    return result.detach().float().numpy()


def measure(runs, rounds, budget):
    """Median seconds of each run, the runs taking turns."""
    times = [[] for _ in runs]
    for run in runs:
        for _ in range(2):
            wait(run())
    start = time.perf_counter()
    for i in range(rounds):
        for run, own in zip(runs if i % 2 else runs[::-1], times if i % 2 else times[::-1]):
            settled = time.perf_counter() + SETTLE
            while time.perf_counter() < settled:
                wait(run())
            before = time.perf_counter()
            wait(run())
            own.append(time.perf_counter() - before)
        if time.perf_counter() - start > budget and i > 1:
            break
    return [statistics.median(own) for own in times]


def build(lib, name, kind, small, compiled, state):
    lib.manual_seed(0)
    make, runner = RUNS[name]
    model = make(lib, small).eval()
    if state is not None:
        model.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
    model, dtype = converted(lib, model, kind)
    return runner(lib, model, dtype, small, compiled)


def compare(name, kind, options):
    """(compiled ratio, eager ratio), or None where a library lacks something."""
    torch.manual_seed(0)
    state = {k: v.numpy() for k, v in RUNS[name][0](torch, options.small).state_dict().items()}
    runs, labels, count = [], [], 1
    for lib, compiled in ((ftorch, True), (ftorch, False), (torch, False), (torch, True)):
        if lib is torch and compiled and not options.torch_compile:
            continue
        try:
            run, count = build(lib, name, kind, options.small, compiled, state)
            wait(run())
        except (AttributeError, NotImplementedError, RuntimeError, ModuleNotFoundError) as error:
            print(f"{name:14}{kind:10}{lib.__name__} {'compiled' if compiled else 'eager'}: "
                  f"{type(error).__name__}: {str(error).splitlines()[0][:80]}", flush=True)
            if compiled and lib is torch:
                continue
            return None
        runs.append(run)
        labels.append((lib.__name__, compiled))
    if kind in ("float32",) and "gpt2 " not in name:
        np.testing.assert_allclose(wait(runs[0]()), wait(runs[2]()), rtol=1e-2, atol=1e-3)
    found = dict(zip(labels, measure(runs, options.rounds, options.budget)))
    best = min(s for (lib, _), s in found.items() if lib == "torch")
    ratios = found["ftorch", True] / best, found["ftorch", False] / found["torch", False]
    shown = "".join(f"{found.get(key, math.nan) * 1e3 / count:>10.2f}" for key in
                    (("ftorch", True), ("ftorch", False), ("torch", False), ("torch", True)))
    print(f"{name:14}{kind:10}{shown}{ratios[0]:>10.2f}{ratios[1]:>8.2f}", flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each line")
    parser.add_argument("--only", help="names that begin so")
    parser.add_argument("--dtypes", default="float32,bfloat16,int8,int8w,int4w")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--torch-compile", action="store_true")
    options = parser.parse_args()
    print(f"{'ms':14}{'':10}{'compiled':>10}{'eager':>10}{'PyTorch':>10}{'compiled':>10}{'ratio':>10}{'eager':>8}")
    ratios = []
    for name in RUNS:
        if options.only and not name.startswith(options.only):
            continue
        for kind in options.dtypes.split(","):
            found = compare(name, kind, options)
            if found is not None:
                ratios.append(found)
    if ratios:
        means = [math.exp(statistics.fmean(math.log(r[i]) for r in ratios)) for i in (0, 1)]
        print(f"geometric means: compiled {means[0]:.2f} (goal 0.70), eager {means[1]:.2f} (goal 1.00)")


if __name__ == "__main__":
    main()
