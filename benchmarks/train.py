"""The training recipes of examples/ against PyTorch: eager steps of both in one process, in turns.

    python benchmarks/train.py [--rounds 20] [recipe ...]

Needs PyTorch. Both use the machine's threads. A ratio below 1 means ftorch is faster; the goals are
1.0 for the geometric mean and 1.5 for each.
"""

from __future__ import annotations

import argparse
import inspect
import os
import statistics
import sys
import time

import torch
from tqdm import tqdm

import ftorch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))

import common  # noqa: E402 - examples/common.py

STEPS = 10  # in a run, after which the loss is looked at
SETTLE = 0.02  # s of unmeasured steps at each turn: the other library's threads go on spinning
WARM_UP = 5
SCHEDULED = 1_000_000  # steps that schedulers are told of: more than a fast machine makes


def measure(recipe, rounds):
    """(median seconds of a step, of each library), the libraries taking turns."""
    steps = []
    for library in (ftorch, torch):
        library.manual_seed(0)
        trainer = common.load(recipe, library.__name__).trainer
        has_schedule = "steps" in inspect.signature(trainer).parameters
        step, _ = trainer(**{"steps": SCHEDULED} if has_schedule else {})
        for _ in range(WARM_UP):
            step().item()
        steps.append(step)
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for step, own in zip(steps, times):
            settled = time.perf_counter() + SETTLE
            while time.perf_counter() < settled:
                step().item()
            start = time.perf_counter()
            for _ in range(STEPS - 1):
                step()
            step().item()
            own.append((time.perf_counter() - start) / STEPS)
    return [statistics.median(own) for own in times]


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipes", nargs="*", default=common.RECIPES, metavar="recipe")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    parser.add_argument("--threads", type=int, help="PyTorch's; with 1, pin the process to a core")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    rows = []
    for recipe in tqdm(options.recipes, disable=options.no_progress):
        rows.append((recipe, *measure(recipe, options.rounds)))
    print(f"{'step of':12}{'ftorch':>12}{'PyTorch':>12}{'ratio':>8}")
    for recipe, mine, theirs in rows:
        print(f"{recipe:12}{mine * 1e3:>9.2f} ms{theirs * 1e3:>9.2f} ms{mine / theirs:>8.2f}")
    mean = statistics.geometric_mean(mine / theirs for _, mine, theirs in rows)
    print(f"{'geometric mean':36}{mean:>8.2f}")


if __name__ == "__main__":
    main()
