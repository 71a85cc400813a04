"""Eager and compiled work on a GPU against PyTorch's CUDA, in one process, in turns, values compared where they are defined.

    python benchmarks/accelerator.py [--only REGEX] [--device cuda] [--rounds 12] [--small]

Needs PyTorch built for the device. Each line is the median time of a call that ends when the device has finished; a ratio
below 1 means that ftorch is faster. `--small` with `--device cpu` is for trying the program out.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import statistics
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs room, too

import programs
import torch

import ftorch

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def random(lib, *shape, dtype="float32"):
    return lib.randn(*shape, dtype=getattr(lib, dtype))


# --- operations


@case
def eager_calls(lib, n):
    """Ten small operations one after the other: what a call costs."""
    x, y = random(lib, 32, 32), random(lib, 32, 32)

    def run():
        z = x
        for _ in range(5):
            z = (z + y) * y
        return z

    return run


@case
def elementwise_chain(lib, n):
    x = random(lib, n * 1024, 1024)
    return lambda: ((x * 1.1 + x.sin()) * x.exp()).tanh().sum(1)


@case
def product_float32(lib, n):
    a, b = random(lib, n * 256, 4096), random(lib, 4096, n * 256)
    return lambda: a @ b


@case
def product_bfloat16(lib, n):
    a, b = random(lib, n * 256, 4096, dtype="bfloat16"), random(lib, 4096, n * 256, dtype="bfloat16")
    return lambda: a @ b


@case
def softmax_and_layer_norm(lib, n):
    x = random(lib, n * 512, 4096)
    return lambda: lib.nn.functional.layer_norm(x.softmax(1), (4096,))


@case
def attention_bfloat16(lib, n):
    q, k, v = (random(lib, 4, 16, n * 128, 64, dtype="bfloat16") for _ in range(3))
    return lambda: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@case
def gather_and_scatter(lib, n):
    x, i = random(lib, n * 65536, 64), lib.randint(0, n * 65536, (n * 65536,))
    return lambda: lib.zeros_like(x).index_add_(0, i, x[i])


@case
def sort_and_topk(lib, n):
    x = random(lib, n * 64, 4096)
    return lambda: (x.sort(1).values, x.topk(10, 1).values)


@case
def item_of_a_sum(lib, n):
    """A number that Python reads after each step."""
    x = random(lib, 1024)
    return lambda: (x * 2).sum().item()


@case
def write_of_a_row(lib, n):
    """A write into a tensor of n * 8 MB."""
    x, row = random(lib, n * 2048, 1024), random(lib, 1024)

    def run():
        x[n] = row
        return x[n]

    return run


# --- steps of training


@case
def mlp_step(lib, n):
    return programs.mlp(lib, width=n * 128, batch=n * 32)


@case
def gpt_step(lib, n):
    return programs.gpt(lib, layers=12, width=48 * n, heads=12, length=32 * n, batch=4, vocabulary=3141 * n)


@case
def resnet_step(lib, n):
    counts = (3, 4, 6, 3) if n >= 16 else (1, 1, 1, 1)
    return programs.resnet(lib, counts, width=4 * n, size=14 * n, batch=2 * n)


@case
def gpt_step_mixed(lib, n):
    step = programs.gpt(lib, layers=12, width=48 * n, heads=12, length=32 * n, batch=4, vocabulary=3141 * n)

    def run():
        with lib.autocast(str(lib.get_default_device().type), dtype=lib.bfloat16):
            return step()

    return run


@case
def lengths_that_change(lib, n):
    """A GPT's forward pass of a new length at each call."""
    net = lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(32 * n, 8, 128 * n, 0.0, batch_first=True), 2)
    lengths = iter(range(17, 100_000))

    def run():
        return net(lib.randn(4, next(lengths), 32 * n)).sum()

    return run


def compiled(name):
    """A case whose model runs compiled, but PyTorch's: against eager PyTorch."""

    def make(lib, n):
        step = CASES[name](lib, n)
        if lib is torch:
            return step
        model = next(c.cell_contents for c in step.__closure__ if isinstance(c.cell_contents, lib.nn.Module))
        model.compile()
        return step

    return make


for _name in ("mlp_step", "gpt_step", "resnet_step"):
    CASES[f"{_name}_compiled"] = functools.wraps(CASES[_name])(compiled(_name))


# --- measuring


def wait(lib, result):
    if hasattr(result, "device") and result.device.type == "cuda":
        lib.cuda.synchronize()
    elif lib is ftorch:
        for r in result if isinstance(result, tuple) else (result,):
            if hasattr(r, "detach"):
                r.detach().flatten()[:1].tolist()
    return result


def measure(runs, rounds, budget):
    """Median seconds of each run, in turns; first those of the first call."""
    firsts, times = [], [[] for _ in runs]
    for lib, run in runs:
        start = time.perf_counter()
        wait(lib, run())
        firsts.append(time.perf_counter() - start)
        for _ in range(3):
            wait(lib, run())
    end = time.perf_counter() + budget
    for _ in range(rounds):
        for (lib, run), own in zip(runs, times):
            run()
            wait(lib, run())
            start = time.perf_counter()
            wait(lib, run())
            own.append(time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return firsts, [statistics.median(own) for own in times]


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--budget", type=float, default=8.0, help="seconds for each line")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    n = 2 if options.small else 16
    ratios = []
    print(f"{'':28}{'ftorch ms':>11}{'PyTorch ms':>11}{'ratio':>8}   first calls s", flush=True)
    for name, make in CASES.items():
        if not re.search(options.only, name):
            continue
        try:
            runs = []
            for lib in (ftorch, torch):
                lib.set_default_device(options.device)
                lib.manual_seed(0)
                runs.append((lib, make(lib, n)))
            firsts, (mine, theirs) = measure(runs, options.rounds, options.budget)
        except Exception as error:  # the other lines are wanted, too
            print(f"{name:28} {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        ratios.append(mine / theirs)
        times = f"{mine * 1e3:>11.3f}{theirs * 1e3:>11.3f}{mine / theirs:>8.2f}"
        print(f"{name:28}{times}   {firsts[0]:.2f} {firsts[1]:.2f}", flush=True)
    if ratios:
        print(f"{'geometric mean':50}{statistics.geometric_mean(ratios):>8.2f}")


if __name__ == "__main__":
    main()
