"""Single operators against PyTorch: both libraries in one process, in turns, the minimum of rounds.

    python benchmarks/ops.py [--rounds 7] [--only REGEX] [--all]

Needs PyTorch. A ratio below 1 means ftorch is faster. "gradients" is a forward pass and the gradients
of all inputs. Without ``--all`` the convolutions are some of the grid of channels and batches. Both
libraries use the cores that the process may run on; on a machine with other work to do, PyTorch's
threads wait for each other, and ``taskset -c 0 python benchmarks/ops.py`` compares on equal terms.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import time

import torch

import ftorch

SETTLE = 0.02  # s of unmeasured runs at each turn: the other library's threads go on spinning some 10 ms
ENOUGH = 0.01  # s a measurement lasts at least


def _look(lib, tensors):
    """Computes what is pending, without copying it."""
    if lib is ftorch:
        for t in tensors:
            t.jax().block_until_ready()


def _case(function, *shapes, gradients=False, make=None):
    """What makes a benchmark: ``lib -> run``, of a function of ``(lib, *tensors)``."""

    def benchmark(lib):
        lib.manual_seed(0)
        inputs = [lib.randn(*s) for s in shapes] + list(make(lib) if make else ())
        if not gradients:
            return lambda: _look(lib, [function(lib, *inputs)])
        for x in inputs:
            x.requires_grad_(x.is_floating_point())
        wanted = [x for x in inputs if x.requires_grad]
        with lib.no_grad():
            seed = lib.randn(*function(lib, *inputs).shape)

        def run():
            _look(lib, lib.autograd.grad(function(lib, *inputs), wanted, seed))

        return run

    return benchmark


def _both(name, function, *shapes, make=None):
    yield name, _case(function, *shapes, make=make)
    yield f"{name}, gradients", _case(function, *shapes, gradients=True, make=make)


def convolutions(everything):
    grid = itertools.product((3, 1), (32, 64, 128, 256), (1, 32)) if everything else [
        (3, 32, 32), (3, 64, 1), (3, 64, 32), (3, 128, 1), (3, 256, 1), (3, 256, 32), (1, 64, 1),
        (1, 64, 32), (1, 256, 1), (1, 256, 32),
    ]
    for k, channels, batch in grid:
        side = {32: 56, 64: 56, 128: 28, 256: 14}[channels] // (2 if batch > 1 else 1)
        yield from _both(
            f"conv {k}x{k}, {channels} channels, {batch}x{side}x{side}",
            lambda lib, x, w, p=k // 2: lib.nn.functional.conv2d(x, w, padding=p),
            (batch, channels, side, side), (channels, channels, k, k),
        )
    F = lambda lib: lib.nn.functional  # noqa: E731
    yield from _both(
        "conv 3x3 stride 2, 64 to 128, 8x56x56",
        lambda lib, x, w: F(lib).conv2d(x, w, stride=2, padding=1), (8, 64, 56, 56), (128, 64, 3, 3),
    )
    yield from _both(
        "conv 7x7 stride 2, 3 to 64, 4x112x112",
        lambda lib, x, w: F(lib).conv2d(x, w, stride=2, padding=3), (4, 3, 112, 112), (64, 3, 7, 7),
    )
    yield from _both(
        "conv 5x5, 1 to 32, 64x28x28",
        lambda lib, x, w: F(lib).conv2d(x, w, padding=2), (64, 1, 28, 28), (32, 1, 5, 5),
    )
    yield from _both(
        "depthwise 3x3, 128 channels, 4x28x28",
        lambda lib, x, w: F(lib).conv2d(x, w, padding=1, groups=128), (4, 128, 28, 28),
        (128, 1, 3, 3),
    )
    yield from _both(
        "depthwise 3x3 stride 2, 96 channels, 1x112x112",
        lambda lib, x, w: F(lib).conv2d(x, w, stride=2, padding=1, groups=96), (1, 96, 112, 112),
        (96, 1, 3, 3),
    )
    yield from _both(
        "depthwise 7x7, 192 channels, 8x28x28",
        lambda lib, x, w: F(lib).conv2d(x, w, padding=3, groups=192), (8, 192, 28, 28),
        (192, 1, 7, 7),
    )
    yield from _both(
        "transposed 4x4 stride 2, 64 to 32, 8x16x16",
        lambda lib, x, w: F(lib).conv_transpose2d(x, w, stride=2, padding=1), (8, 64, 16, 16),
        (64, 32, 4, 4),
    )
    yield from _both(
        "conv1d 5, 64 channels, 16x256",
        lambda lib, x, w: F(lib).conv1d(x, w, padding=2), (16, 64, 256), (64, 64, 5),
    )


def others():
    F = lambda lib: lib.nn.functional  # noqa: E731
    images = (8, 64, 56, 56)
    yield from _both("max_pool2d 2", lambda lib, x: F(lib).max_pool2d(x, 2), images)
    yield from _both("max_pool2d 3, stride 2", lambda lib, x: F(lib).max_pool2d(x, 3, 2, 1), images)
    yield from _both("avg_pool2d 2", lambda lib, x: F(lib).avg_pool2d(x, 2), images)
    yield from _both(
        "adaptive_avg_pool2d 1", lambda lib, x: F(lib).adaptive_avg_pool2d(x, 1), images
    )
    for mode in ("nearest", "bilinear", "bicubic"):
        yield from _both(
            f"interpolate {mode} x2",
            lambda lib, x, m=mode: F(lib).interpolate(x, scale_factor=2, mode=m), (4, 32, 28, 28),
        )
    index = lambda lib: [lib.randint(0, 1000, (20000,))]  # noqa: E731
    yield from _both(
        "index_add 20000x32 to 1000", lambda lib, x, y, i: x.index_add(0, i, y), (1000, 32),
        (20000, 32), make=index,
    )
    yield from _both(
        "scatter_add 20000 to 1000", lambda lib, x, y, i: x.scatter_add(0, i, y), (1000,), (20000,),
        make=index,
    )
    yield from _both("x[i], 20000 of 1000x32", lambda lib, x, i: x[i], (1000, 32), make=index)
    yield from _both(
        "embedding 20000 of 1000x64", lambda lib, w, i: F(lib).embedding(i, w), (1000, 64), make=index
    )
    yield from _both(
        "gather 256x1000", lambda lib, x, i: x.gather(1, i), (256, 1000),
        make=lambda lib: [lib.randint(0, 1000, (256, 100))],
    )
    yield from _both(
        "scatter_add 20000x64 to 1000, index expanded",
        lambda lib, x, y, i: x.scatter_add(0, i[:, None].expand(-1, 64), y), (1000, 64), (20000, 64),
        make=index,
    )
    yield from _both(
        "gather 20000x64 of 1000, index expanded",
        lambda lib, x, i: x.gather(0, i[:, None].expand(-1, 64)), (1000, 64), make=index,
    )
    yield from _both(
        "embedding_bag 64x50 of 5000x64", lambda lib, w, i: F(lib).embedding_bag(i, w), (5000, 64),
        make=lambda lib: [lib.randint(0, 5000, (64, 50))],
    )
    yield from _both(
        "grid_sample 4x32x28x28",
        lambda lib, x, g: F(lib).grid_sample(x, g.tanh(), align_corners=False), (4, 32, 28, 28),
        (4, 28, 28, 2),
    )
    yield "sort 100000", _case(lambda lib, x: lib.sort(x)[0], (100000,))
    yield "sort 256x1000", _case(lambda lib, x: lib.sort(x, dim=1)[0], (256, 1000))
    yield "argsort 256x1000", _case(lambda lib, x: lib.argsort(x, dim=1), (256, 1000))
    yield "topk 10 of 256x1000", _case(lambda lib, x: lib.topk(x, 10)[0], (256, 1000))
    yield "topk 50 of 50000", _case(lambda lib, x: lib.topk(x, 50)[0], (50000,))
    yield "topk 50 of 32x32000", _case(lambda lib, x: lib.topk(x, 50)[0], (32, 32000))
    yield "median 256x1000", _case(lambda lib, x: x.median(1)[0], (256, 1000))
    yield "cumsum 256x1000", _case(lambda lib, x: x.cumsum(1), (256, 1000))
    yield "cummax 256x1000", _case(lambda lib, x: x.cummax(1)[0], (256, 1000))
    yield "logcumsumexp 256x1000", _case(lambda lib, x: x.logcumsumexp(1), (256, 1000))
    yield "unique 20000", _case(
        lambda lib, i: lib.unique(i), make=lambda lib: [lib.randint(0, 500, (20000,))]
    )
    yield "sum(0) 1000x1000", _case(lambda lib, x: x.sum(0), (1000, 1000))
    yield "sum(1) 1000x1000", _case(lambda lib, x: x.sum(1), (1000, 1000))
    yield "sum 1000x1000", _case(lambda lib, x: x.sum(), (1000, 1000))
    yield "max(0) 1000x1000", _case(lambda lib, x: x.max(0)[0], (1000, 1000))
    yield "argmax(1) 1000x1000", _case(lambda lib, x: x.argmax(1), (1000, 1000))
    yield "std(0) 1000x1000", _case(lambda lib, x: x.std(0), (1000, 1000))
    yield from _both("softmax 256x1000", lambda lib, x: x.softmax(1), (256, 1000))
    yield from _both(
        "layer_norm 256x1024", lambda lib, x: F(lib).layer_norm(x, (1024,)), (256, 1024)
    )
    yield from _both(
        "batch_norm 32x64x28x28", lambda lib, x: F(lib).batch_norm(x, None, None, training=True),
        (32, 64, 28, 28),
    )
    for n, m, k in ((127, 129, 131), (1, 1000, 1000), (1000, 1000, 1), (333, 777, 555), (7, 4096, 9)):
        yield f"matmul {n}x{m} @ {m}x{k}", _case(lambda lib, x, y: x @ y, (n, m), (m, k))
    yield "bmm 32x65x65", _case(lambda lib, x, y: x @ y, (32, 65, 65), (32, 65, 65))
    yield "transpose copy 1000x1000", _case(lambda lib, x: x.t().contiguous(), (1000, 1000))


DTYPES = ("float64", "bfloat16", "float16", "int64", "complex64")


def dtypes():
    """The commonest operators in other dtypes than float32."""
    F = lambda lib: lib.nn.functional  # noqa: E731
    pairs = {
        "add 1000x1000": lambda lib, x, y: x + y,
        "mul, add, where 1000x1000": lambda lib, x, y: lib.where(x == y, x * y, x + 2),
        "sum(1) 1000x1000": lambda lib, x, y: x.sum(1),
        "sum 1000x1000": lambda lib, x, y: x.sum(),
        "transpose copy 1000x1000": lambda lib, x, y: x.t().contiguous(),
        "cat 2x1000x1000": lambda lib, x, y: lib.cat((x, y)),
        "cumsum 1000x1000": lambda lib, x, y: x.cumsum(1),
    }
    inexact = {
        "exp 1000x1000": lambda lib, x, y: x.exp(),
        "matmul 300x300": lambda lib, x, y: x[:300, :300] @ y[:300, :300],
    }
    floating = {
        "softmax 1000x1000": lambda lib, x, y: x.softmax(1),
        "gelu 1000x1000": lambda lib, x, y: F(lib).gelu(x),
        "layer_norm 1000x1000": lambda lib, x, y: F(lib).layer_norm(x, (1000,)),
        "max(1) 1000x1000": lambda lib, x, y: x.max(1)[0],
        "sort 100x1000": lambda lib, x, y: x[:100].sort(1)[0],
        "to float32 1000x1000": lambda lib, x, y: x.to(lib.float32),
    }
    ordered = ("max(1) 1000x1000", "sort 100x1000", "to float32 1000x1000")
    for dtype in DTYPES:
        functions = dict(pairs)
        functions |= inexact if dtype != "int64" else {name: floating[name] for name in ordered}
        functions |= floating if dtype not in ("int64", "complex64") else {}
        for name, function in functions.items():
            yield f"{dtype} {name}", _case(function, make=lambda lib, d=dtype: _of(lib, d))


def _of(lib, dtype):
    """Two matrices of a dtype."""
    drawn = [lib.randint(-9, 9, (1000, 1000)) if dtype == "int64" else lib.randn(1000, 1000) for _ in range(2)]
    return [x.to(getattr(lib, dtype)) for x in drawn]


def measure(make, rounds):
    """(least seconds of a run, of each library), the libraries taking turns."""
    runs = [make(lib) for lib in (ftorch, torch)]
    counts = []
    for run in runs:
        for _ in range(3):
            run()
        start = time.perf_counter()
        run()
        counts.append(max(1, int(ENOUGH / (time.perf_counter() - start))))
    best = [float("inf")] * 2
    for _ in range(rounds):
        for i, (run, count) in enumerate(zip(runs, counts)):
            settled = time.perf_counter() + SETTLE
            while time.perf_counter() < settled:
                run()
            start = time.perf_counter()
            for _ in range(count):
                run()
            best[i] = min(best[i], (time.perf_counter() - start) / count)
    return best


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--all", action="store_true", help="the whole grid of convolutions")
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(f"{'':50}{'ftorch':>12}{'PyTorch':>12}{'ratio':>8}")
    for name, make in itertools.chain(convolutions(options.all), others(), dtypes()):
        if re.search(options.only, name):
            mine, theirs = (t * 1e6 for t in measure(make, options.rounds))
            print(f"{name:50}{mine:>9.0f} us{theirs:>9.0f} us{mine / theirs:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
