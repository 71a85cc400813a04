"""The host tier's kernels against single calls of PyTorch: both in one process, in turns, the minimum of rounds.

    python benchmarks/host.py [--rounds 25] [--only REGEX] [--threads N]

Needs PyTorch and the C++ kernels. A ratio below 1 means the kernels, called on NumPy arrays without XLA, are faster.
"""

from __future__ import annotations

import argparse
import math
import re
import time

import numpy as np
import torch

from ftorch.eager.host import native_calls as calls

ENOUGH = 2e-4  # s a measurement lasts at least
FLOAT = np.dtype(np.float32)


def numbers(*shape, dtype=FLOAT):
    return (np.abs(np.random.default_rng(0).normal(size=shape)) + 0.1).astype(dtype)


def functions():
    names = {
        "exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "logistic": torch.sigmoid, "erf": torch.erf,
        "sin": torch.sin, "expm1": torch.expm1, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
        "exp2": torch.exp2, "erfc": torch.erfc, "neg": torch.neg,
    }
    for name, theirs in names.items():
        for dtype in ("float32", "float64"):
            program = calls.elementwise((dtype,), ((name, dtype, 0),), (1,))
            x = numbers(100_000, dtype=dtype)
            t = torch.from_numpy(x)
            yield f"{name} {dtype}", lambda p=program, x=x: p((x,), x.shape), lambda f=theirs, t=t: f(t)


def chains():
    add = calls.elementwise((FLOAT, FLOAT), (("add", FLOAT, 0, 1),), (2,))
    steps = (("add", FLOAT, 0, 1), ("tanh", FLOAT, 2), ("mul", FLOAT, 3, 0), ("sub", FLOAT, 4, 1))
    chain = calls.elementwise((FLOAT, FLOAT), steps, (5,))
    shapes = [((n,), (n,)) for n in (16, 1000, 100_000, 1_000_000, 10_000_000)]
    shapes += [
        ((1000, 1000), (1000,)),
        ((1000, 1000), (1000, 1)),
        ((100_000, 10), (10,)),
        ((100_000, 10), (100_000, 1)),
        ((64, 64, 14, 14), (64, 1, 1)),
    ]
    for left, right in shapes:
        x, y = numbers(*left), numbers(*right)
        t, u = torch.from_numpy(x), torch.from_numpy(y)
        yield f"add {left} {right}", lambda x=x, y=y: add((x, y), x.shape), lambda t=t, u=u: t + u
        yield (
            f"tanh(x + y) * x - y {left} {right}",
            lambda x=x, y=y: chain((x, y), x.shape),
            lambda t=t, u=u: torch.tanh(t + u) * t - u,
        )
    x, t = numbers(1000, 1000), torch.from_numpy(numbers(1000, 1000))
    yield "add (1000, 1000) transposed", lambda: add((x, x.T), x.shape), lambda: t + t.T


def reductions():
    shapes = [((16,), (0,)), ((1000,), (0,)), ((1_000_000,), (0,)), ((10_000_000,), (0,)), ((1000, 1000), (1,)),
              ((1000, 1000), (0,)), ((100_000, 10), (1,)), ((100_000, 10), (0,)), ((64, 64, 14, 14), (0, 2, 3))]
    for shape, axes in shapes:
        x = numbers(*shape)
        t = torch.from_numpy(x)
        for name, theirs in {"reduce_sum": torch.sum, "reduce_max": torch.amax}.items():
            program = calls.elementwise((FLOAT,), (), ((name, 0),), axes=axes)
            yield (
                f"{name} {shape} {axes}",
                lambda p=program, x=x: p((x,), x.shape),
                lambda f=theirs, t=t, axes=axes: f(t, axes),
            )
    steps = (("sub", FLOAT, 0, 1), ("exp", FLOAT, 2))
    program = calls.elementwise((FLOAT, FLOAT), steps, (("reduce_sum", 3),), axes=(1,))
    x = numbers(1000, 1000)
    t = torch.from_numpy(x)
    yield "sum of exp(x - y)", lambda: program((x, 0.5), x.shape), lambda: (t - 0.5).exp().sum(1)


def products():
    product = calls.module.Product((1,), (0,), (), ())
    sizes = [(16, 16, 16), (64, 256, 256), (256, 256, 256), (1, 1024, 1024), (512, 1024, 512), (1000, 10, 300)]
    for m, n, k in sizes:
        x, y = numbers(m, k), numbers(k, n)
        t, u = torch.from_numpy(x), torch.from_numpy(y)
        yield f"product {m} {n} {k}", lambda x=x, y=y: product(x, y), lambda t=t, u=u: t @ u
        w = np.ascontiguousarray(y.T)
        v = torch.from_numpy(w)
        yield f"product {m} {n} {k}, transposed", lambda x=x, w=w: product(x, w.T), lambda t=t, v=v: t @ v.T
    batched = calls.module.Product((2,), (1,), (0,), (0,))
    x, y = numbers(32, 64, 32), numbers(32, 32, 64)
    t, u = torch.from_numpy(x), torch.from_numpy(y)
    yield "product, 32 of 64 64 32", lambda: batched(x, y), lambda: torch.bmm(t, u)


def timed(run, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
        calls.module.set_threads(given.threads)
    ratios = []
    for group in (functions, chains, reductions, products):
        for name, *both in group():
            if not re.search(given.only, name):
                continue
            best = [math.inf, math.inf]
            repeats = [max(1, int(ENOUGH / max(timed(run, 1), 1e-7))) for run in both]
            for _ in range(given.rounds):
                for k, run in enumerate(both):
                    best[k] = min(best[k], timed(run, repeats[k]))
            ratios.append(best[0] / best[1])
            print(f"{name:<50} {best[0] * 1e6:10.2f} us  PyTorch {best[1] * 1e6:10.2f}  {ratios[-1]:6.2f}", flush=True)
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
