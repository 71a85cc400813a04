"""Eager speed against PyTorch: both libraries in one process, in turns, the median of many rounds.

    python benchmarks/eager.py [--rounds 40]

Needs PyTorch. Both use the machine's threads. A ratio below 1 means ftorch is faster.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import ftorch

CHAIN = 40
RUNS = 3  # measured at each turn
SETTLE = 0.02  # s of unmeasured runs at each turn: the other library's threads go on spinning some 10 ms


def add_chain(lib):
    """40 additions of 4x4 tensors, then a look at the result."""
    x, y = lib.ones(4, 4), lib.ones(4, 4)

    def run():
        z = x
        for _ in range(CHAIN):
            z = z + y
        return z.sum().item()

    return run


def tanh_chain(lib):
    """40 times ``tanh(x @ w)`` at 64x64."""
    lib.manual_seed(0)
    start, w = lib.randn(64, 64), lib.randn(64, 64) / 8

    def run():
        x = start
        for _ in range(CHAIN):
            x = lib.tanh(x @ w)
        return x.sum().item()

    return run


def training(lib, batch, width, steps):
    """Steps of a Linear-ReLU-Linear-ReLU-Linear network with Adam."""
    lib.manual_seed(0)
    nn = lib.nn
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    x, y = lib.randn(batch, width), lib.randint(0, 10, (batch,))

    def run():
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return loss.item()  # pyright: ignore[reportPossiblyUnbound]

    return run


# name: (what makes it, operations or steps in a run, the goal for the ratio)
BENCHMARKS = {
    "add 4x4, chain of 40": (add_chain, CHAIN, 3.0),
    "tanh(x @ w) 64x64, chain of 40": (tanh_chain, CHAIN, 1.0),
    "Adam step, batch 32 width 64": (lambda lib: training(lib, 32, 64, 10), 10, 1.0),
    "Adam step, batch 64 width 256": (lambda lib: training(lib, 64, 256, 5), 5, 1.0),
    "Adam step, batch 256 width 1024": (lambda lib: training(lib, 256, 1024, 2), 2, 1.0),
}


def measure(make, rounds):
    """(median seconds of a run, of each library), the libraries taking turns."""
    runs = [make(lib) for lib in (ftorch, torch)]
    times: list[list[float]] = [[], []]
    for round in range(rounds + 5):
        for run, own in zip(runs, times):
            settled = time.perf_counter() + SETTLE
            while time.perf_counter() < settled:
                run()
            for _ in range(RUNS):
                start = time.perf_counter()
                run()
                if round >= 5:
                    own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print(f"{'':34}{'ftorch':>12}{'PyTorch':>12}{'ratio':>8}{'goal':>6}")
    for name, (make, count, goal) in BENCHMARKS.items():
        mine, theirs = (t / count * 1e6 for t in measure(make, options.rounds))
        print(f"{name:34}{mine:>9.1f} us{theirs:>9.1f} us{mine / theirs:>8.2f}{goal:>6.1f}")


if __name__ == "__main__":
    main()
