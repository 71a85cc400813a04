"""Writes into a part of a tensor, then a read of what was written, against PyTorch.

    python benchmarks/writes.py [--megabytes 1 16 256 1024] [--rounds 40] [--cases NAME ...]

Both libraries run in one process and take turns; results are compared. Each line is one kind of write at one size of
the tensor that is written to: microseconds for a write and the read after it (medians of the rounds, ten writes in
each), and their ratio. What a write costs must not grow with the size. Needs PyTorch, and memory for two such tensors.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time

import torch

import ftorch

COLUMNS = 2000
REPEATED = 10  # writes in a round


# --- the cases: (library, rows) -> a function of a number that writes, and gives what is read ---------


def _table(lib, rows):
    return lib.zeros(rows, COLUMNS)


def row(lib, rows):
    x, new = _table(lib, rows), lib.ones(COLUMNS)

    def write(i):
        x[i % rows] = new
        return x[i % rows].sum()

    return write


def element(lib, rows):
    x = _table(lib, rows)

    def write(i):
        x[i % rows, i % COLUMNS] = 3.0
        return x[i % rows, i % COLUMNS]

    return write


def block(lib, rows):
    x = _table(lib, rows)

    def write(i):
        x[i % 50 : i % 50 + 10, 5:90] = 2.0
        return x[i % 50, 5:9].sum()

    return write


def chain(lib, rows):
    x = _table(lib, rows)

    def write(i):
        x[i % rows].mul_(0.5).add_(1)
        return x[i % rows, 3]

    return write


def index_copy(lib, rows):
    x, new, index = _table(lib, rows), lib.ones(64, COLUMNS), lib.arange(64)

    def write(i):
        x.index_copy_(0, index, new)
        return x[i % rows, 3]

    return write


def index_put(lib, rows):
    x, new, index = _table(lib, rows), lib.ones(64, COLUMNS), lib.arange(64)

    def write(i):
        x[index] = new
        return x[i % rows, 3]

    return write


def index_add(lib, rows):
    x, new, index = _table(lib, rows), lib.ones(64, COLUMNS), lib.arange(64)

    def write(i):
        x.index_add_(0, index, new)
        return x[i % rows, 3]

    return write


def scatter(lib, rows):
    x, index, new = _table(lib, rows), (lib.arange(COLUMNS) % rows).unsqueeze(0), lib.ones(1, COLUMNS)

    def write(i):
        x.scatter_(0, index, new)
        return x[i % rows, 3]

    return write


def mask(lib, rows):
    x, chosen = _table(lib, rows), lib.arange(rows) % max(1, rows // 50) == 0

    def write(i):
        x[chosen] = 4.0
        return x[i % rows, 3]

    return write


def replay_buffer(lib, rows):
    """Eight observations are appended, a batch of 32 is drawn."""
    x, new = _table(lib, rows), lib.ones(COLUMNS)
    drawn = (lib.arange(32) * 7) % rows

    def write(i):
        for k in range(8):
            x[(8 * i + k) % rows] = new
        return x[drawn].sum()

    return write


def static_cache(lib, rows):
    """A token's keys into a cache of (heads, positions, width), which attention reads then."""
    positions = rows * COLUMNS // (8 * 64)
    cache, new, at = lib.zeros(8, positions, 64), lib.ones(8, 1, 64), lib.zeros(1, dtype=lib.int64)

    def write(i):
        at.fill_(i % positions)
        cache.index_copy_(1, at, new)
        return cache[:, i % positions].sum()

    return write


CASES = {
    "row": row, "element": element, "block": block, "row.mul_().add_()": chain, "index_copy_": index_copy,
    "x[index] = rows": index_put, "index_add_": index_add, "scatter_": scatter, "x[mask] = number": mask,
    "replay buffer": replay_buffer, "static cache": static_cache,
}


# --- measuring --------------------------------------------------------------------------------


def measure(case, rows, rounds):
    """({library: seconds of a write in each round}, whether all that was read is equal)."""
    writes = {"ftorch": case(ftorch, rows), "torch": case(torch, rows)}
    times: dict[str, list[float]] = {name: [] for name in writes}
    equal = True
    for turn in range(rounds + 3):
        read = {}
        for name in ("ftorch", "torch") if turn % 2 else ("torch", "ftorch"):
            start = time.perf_counter()
            read[name] = [writes[name](turn * REPEATED + i).item() for i in range(REPEATED)]
            if turn >= 3:
                times[name].append((time.perf_counter() - start) / REPEATED)
        equal &= read["ftorch"] == read["torch"]
    return times, equal


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="*", default=[1, 16, 256, 1024])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    options = parser.parse_args()
    ratios = []
    print(f"{'write':20}{'MB':>6}{'ftorch us':>11}{'PyTorch us':>12}{'ratio':>8}")
    for name in options.cases:
        for megabytes in options.megabytes:
            times, equal = measure(CASES[name], megabytes * (1 << 20) // (4 * COLUMNS), options.rounds)
            ours, theirs = (statistics.median(times[side]) * 1e6 for side in ("ftorch", "torch"))
            ratios.append(ours / theirs)
            note = "" if equal else "  VALUES DIFFER"
            print(f"{name:20}{megabytes:6}{ours:11.1f}{theirs:12.1f}{ours / theirs:8.2f}{note}", flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}, greatest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
